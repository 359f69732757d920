"""The folder of a pretraining run: its checkpoints, names.json, log.jsonl, and its curve.

Only rank 0 writes. Nothing else in the folder is touched.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.display.curve import CURVE, CurveFile
from elmo_core.files import disk
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.language import recognise
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.run_curve import draw_run

LOG = "log.jsonl"
CORPUS = "corpus"  # the folder of the text, if it was given to `pretrain`
TEMPORARY = re.compile(
    rf"\.(\d+|{re.escape(checkpoint.NAMES)}|{re.escape(LOG)}|{re.escape(CURVE)}|{CORPUS})"
    r"\.[0-9a-f]{16}\.(?:tmp|old)"
)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock: one process at a time uses it."""
    if checkpoint.exists(folder):
        raise UserError(
            f"`save_dir` {folder} is the folder of a model. "
            "Name another, for the checkpoints of this run."
        )
    for name in (LOG, checkpoint.NAMES):
        disk.check_output("`save_dir`", folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / ".lock"):
        _restore_checkpoints(folder)
        yield


def _restore_checkpoints(folder: Path) -> None:
    """Put back the checkpoints that were about to be replaced when a kill came.

    A replacement is two renames, and the kill came between them.
    """
    for path in _temporary_files(folder):
        place = folder / TEMPORARY.fullmatch(path.name)[1]
        if path.suffix == ".old" and not os.path.lexists(place):
            disk.rename(path, place)


def _temporary_files(folder: Path) -> list[Path]:
    """What killed runs have left: files and folders under temporary names of ours."""
    return [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]


def check(folder: Path, source: Path | None, overwrite: bool) -> None:
    """Raise if the folder has checkpoints of another run, or files in their place.

    source: the checkpoint that the run resumes from. overwrite: the checkpoints may be replaced.
    """
    checkpoint.read_names(folder)
    numbered = [path for path in folder.iterdir() if checkpoint.is_step(path.name)]
    resumed_step = _resumed_step(folder, source)
    others = []
    for path in numbered:
        if not checkpoint.is_own(path) and int(path.name) > resumed_step:
            others.append(path.name)
    log_path = folder / LOG
    if log_path.exists() and log_path.stat().st_size and not _read_log(folder):
        others.append(LOG)
    if others:
        raise UserError(
            f"`save_dir` {folder} has {join_names(others)}, not of a run. "
            "Rename it, or name another."
        )
    steps = [str(step) for step in _of_another_run(folder, source)]
    if steps and not overwrite:
        raise UserError(
            f"`save_dir` {folder} holds checkpoints of an earlier run: {join_names(steps)}. "
            f"Add `resume=True` to continue it, `overwrite=True`, or `finetune_from={folder}` "
            "in a new one."
        )


def _of_another_run(folder: Path, source: Path | None) -> list[int]:
    """The steps of checkpoints that this run has not saved."""
    return [step for step in checkpoint.steps(folder) if step > _resumed_step(folder, source)]


def _resumed_step(folder: Path, source: Path | None) -> int:
    """The last step whose checkpoint belongs to this run, or -1.

    There is one if the run resumes from this folder.
    """
    if source is None:
        return -1
    if not checkpoint.is_step(source.name):
        source = source.resolve()
    is_here = source.parent.samefile(folder) and checkpoint.is_step(source.name)
    return int(source.name) if is_here else -1


class RunFolder:
    """Saves checkpoints, each with the model's configuration, its vocabulary and the settings.

    keep: numbered checkpoints to keep. settings: of the training, which a resumed run compares.
    notice: what goes with weights that come from another model, see elmo_core/weights/cards.py.
    """

    def __init__(
        self,
        path: Path,
        keep: int,
        config: ELMoConfig,
        vocabulary: Vocabulary,
        settings: Mapping[str, Any],
        notice: str = "",
    ):
        self.path = path
        self.keep = keep
        self.config = config
        self.vocabulary = vocabulary
        self.settings = settings
        self.notice = notice
        # the step at which the run, or the part of it that it continues, has ended
        self.final: int | None = None
        self.outdated: list[int] = []  # steps of checkpoints that the next save replaces
        self.pending_log: list[str] | None = None  # until then, the lines of log.jsonl
        self.curve = CurveFile(path / CURVE)
        self.is_chinese = recognise([], vocabulary.words) == "zh"

    def open(self, source: Path | None, step: int, best_step: int) -> bool:
        """Prepare the folder. Returns whether there is a checkpoint of the best step.

        What another run, or steps that will be repeated, have left, checkpoints and lines of the
        log, stays until this run has saved a checkpoint.
        source, step: the checkpoint that the run resumes from.
        """
        for path in _temporary_files(self.path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        existing = checkpoint.steps(self.path)
        self.outdated = _of_another_run(self.path, source)
        kept = set(existing) - set(self.outdated)
        final = checkpoint.read_names(self.path).get("final")
        self.final = final if final in kept else None
        self.pending_log = []
        if existing:
            lines = [line for line in _read_log(self.path) if _is_before(line, step)]
            self.pending_log = [json.dumps(line) + "\n" for line in lines]
        if self.outdated:
            steps = join_names([str(step) for step in self.outdated])
            log.warning(
                f"{self.path}: {steps} will be deleted when this run saves its first checkpoint."
            )
            log.warning("To keep what is there, press Ctrl-C twice before that.")
        else:
            self._write_log()
        return best_step in kept

    def save(
        self,
        weights: Mapping[str, np.ndarray],
        optimizer: Mapping[str, np.ndarray],
        progress: Mapping[str, Any],
        is_final: bool,
        advice: str,
    ) -> None:
        """Write the checkpoint of this step, if there is none, and the names.

        All others but the last `keep` are deleted.
        is_final: the run ends at this step. advice: what to do if weights are not finite.
        """
        step = progress["step"]
        folder = self.path / str(step)
        is_outdated = step in self.outdated and checkpoint.is_own(folder)
        if is_outdated or not checkpoint.exists(folder):
            checkpoint.save_model(
                folder,
                config=self.config,
                weights=weights,
                vocabulary=self.vocabulary,
                training=(self.settings, optimizer, progress),
                notice=self.notice,
                advice=advice,
                overwrite=is_outdated,
            )
        self._delete_outdated(step)
        if is_final:
            self.final = step
        names = {"best": progress["best_step"], "final": self.final}
        existing = checkpoint.steps(self.path)
        names = {name: step for name, step in names.items() if step in existing}
        checkpoint.write_names(self.path, names)
        checkpoint.prune(self.path, self.keep)

    def _delete_outdated(self, step: int) -> None:
        """Delete what the checkpoint of this step replaces."""
        for other in self.outdated:
            if other != step:
                checkpoint.delete(self.path / str(other))
        self.outdated = []
        if self.pending_log is not None:
            self._write_log()

    def _write_log(self) -> None:
        with disk.atomic_write(self.path / LOG) as file:
            file.writelines(self.pending_log)
        self.pending_log = None

    def evaluations(self) -> list[tuple[int, float]]:
        """The steps and held-out perplexities of log.jsonl, by step; none if it cannot be read."""
        lines = []
        with suppress(OSError):
            lines = self.log_lines()
        perplexities = {}
        for line in lines:
            if line["event"] == "evaluation" and isinstance(line.get("perplexity"), float):
                perplexities[line["step"]] = line["perplexity"]
        return sorted(perplexities.items())

    def append_log(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Append a line to log.jsonl: a JSON object. Only warns on failure.

        event: start, forecast, training, evaluation or verdict.
        """
        line = json.dumps({"event": event, "step": step, **values}) + "\n"
        if self.pending_log is not None:
            self.pending_log.append(line)
            return
        try:
            with (self.path / LOG).open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            log.warning(
                f"{self.path / LOG} could not be written: {error.strerror}. Training continues."
            )

    def log_lines(self) -> list[dict[str, Any]]:
        """The lines of the log of this run, and of what it continues."""
        if self.pending_log is not None:
            return [json.loads(line) for line in self.pending_log]
        return _read_log(self.path)

    def draw_curve(self) -> None:
        """Draw what the log has, once the folder is this run's."""
        if self.pending_log is None:
            self.curve.write(lambda: draw_run(self.log_lines(), self.is_chinese))


def _is_before(line: dict[str, Any], step: int) -> bool:
    """Whether a line of the log belongs to what a run that resumes from this step continues."""
    return line["step"] < step or (line["step"] == step and line["event"] != "start")


def _read_log(folder: Path) -> list[dict[str, Any]]:
    """Read log.jsonl, skipping what a kill has cut short, or a loss of power filled with zeros."""
    path = folder / LOG
    if not path.exists():
        return []
    lines = []
    for text in path.read_bytes().split(b"\n"):
        with suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict) and "event" in line and type(line.get("step")) is int:
                lines.append(line)
    return lines
