"""The schedule of a run, by its progress: the learning rate, and when to save and to evaluate."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from elmo_tools.pretraining.progress import Progress, Schedule

STEPS = 10_000
SECONDS = 600
SHARE = 0.1


def learning_rate(optimizer: str, lr: float, schedule: Schedule) -> float:
    """The learning rate of a step.

    For Adagrad it is constant; for Adam it rises linearly during the warm-up, then decays linearly
    to 0 at the end.
    """
    if optimizer == "adagrad":
        return lr
    step = schedule.step
    total = schedule.total
    warmup = min(schedule.warmup, total // 2)
    if step <= warmup:
        return lr * step / warmup
    return lr * (total - step + 1) / (total - warmup + 1)


class Timer:
    """Tells when something is due.

    That is every `freq` steps or, if `freq` is None, when STEPS, SECONDS or an epoch have passed.
    In the latter case it is due only while it has taken at most the share SHARE of the run's time.
    """

    def __init__(self, freq: int | None, progress: Progress):
        self.freq = freq
        self.progress = progress
        self.start = time.monotonic()
        self.spent = 0.0  # seconds
        # when it was done, at first the start
        self.last_time = self.start
        self.last_step = progress.step
        self.last_epoch = int(progress.epoch)

    def is_due(self) -> bool:
        """Whether it is due after this step."""
        progress = self.progress
        if self.freq:
            return progress.step % self.freq == 0
        time_now = time.monotonic()
        has_time_passed = (
            progress.step - self.last_step >= STEPS
            or time_now - self.last_time >= SECONDS
            or int(progress.epoch) > self.last_epoch
        )
        return has_time_passed and self.spent <= SHARE * (time_now - self.start)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the block, which does what is due."""
        start = time.monotonic()
        yield
        self.last_time = time.monotonic()
        self.last_step = self.progress.step
        self.last_epoch = int(self.progress.epoch)
        self.spent += self.last_time - start
