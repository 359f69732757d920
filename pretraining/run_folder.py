"""The folder of a pretraining run: its checkpoints, config.json, vocab.txt, and log.jsonl with the loss curve.

source, step: the checkpoint that the run resumes from, and its step; None and 0 for a new run. Only rank 0 writes.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo import BiLM
from elmo_core.display.figures import figure_file
from elmo_core.files import disk
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import checkpoint
from pretraining.meter import ADVICE


def check_folder(folder: Path, source: Path | None, step: int, overwrite: bool) -> None:
    """Raise if the folder cannot be written, or has checkpoints of another run and may not be overwritten."""
    disk.check_output("--save_dir", folder / "config.json")
    conflicting = _conflicting(folder, source, step)
    if conflicting and not overwrite:
        can_resume = any(prefix.with_name(f"{prefix.name}.pdopt").exists() for prefix in conflicting)
        advice = f"Resume it with --init_from_ckpt={folder}, choose" if can_resume else "Choose"
        raise UserError(
            f"--save_dir {folder} holds checkpoints of an earlier run: {', '.join(prefix.name for prefix in conflicting)}. "
            f"{advice} another --save_dir (and start from their weights with --finetune_from={folder}), or --overwrite them."
        )
    folder.mkdir(parents=True, exist_ok=True)


def open_folder(folder: Path, source: Path | None, step: int, config: Mapping, vocabulary: Vocabulary) -> bool:
    """Prepare the folder. A run that resumes from another folder copies its best model and log.

    Returns whether there is a best model; it is not kept if the run resumes from an earlier step.
    """
    for prefix in _conflicting(folder, source, step):
        checkpoint.delete(prefix)
    checkpoint.save_config(folder, config)
    checkpoint.save_vocabulary(folder, vocabulary)
    lines: list[dict] = []
    if source:
        best = source.parent / "best"
        if not folder.samefile(source.parent) and checkpoint.exists(best) and checkpoint.step_of(best) <= step:
            checkpoint.save(folder / "best", checkpoint.load_params(best), None, checkpoint.load_progress(best))
        lines = _read_log(source.parent)
    with disk.atomic_write(folder / "log.jsonl") as file:
        for line in lines:
            if line["step"] < step or (line["step"] == step and line["event"] != "start"):
                file.write(json.dumps(line) + "\n")
    return checkpoint.exists(folder / "best")


def _conflicting(folder: Path, source: Path | None, step: int) -> list[Path]:
    """Checkpoints of an earlier run: all in the folder or, if the run resumes from this folder, those of later steps.

    In the latter case `best` alone does not conflict: it comes from lost steps of a killed run, which will be repeated.
    """
    prefixes = [folder / name for name in checkpoint.names(folder)]
    if not prefixes or not source or not folder.samefile(source.parent):
        return prefixes
    later = [prefix for prefix in prefixes if checkpoint.step_of(prefix) > step]
    return [] if [prefix.name for prefix in later] == ["best"] else later


def save(prefix: Path, bilm: BiLM, optimizer: Mapping | None, progress: Mapping, keep: int) -> None:
    """Write a checkpoint and delete all numbered ones but the last `keep`. Raises if a weight is not finite."""
    weights = bilm.state_dict()
    if names := checkpoint.not_finite(weights):
        raise UserError(f"step {progress['step']:,}: the model is not finite ({join_names(names, 3)}). {ADVICE}")
    checkpoint.save(prefix, weights, optimizer, progress)
    checkpoint.prune(prefix.parent, keep)


def append_log(folder: Path, event: str, step: int, values: Mapping) -> None:
    """Append a line to log.jsonl: a JSON object with "event" start, training or evaluation. Only warns on failure."""
    path = folder / "log.jsonl"
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "step": step, **values}) + "\n")
    except OSError as error:
        log.warning(f"{path} could not be written: {error.strerror}. Training continues.")


def plot(folder: Path) -> Path:
    """Plot the perplexities in log.jsonl against the steps, as loss.png."""
    path, events = folder / "loss.png", _read_log(folder)
    with figure_file(path, (8, 5)) as figure:
        axes = figure.subplots()
        for event, marker in (("training", ""), ("evaluation", "o")):
            lines = [line for line in events if line["event"] == event]
            for key in lines[-1] if lines else ():
                if key.startswith(("forward", "backward")):
                    values, steps = ([_number(line.get(name)) for line in lines] for name in (key, "step"))
                    axes.plot(steps, values, label=f"{event}: {key.replace('_', ' ')}", marker=marker)
        axes.set(xlabel="step", ylabel="perplexity", yscale="log")
        axes.legend()
        axes.grid(alpha=0.3)
        figure.tight_layout()
    return path


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and abs(value) < 1e30 else math.nan


def _read_log(folder: Path) -> list[dict]:
    """Read log.jsonl, skipping a line that a kill has cut short."""
    path, lines = folder / "log.jsonl", []
    for text in read_lines(path) if path.exists() else ():
        with suppress(ValueError, RecursionError):
            lines.append(disk.parse_json(text))
    return [line for line in lines if isinstance(line, dict) and "event" in line and type(line.get("step")) is int]
