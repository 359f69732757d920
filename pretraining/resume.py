"""How far a run has come, what a checkpoint keeps of that, and going on from it, bit for bit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from dataset import TrainStream
from elmo import BiLMState
from elmo_core.config import differences
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.text.corpus import Counts


@dataclass
class Progress:
    """How far a run has come. What is random in a step follows from the seed, the step and the rank."""

    tokens_per_step: int  # of all ranks
    counts: Counts  # of the text
    position: dict  # of this rank in the text: `TrainStream.position`
    states: list[BiLMState]  # in which the last batches of this rank, made in one step, have left the LSTMs
    warmup: int  # tokens over which Adam's rate rises
    total: int = 0  # steps of the whole run
    step: int = 0
    tokens: int = 0  # read so far by all ranks: with another batch size or number of ranks this, not the step, goes on
    evaluated: int = 0  # step of the last evaluation
    best: float = math.inf  # the lowest held-out perplexity
    without_gain: int = 0  # evaluations since
    losses: np.ndarray = field(default_factory=lambda: np.zeros(3))  # of this rank since the last log line: see Meter

    @property
    def epoch(self) -> float:
        """Epochs read so far."""
        return self.tokens / self.counts.predictions

    @property
    def schedule(self) -> tuple[float, float, float]:
        """Tokens read, in all, and of the warm-up, in units of the step's: these are steps if all are of this size."""
        done = self.tokens / self.tokens_per_step
        return done, done + self.total - self.step, self.warmup / self.tokens_per_step

    def set_end(self, max_steps: int | None, epochs: int) -> None:
        """After so many steps, or else after so many epochs of text."""
        left = max(0, epochs * self.counts.predictions - self.tokens)
        self.total = max_steps or self.step - (-left // self.tokens_per_step)

    def evaluation_is_due(self, eval_freq: int | None) -> bool:
        """eval_freq: steps between evaluations; None if there are none."""
        due = eval_freq and (self.step % eval_freq == 0 or self.step >= self.total)
        return bool(due) and self.evaluated != self.step

    def is_over(self, patience: int | None) -> bool:
        """Whether the last step is done, or so many evaluations were without gain."""
        return self.step >= self.total or bool(patience and self.without_gain >= patience)

    def is_finished(self, patience: int | None, eval_freq: int | None) -> bool:
        return self.is_over(patience) and not self.evaluation_is_due(eval_freq)

    def add_evaluation(self, perplexity: float) -> bool:
        """Note an evaluation at this step. Returns whether it is the best so far."""
        self.evaluated = self.step
        gain = perplexity < self.best
        self.best, self.without_gain = (perplexity, 0) if gain else (self.best, self.without_gain + 1)
        return gain

    def to_dict(self, settings: Mapping, ranks: Ranks) -> dict:
        """What a checkpoint's .pdstate holds, on every rank."""
        states = [[[tuple(x.numpy() for x in side) for side in layer] for layer in state] for state in self.states]
        state = _joined(states)
        return {
            "step": self.step,
            "tokens": self.tokens,
            "warmup": self.warmup,
            "total": self.total,
            "evaluated": self.evaluated,
            "best": self.best,
            "without_gain": self.without_gain,
            "counts": asdict(self.counts),
            "settings": settings,
            "ranks": ranks.gather({"position": self.position, "state": state, "losses": self.losses}),
        }


def changed_settings(source: Path, saved: Mapping, settings: Mapping, allow_changes: bool) -> set[str]:
    """The names of settings that differ from those of the checkpoint `source`: an error unless that is allowed."""
    changes = differences(saved, settings)
    listed = "; ".join(changes.values())
    if changes and not allow_changes:
        raise UserError(
            f"{source} has other settings: {listed}. Use the same, or --allow_changes to resume as far as possible."
        )
    if changes:
        log.warning(f"Resuming with changes: {listed}.")
    return set(changes)


def resume(progress: Progress, saved: Mapping, changes: set[str], stream: TrainStream, ranks: Ranks) -> None:
    """Set the progress and the stream to where the checkpoint left them, as far as the changed settings let them be."""
    before = saved["settings"]
    tokens_per_step = before["batch_size"] * before["unroll_steps"] * before["world_size"]
    progress.step, progress.tokens = saved["step"], saved.get("tokens", saved["step"] * tokens_per_step)
    if "warmup_steps" not in changes:
        progress.warmup = saved.get("warmup", before["warmup_steps"] * tokens_per_step)
    if "dev_data" not in changes:
        progress.evaluated, progress.best = saved["evaluated"], saved["best"]
        progress.without_gain = saved["without_gain"]
    same_ranks = "world_size" not in changes
    if same_ranks:
        progress.losses[:] = saved["ranks"][ranks.rank]["losses"]
    rows = stream.seek(*(one["position"] for one in saved["ranks"]))
    progress.position = stream.position
    if {"corpus", "seed", "shuffle"} & changes:
        progress.tokens = progress.position["epoch"] * progress.counts.predictions
    saved_states = [one["state"] for one in saved["ranks"]]
    state = _joined(saved_states[ranks.rank : ranks.rank + 1] if same_ranks else saved_states)
    progress.states = [_rows_of(state, part) for part in np.split(rows, len(progress.states))]


def _joined(states: Sequence[BiLMState]) -> BiLMState:
    """One state with the rows of all, as NumPy arrays."""

    def join(*directions: tuple) -> tuple:
        return tuple(map(np.concatenate, zip(*directions, strict=True)))

    return [list(map(join, *layers)) for layers in zip(*states, strict=True)]


def _rows_of(state: Sequence, rows: np.ndarray) -> BiLMState:
    """Some rows of a state; where a row's number is -1, from zero."""

    def tensor(part: np.ndarray) -> paddle.Tensor:
        return paddle.to_tensor(np.where(rows[:, None] < 0, 0, part[rows]).astype(part.dtype))

    return [[tuple(map(tensor, direction)) for direction in layer] for layer in state]
