"""The schedule of a run, by its progress: the learning rate, and when to save and to evaluate."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from elmo_tools.pretraining.progress import Progress

STEPS, SECONDS, SHARE = 10_000, 600, 0.1


def learning_rate(name: str, lr: float, step: float, total: float, warmup_steps: float) -> float:
    """The learning rate of a step: constant for Adagrad; for Adam, linear warm-up, then linear decay to 0 at the end.

    step, total, warmup_steps: tokens divided by the tokens per step; plain steps if that never changed.
    """
    if name == "adagrad":
        return lr
    warmup = min(warmup_steps, total // 2)
    return lr * step / warmup if step <= warmup else lr * (total - step + 1) / (total - warmup + 1)


class Timer:
    """Tells when something is due: every `freq` steps or, if that is 0, when STEPS, SECONDS or an epoch have passed.

    In the latter case it is due only while it has taken at most the share SHARE of the run's time.
    """

    def __init__(self, freq: int, progress: Progress):
        self.freq, self.progress, self.start = freq, progress, time.monotonic()
        self.last, self.step, self.epoch = self.start, progress.step, int(progress.epoch)
        self.spent = 0.0  # seconds

    def is_due(self) -> bool:
        progress, now = self.progress, time.monotonic()
        if self.freq:
            return progress.step % self.freq == 0
        is_due = (
            progress.step - self.step >= STEPS
            or now - self.last >= SECONDS
            or int(progress.epoch) > self.epoch
        )
        return is_due and self.spent <= SHARE * (now - self.start)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the block, which does what is due."""
        start = time.monotonic()
        yield
        self.last, self.step, self.epoch = (
            time.monotonic(),
            self.progress.step,
            int(self.progress.epoch),
        )
        self.spent += self.last - start
