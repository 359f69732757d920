"""The folder of a pretraining run: its checkpoints, config.json, vocab.txt, and log.jsonl with the loss curve."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elmo_core import checkpoint, disk
from elmo_core.runtime import UserError, listed
from elmo_core.tokens import Vocabulary
from pretraining.meter import ADVICE


class RunFolder:
    """What the first rank of a run writes.

    source: the checkpoint that the run comes from, if any.
    step: at which the run goes on; None if the source gives no more than its weights, or there is none.
    overwrite: whether what an earlier run has left, which is an error otherwise, is to be deleted by `open`.
    """

    def __init__(self, path: Path, source: Path | None, step: int | None, overwrite: bool):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--save_dir {path}: no folder can be made there ({error.strerror}).") from error
        if not os.access(path, os.W_OK):
            raise UserError(f"--save_dir {path}: this folder cannot be written.")
        self.path, self.step = path, step or 0
        self.source = source if step is not None else None
        self.stale = self._stale()
        if source and step is None and source.parent.samefile(path):
            raise UserError(f"--save_dir {path} holds what --finetune_from reads. Choose another.")
        if self.stale and not overwrite:
            names = ", ".join(prefix.name for prefix in self.stale)
            raise UserError(
                f"--save_dir {path} holds checkpoints of an earlier run: {names}. Go on from its latest with "
                f"--init_from_ckpt={path}, choose another --save_dir, or --overwrite them."
            )

    def _stale(self) -> list[Path]:
        """Prefixes of an earlier run's checkpoints. In the folder that the run came from they are those beyond its step.

        There `best` is none unless others are: the steps that it is from were lost when the run was killed, and will be
        gone again.
        """
        known = [self.path / name for name in checkpoint.names(self.path)]
        if not known or not self._stays():
            return known
        later = [prefix for prefix in known if checkpoint.step_of(prefix) > self.step]
        return [] if [prefix.name for prefix in later] == ["best"] else later

    def _stays(self) -> bool:
        return self.source is not None and self.source.parent.samefile(self.path)

    def lock(self) -> int:
        """The folder's handle, which keeps other runs out until it is closed or the process has ended, however it ends."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            disk.lock(handle, self.path)
        except disk.Busy as error:
            os.close(handle)
            raise UserError(
                f"--save_dir {self.path}: another run is writing there. Wait for its end, or choose another."
            ) from error
        return handle

    def open(self, config: Mapping, vocabulary: Vocabulary) -> bool:
        """Take up what is in the folder. A run that moves here brings its best model and its log along.

        Returns whether there is a best model: none is left of a run that goes back to before it.
        """
        for prefix in self.stale:
            checkpoint.delete(prefix)
        checkpoint.save_config(self.path, config)
        checkpoint.save_vocabulary(self.path, vocabulary)
        if self.source and not self._stays():
            self._bring_best(self.source.parent / "best")
        lines = _read_log(self.source.parent / "log.jsonl") if self.source else []
        kept = [line for line in lines if line["step"] < self.step + (line["event"] != "start")]
        with disk.atomic_write(self.path / "log.jsonl") as file:
            file.writelines(json.dumps(line) + "\n" for line in kept)
        return checkpoint.exists(self.path / "best")

    def _bring_best(self, best: Path) -> None:
        if checkpoint.exists(best) and checkpoint.step_of(best) <= self.step:
            checkpoint.save(self.path / "best", checkpoint.load_params(best), None, checkpoint.load_progress(best))

    def save(
        self, name: str, weights: Mapping[str, np.ndarray], optimizer: Mapping | None, progress: Mapping, keep: int
    ) -> None:
        """Write a checkpoint and prune the numbered ones; weights that are not finite are never written."""
        broken = [key for key, array in weights.items() if not checkpoint.is_finite(array)]
        if broken:
            raise UserError(f"step {progress['step']:,}: the model is not finite ({listed(broken, 3)}). {ADVICE}")
        checkpoint.save(self.path / name, weights, optimizer, progress)
        checkpoint.prune(self.path, keep)

    def log(self, event: str, step: int, values: Mapping) -> None:
        """Add a line to log.jsonl: a JSON object whose "event" is start, training or evaluation."""
        path = self.path / "log.jsonl"
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"event": event, "step": step, **values}) + "\n")
        except OSError as error:
            raise UserError(f"{path} could not be written: {error.strerror}. The checkpoints are intact.") from error

    def plot(self) -> Path:
        """Draw the log's perplexities over the steps."""
        os.environ.setdefault("MPLBACKEND", "Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(8, 5))
        log = _read_log(self.path / "log.jsonl")
        for event, marker in (("training", ""), ("evaluation", "o")):
            lines = [line for line in log if line["event"] == event]
            for key in lines[-1] if lines else ():
                if key.startswith(("forward", "backward")):
                    values = [line.get(key, math.nan) for line in lines]
                    steps = [line["step"] for line in lines]
                    axes.plot(steps, values, label=f"{event}: {key.replace('_', ' ')}", marker=marker)
        axes.set(xlabel="step", ylabel="perplexity", yscale="log")
        axes.legend()
        axes.grid(alpha=0.3)
        figure.tight_layout()
        path = self.path / "loss.png"
        with disk.atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=120)
        plt.close(figure)
        return path


def _read_log(path: Path) -> list[dict]:
    """The lines of a log.jsonl, without those that are none of ours, as one that was being written at a kill."""
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int) and isinstance(line.get("event"), str):
            lines.append(line)
    return lines
