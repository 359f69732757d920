"""Progress of a run, as a checkpoint stores it, and resuming from it bit for bit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from elmo_core.config import differences
from elmo_core.machine.runtime import to_tensor
from elmo_core.messages import UserError, log
from elmo_core.network.lstmp import BiLMState, map_state
from elmo_core.text.corpus import Counts
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining.streams import TrainStream

NUMBERS = ("step", "tokens", "warmup", "total", "evaluated", "best", "best_step", "without_gain")


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
    best_step: int = 0
    without_gain: int = 0  # evaluations since then
    losses: np.ndarray = field(
        default_factory=lambda: np.zeros(3)
    )  # this rank's, since the last log line: see Meter

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

    def reached_end(self, patience: int) -> bool:
        """Whether the last step is done, or `patience` evaluations brought no improvement."""
        return self.step >= self.total or bool(patience and self.without_gain >= patience)

    def add_evaluation(self, perplexity: float) -> bool:
        """Record an evaluation at this step. Returns whether it is the best so far."""
        is_best, self.evaluated = perplexity < self.best, self.step
        if is_best:
            self.best, self.best_step = perplexity, self.step
        self.without_gain = 0 if is_best else self.without_gain + 1
        return is_best

    def forget_best(self) -> None:
        self.best, self.best_step, self.without_gain = math.inf, 0, 0

    def to_dict(self, ranks: Ranks) -> dict:
        """The progress of all ranks, as `restore` takes it."""
        return {**self._numbers(), "ranks": ranks.gather(self._of_this_rank())}

    def _numbers(self) -> dict:
        return {name: getattr(self, name) for name in NUMBERS}

    def _of_this_rank(self) -> dict:
        state = map_state(
            lambda *parts: np.concatenate([part.numpy() for part in parts]), *self.states
        )
        return {"position": self.position, "state": state, "losses": self.losses}

    def check(self, saved: Mapping, n_ranks: int | None) -> None:
        """Raise a ValueError unless a progress that was read from a file has the form of this one.

        n_ranks: None: they, and the shapes of their arrays, may be others.
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

    def restore(self, saved: Mapping, changes: set[str], stream: TrainStream, ranks: Ranks) -> None:
        """Restore the progress and the stream from a checkpoint. If the stream's settings differ, the epoch starts again.

        A ValueError or IndexError: the progress is not of this program, or its position not in this text.
        """
        is_same_text = not changes & stream.settings.keys()
        self.check(saved, ranks.size if is_same_text else None)
        kept = set(NUMBERS) - ({"warmup"} if "warmup_steps" in changes else set())
        if "dev_data" in changes:
            kept -= {"evaluated", "best", "best_step", "without_gain"}
        for name in kept:
            setattr(self, name, saved[name])
        if not is_same_text:
            epoch = min(rank["position"]["epoch"] for rank in saved["ranks"])
            log.warning(f"The text is read from the beginning of epoch {epoch}.")
            stream.start(epoch)
            self.tokens = epoch * self.counts.predictions
        else:
            own, n = saved["ranks"][ranks.rank], len(self.states)
            stream.seek(own["position"])
            self.states = [
                map_state(lambda rows, k=k: to_tensor(np.split(rows, n)[k]), own["state"])
                for k in range(n)
            ]
            self.losses[:] = own["losses"]
        self.position = stream.position


def has_form(value: object, example: object, has_shapes: bool = True) -> bool:
    """Whether a value has the keys, the lengths, and the types of another, numbers from 0 on, and arrays of its shapes."""
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
        return all(has_form(*pair, has_shapes) for pair in zip(value, example, strict=True))
    if isinstance(example, str):
        return isinstance(value, str)
    return type(value) is type(example) and value >= 0 and (value < 2**63 or value == math.inf)


def changed_settings(
    source: Path, saved: Mapping, settings: Mapping, allow_changes: bool
) -> set[str]:
    """Return the names of settings that differ from those of the checkpoint `source`. Raises unless that is allowed."""
    changes = differences(saved, settings)
    if "batch_size" in changes:  # of the text: all batches of an update together
        changes["batch_size"] = changes["batch_size"].replace(
            "batch_size", "batch_size * accumulate", 1
        )
    differing = "; ".join(changes.values())
    if changes and not allow_changes:
        raise UserError(
            f"{source} has other settings: {differing}. Use the same, or resume with --allow_changes."
        )
    if changes:
        log.warning(f"Resuming with changes: {differing}.")
    return set(changes)
