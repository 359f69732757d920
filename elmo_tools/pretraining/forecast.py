"""The forecast of a run: its time and memory, from its first steps, and its perplexity.

The timed steps are the run's own, so that nothing is computed twice and nothing else is trained.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo import BiLM
from elmo_core.messages import format_duration
from elmo_tools.pretraining import schedule
from elmo_tools.pretraining.expectation import Expectation
from elmo_tools.pretraining.meter import Meter, memory_in_use, peak_memory
from elmo_tools.pretraining.progress import Progress
from elmo_tools.pretraining.settings import PretrainingSettings
from elmo_tools.pretraining.streams import PART, WARM_UP, EvalStream

STEPS = 5  # that are timed, at least, after one that is not
SECONDS = 5.0  # that they take, at least


class Trial:
    """Times a run's first steps."""

    def __init__(self, meter: Meter):
        self.is_over = False
        self._meter = meter
        self._steps = 0
        self._start = 0.0  # of the second step
        self._start_of_work = 0.0

    def add_step(self) -> None:
        """Count a step that is done. The clock starts after the first one."""
        self._steps += 1
        if self._steps == 1:
            self._start = time.perf_counter()
            self._start_of_work = self._meter.seconds_of_work()

    def is_due(self) -> bool:
        """Whether enough steps are timed with the one that is running, for the first time."""
        if self.is_over or self._steps < STEPS:
            return False
        return time.perf_counter() - self._start >= SECONDS

    def end(self) -> float:
        """End the trial. Returns the mean time of the steps, without the first one."""
        self.is_over = True
        return (self._meter.seconds_of_work() - self._start_of_work) / (self._steps - 1)


@dataclass(frozen=True)
class Plan:
    """What this process has to do, from its first step to the last, and how fast it is."""

    progress: Progress
    settings: PretrainingSettings
    first_step: int
    seconds_per_step: float

    @property
    def steps_per_epoch(self) -> float:
        return self.progress.counts.predictions / self.progress.tokens_per_step

    @property
    def seconds_per_epoch(self) -> float:
        return self.steps_per_epoch * self.seconds_per_step

    @property
    def steps(self) -> int:
        return self.progress.total - self.first_step + 1

    @property
    def seconds_of_steps(self) -> float:
        return self.steps * self.seconds_per_step

    def seconds_of_evaluations(self, seconds_each: float) -> float:
        """The time of all evaluations, which come when `schedule.Timer` says so."""
        freq = self.settings.eval_freq
        if freq:
            n_before_end = (self.steps - 1) // freq
            return (n_before_end + 1) * seconds_each
        in_time = schedule.SECONDS / self.seconds_per_step
        between = max(1.0, min(schedule.STEPS, self.steps_per_epoch, in_time))
        before_end = math.floor((self.steps - 1) / between) * seconds_each
        limit = self.seconds_of_steps * schedule.SHARE / (1 - schedule.SHARE)
        return min(before_end, limit) + seconds_each


@dataclass(frozen=True)
class Forecast:
    """What a run will take, and what it will reach.

    seconds: of the steps and evaluations from the first step of this process to the last.
    evaluation_seconds: those of all evaluations among them. expected: the held-out perplexity;
    None: not foreseen.
    """

    seconds: float
    seconds_per_epoch: float
    evaluation_seconds: float
    memory_mb: float
    expected: Expectation | None

    def text(self) -> str:
        """The forecast as lines of a log."""
        time_text = (
            f"{format_duration(self.seconds)}: {format_duration(self.seconds_per_epoch)} per epoch"
        )
        if self.evaluation_seconds:
            time_text += f", {format_duration(self.evaluation_seconds)} of all for evaluations"
        lines = [f"forecast      {time_text}; memory up to {self.memory_mb:,.0f} MB"]
        if self.expected:
            lines.append(f"              {self.expected.text()}")
        return "\n".join(lines)

    def values(self) -> dict[str, Any]:
        """The forecast as a record of log.jsonl."""
        values = {
            "seconds": self.seconds,
            "seconds_per_epoch": self.seconds_per_epoch,
            "evaluation_seconds": self.evaluation_seconds,
            "memory_mb": self.memory_mb,
        }
        if self.expected:
            values |= self.expected.values()
        return values


def seconds_of_evaluation(bilm: BiLM, held_out: EvalStream, predictions: float) -> float:
    """The time of an evaluation, by a batch of it.

    predictions: of the held-out text, in each direction.
    """
    scored = next(batch for batch in held_out if batch.scored)
    state = bilm.zero_state(len(scored.lengths))
    bilm.log_probabilities(scored, state)  # the first one also prepares the operators
    start = time.perf_counter()
    bilm.log_probabilities(scored, state)
    seconds = time.perf_counter() - start
    # rows read what precedes their parts, too
    n_read = predictions * (1 + WARM_UP / PART)
    return seconds * n_read / int(scored.lengths.sum())


def memory_forecast(bilm: BiLM, moments: dict[str, Any]) -> float:
    """The largest memory of the run in bytes: that of the steps, or of saving a checkpoint.

    moments: the optimizer's state, which is copied with the weights.
    """
    peak = peak_memory()
    arrays = [*bilm.state_dict().values(), *moments.values()]
    n_bytes = sum(int(np.prod(array.shape)) * 4 for array in arrays)
    return max(peak, memory_in_use() + n_bytes)
