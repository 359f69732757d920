"""Progress of a run, as a checkpoint stores it, and resuming from it bit for bit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from dataset import TrainStream
from elmo import BiLMState, map_state
from elmo_core.config import differences
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, log
from elmo_core.text.corpus import Counts


@dataclass
class Progress:
    """Progress of a run. All randomness of a step follows from the seed, the step and the rank."""

    tokens_per_step: int  # over all ranks
    counts: Counts  # of the training text
    position: dict  # this rank's `TrainStream.position`
    states: list[BiLMState]  # LSTM states after this rank's last step, one per accumulated batch
    warmup: int  # tokens of Adam's learning-rate warm-up
    total: int = 0  # steps of the whole run
    step: int = 0
    tokens: int = 0  # read so far by all ranks; unlike the step, independent of batch size and number of ranks
    evaluated: int = 0  # step of the last evaluation
    best: float = math.inf  # lowest held-out perplexity so far
    evaluations_without_improvement: int = 0
    losses: np.ndarray = field(default_factory=lambda: np.zeros(3))  # this rank's, since the last log line: see Meter

    @property
    def epoch(self) -> float:
        """Epochs read so far."""
        return self.tokens / self.counts.predictions

    @property
    def schedule(self) -> tuple[float, float, float]:
        """Step, total and warm-up as tokens divided by the tokens per step; plain steps if that never changed."""
        step = self.tokens / self.tokens_per_step
        return step, step + self.total - self.step, self.warmup / self.tokens_per_step

    def set_total(self, max_steps: int, epochs: int) -> None:
        """Set the total number of steps, directly or by the epochs."""
        tokens_left = max(0, epochs * self.counts.predictions - self.tokens)
        self.total = max_steps or self.step - (-tokens_left // self.tokens_per_step)

    def evaluation_is_due(self, eval_freq: int) -> bool:
        """Whether to evaluate at this step. eval_freq: steps between evaluations; 0 if there are none."""
        due = eval_freq and (self.step % eval_freq == 0 or self.step >= self.total)
        return bool(due) and self.evaluated != self.step

    def reached_end(self, patience: int) -> bool:
        """Whether the last step is done, or `patience` evaluations brought no improvement."""
        return self.step >= self.total or bool(patience and self.evaluations_without_improvement >= patience)

    def is_complete(self, patience: int, eval_freq: int) -> bool:
        return self.reached_end(patience) and not self.evaluation_is_due(eval_freq)

    def add_evaluation(self, perplexity: float) -> bool:
        """Record an evaluation at this step. Returns whether it is the best so far."""
        self.evaluated = self.step
        improved = perplexity < self.best
        self.best = min(perplexity, self.best)
        self.evaluations_without_improvement = 0 if improved else self.evaluations_without_improvement + 1
        return improved

    def to_dict(self, settings: Mapping, ranks: Ranks) -> dict:
        """The content of a checkpoint's .pdstate, gathered from all ranks."""
        state = _concat_states([map_state(paddle.Tensor.numpy, state) for state in self.states])
        return {
            **{name: getattr(self, name) for name in ("step", "tokens", "warmup", "total", "evaluated", "best")},
            "without_gain": self.evaluations_without_improvement,
            "counts": asdict(self.counts),
            "settings": settings,
            "ranks": ranks.gather({"position": self.position, "state": state, "losses": self.losses}),
        }


def changed_settings(source: Path, saved: Mapping, settings: Mapping, allow_changes: bool) -> set[str]:
    """Return the names of settings that differ from those of the checkpoint `source`. Raises unless that is allowed."""
    changes = differences(saved, settings)
    differing = "; ".join(changes.values())
    if changes and not allow_changes:
        raise UserError(f"{source} has other settings: {differing}. Use the same, or resume with --allow_changes.")
    if changes:
        log.warning(f"Resuming with changes: {differing}.")
    return set(changes)


def resume(progress: Progress, saved: Mapping, changes: set[str], stream: TrainStream, ranks: Ranks) -> None:
    """Restore progress and stream from a checkpoint, as far as the changed settings allow.

    One imported from bilm-tf has only the step: the text is read from its beginning, from zero states.
    """
    progress.step = saved["step"]
    if "ranks" not in saved:
        return
    progress.tokens = saved["tokens"]
    if "warmup_steps" not in changes:
        progress.warmup = saved["warmup"]
    if "dev_data" not in changes:
        progress.evaluated, progress.best = saved["evaluated"], saved["best"]
        progress.evaluations_without_improvement = saved["without_gain"]
    same_ranks = "world_size" not in changes
    if same_ranks:
        progress.losses[:] = saved["ranks"][ranks.rank]["losses"]
    rows = stream.seek(*(rank["position"] for rank in saved["ranks"]))
    progress.position = stream.position
    if {"corpus", "seed", "shuffle"} & changes:
        progress.tokens = progress.position["epoch"] * progress.counts.predictions
    saved_states = [rank["state"] for rank in saved["ranks"]]
    state = _concat_states(saved_states[ranks.rank : ranks.rank + 1] if same_ranks else saved_states)
    progress.states = [_select_rows(state, indices) for indices in np.split(rows, len(progress.states))]


def _concat_states(states: Sequence[BiLMState]) -> BiLMState:
    """Concatenate states of NumPy arrays along the rows."""
    return map_state(lambda *rows: np.concatenate(rows), *states)


def _select_rows(state: BiLMState, indices: np.ndarray) -> BiLMState:
    """A state of the rows with these indices; -1 is a zero state."""

    def select(rows: np.ndarray) -> paddle.Tensor:
        return to_tensor(np.where(indices[:, None] < 0, 0, rows[indices]).astype(rows.dtype))

    return map_state(select, state)
