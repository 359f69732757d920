"""Progress of a run, as a checkpoint stores it, and resuming from it bit for bit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_core.config import differences
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, log
from elmo_core.network.lstmp import BiLMState, map_state
from elmo_core.text.corpus import Counts
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining.streams import TrainStream

NUMBERS = ("step", "tokens", "warmup", "total", "evaluated", "best", "best_step", "without_gain")


class Schedule(NamedTuple):
    """What the learning rate depends on, as tokens divided by the tokens per step.

    These are plain steps if the tokens per step never changed.
    """

    step: float
    total: float
    warmup: float


@dataclass
class Progress:
    """Progress of a run. All randomness of a step follows from the seed, the step and the rank.

    tokens: read so far by all ranks; unlike the step, they do not depend on the batch size and the
    number of ranks.
    losses: this rank's sums since the last log line, see `Meter`.
    """

    tokens_per_step: int  # over all ranks
    counts: Counts  # of the training text
    position: dict[str, Any]  # this rank's `TrainStream.position`
    states: list[BiLMState]  # LSTM states after this rank's last step, one per accumulated batch
    warmup: int  # tokens of Adam's learning-rate warm-up
    total: int = 0  # steps of the whole run
    step: int = 0
    tokens: int = 0
    evaluated: int = 0  # step of the last evaluation
    best: float = math.inf  # lowest held-out perplexity so far
    best_step: int = 0
    without_gain: int = 0  # evaluations since then
    losses: np.ndarray = field(default_factory=lambda: np.zeros(3))

    @property
    def epoch(self) -> float:
        """Epochs read so far."""
        return self.tokens / self.counts.predictions

    @property
    def schedule(self) -> Schedule:
        step = self.tokens / self.tokens_per_step
        return Schedule(
            step=step,
            total=step + self.total - self.step,
            warmup=self.warmup / self.tokens_per_step,
        )

    def set_total(self, max_steps: int | None, epochs: int) -> None:
        """Set the total number of steps, directly or by the epochs."""
        tokens_left = max(0, epochs * self.counts.predictions - self.tokens)
        steps_left = -(-tokens_left // self.tokens_per_step)  # rounded up
        self.total = max_steps or self.step + steps_left

    def reached_end(self, patience: int | None) -> bool:
        """Whether the last step is done, or `patience` evaluations brought no improvement."""
        has_lost_patience = patience is not None and self.without_gain >= patience
        return self.step >= self.total or has_lost_patience

    def add_evaluation(self, perplexity: float) -> bool:
        """Record an evaluation at this step. Returns whether it is the best so far."""
        self.evaluated = self.step
        is_best = perplexity < self.best
        if is_best:
            self.best = perplexity
            self.best_step = self.step
            self.without_gain = 0
        else:
            self.without_gain += 1
        return is_best

    def forget_best(self) -> None:
        """Go on as if no evaluation had taken place."""
        self.best = math.inf
        self.best_step = 0
        self.without_gain = 0

    def to_dict(self, ranks: Ranks) -> dict[str, Any]:
        """The progress of all ranks, as `restore` takes it."""
        return {**self._numbers(), "ranks": ranks.gather(self._of_this_rank())}

    def _numbers(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in NUMBERS}

    def _of_this_rank(self) -> dict[str, Any]:
        """The arrays of the states are those of all accumulated batches, end to end."""
        state = map_state(_joined, *self.states)
        return {"position": self.position, "state": state, "losses": self.losses}

    def check(self, saved: Mapping[str, Any], n_ranks: int | None) -> None:
        """Raise a ValueError unless a progress that was read from a file has the form of this one.

        n_ranks: the number of ranks that it should have. None: any number, and arrays of other
        shapes.
        """
        numbers = {name: saved.get(name) for name in NUMBERS}
        ranks = saved.get("ranks")
        if not has_form(numbers, self._numbers()):
            raise ValueError(f"found {numbers!r:.200}")
        if not isinstance(ranks, list) or not ranks or n_ranks not in (None, len(ranks)):
            raise ValueError(f"ranks: found {ranks!r:.80}")
        example = self._of_this_rank()
        for k, rank in enumerate(ranks):
            if not has_form(rank, example, has_shapes=n_ranks is not None):
                raise ValueError(f"rank {k}: found {rank!r:.80}")

    def restore(
        self, saved: Mapping[str, Any], changes: set[str], stream: TrainStream, ranks: Ranks
    ) -> None:
        """Restore the progress and the stream from a checkpoint.

        changes: the names of settings that differ. If some are the stream's, the epoch starts
        again.
        A ValueError or IndexError: the progress is not of this program, or its position not in
        this text.
        """
        is_same_text = not changes & stream.settings.keys()
        self.check(saved, ranks.size if is_same_text else None)
        self.step = saved["step"]
        self.tokens = saved["tokens"]
        self.total = saved["total"]
        if "warmup_steps" not in changes:
            self.warmup = saved["warmup"]
        if "dev_data" not in changes:
            self.evaluated = saved["evaluated"]
            self.best = saved["best"]
            self.best_step = saved["best_step"]
            self.without_gain = saved["without_gain"]
        if is_same_text:
            own = saved["ranks"][ranks.rank]
            stream.seek(own["position"])
            self.states = _split(own["state"], len(self.states))
            self.losses[:] = own["losses"]
        else:
            epoch = min(rank["position"]["epoch"] for rank in saved["ranks"])
            log.warning(f"The text is read from the beginning of epoch {epoch}.")
            stream.start(epoch)
            self.tokens = epoch * self.counts.predictions
        self.position = stream.position


def _joined(*tensors: paddle.Tensor) -> np.ndarray:
    """The rows of several tensors in one array."""
    return np.concatenate([tensor.numpy() for tensor in tensors])


def _split(saved: list, n: int) -> list[BiLMState]:
    """The states of n accumulated batches, from a state whose arrays have the rows of all."""
    states = []
    for k in range(n):
        part_of = partial(_part, k=k, n=n)
        states.append(map_state(part_of, saved))
    return states


def _part(rows: np.ndarray, k: int, n: int) -> paddle.Tensor:
    """Part k of n parts of the rows."""
    return to_tensor(np.split(rows, n)[k])


def has_form(value: object, example: object, has_shapes: bool = True) -> bool:
    """Whether a value has the keys, the lengths and the types of another.

    Numbers must be 0 or more. has_shapes: arrays must have the same shapes, too.
    """
    if isinstance(example, np.ndarray):
        if not isinstance(value, np.ndarray) or value.dtype != example.dtype:
            return False
        return value.shape == example.shape or not has_shapes
    if isinstance(example, dict):
        if not isinstance(value, dict) or value.keys() != example.keys():
            return False
        return all(has_form(value[key], example[key], has_shapes) for key in example)
    if isinstance(example, list | tuple):
        if not isinstance(value, list) or len(value) != len(example):
            return False
        pairs = zip(value, example, strict=True)
        return all(has_form(item, model, has_shapes) for item, model in pairs)
    if isinstance(example, str):
        return isinstance(value, str)
    is_number_of_this_type = type(value) is type(example) and value >= 0
    return is_number_of_this_type and (value < 2**63 or value == math.inf)


def changed_settings(
    source: Path, saved: Mapping[str, Any], settings: Mapping[str, Any], allow_changes: bool
) -> set[str]:
    """Return the names of settings that differ from those saved in the checkpoint `source`.

    Raises unless that is allowed.
    """
    changes = differences(saved, settings)
    if not changes:
        return set()
    if "batch_size" in changes:  # of the text: all batches of an update together
        text = changes["batch_size"]
        changes["batch_size"] = text.replace("batch_size", "batch_size * accumulate", 1)
    differing = "; ".join(changes.values())
    if not allow_changes:
        raise UserError(
            f"{source} has other settings: {differing}. "
            "Use the same, or resume with `allow_changes=True`."
        )
    log.warning(f"Resuming with changes: {differing}.")
    return set(changes)
