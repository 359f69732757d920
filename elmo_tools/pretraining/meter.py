"""Losses and speed of a pretraining run between two log lines."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.training.ranks import Ranks

ADVICE = (
    "It is not saved. Resume earlier with `init_from_ckpt`, `allow_changes=True` "
    "and a lower `lr` or `max_grad_norm`."
)


class Meter:
    """Losses and time since the last log line.

    On a GPU, losses are read back only when a log line or checkpoint is due.
    sums: (3,) forward loss, backward loss and steps since then, updated in place.
    last_loss: of this rank's last step.
    """

    def __init__(self, sums: np.ndarray):
        self._sums = sums
        self.checks_at_once = paddle.get_device() == "cpu"
        self._pending: list[tuple[int, list[paddle.Tensor], dict[str, Any]]] = []
        self.last_loss = math.nan
        self._made = time.perf_counter()
        self._paused = 0.0  # seconds since then
        self._start()

    def add(self, step: int, losses: Sequence[paddle.Tensor], position: dict[str, Any]) -> None:
        """Add a step's forward and backward loss. position: where in the text its batch ended."""
        self._pending.append((step, [loss.detach() for loss in losses], position))
        if self.checks_at_once:
            self.check()

    def check(self) -> None:
        """Read back the pending losses.

        Raises if one is not finite, before the model can be saved.
        """
        for step, losses, position in self._pending:
            forward = float(losses[0])
            backward = float(losses[1])
            if not math.isfinite(forward + backward):
                end = (
                    f"sentence {position['sentence']:,} of {position['file']}, "
                    f"epoch {position['epoch']}"
                )
                raise UserError(
                    f"step {step:,}: the loss is not finite (forward {forward}, "
                    f"backward {backward}), in a batch that ends at {end}. {ADVICE}"
                )
            self._sums += forward, backward, 1
            self.last_loss = (forward + backward) / 2
            self._steps += 1
        self._pending.clear()

    def seconds_per_step(self) -> float:
        """Return the mean time of the steps since the last log line."""
        self.check()
        return (time.perf_counter() - self._started - self._idle) / self._steps

    def seconds_of_work(self) -> float:
        """Return the time since the meter was made, without pauses, when all work is done."""
        self.check()
        if not self.checks_at_once:
            paddle.device.cuda.synchronize()
        return time.perf_counter() - self._made - self._paused

    def pop_means(self, ranks: Ranks) -> tuple[float, float, float]:
        """Return the mean forward and backward loss over all ranks, and seconds per step.

        All are since the last call.
        """
        seconds = self.seconds_per_step()
        forward, backward, steps = ranks.sum(self._sums)
        self._sums[:] = 0
        self._start()
        return forward / steps, backward / steps, seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of the `with` block."""
        self.check()
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self._idle += seconds
        self._paused += seconds

    def _start(self) -> None:
        self._started = time.perf_counter()
        self._idle = 0.0  # seconds
        self._steps = 0


def memory_in_use() -> int:
    """Memory of this process in bytes.

    On a GPU, it is the peak there; on Windows and macOS, the peak of Paddle's tensors.
    """
    if paddle.get_device().startswith("gpu"):
        return paddle.device.cuda.max_memory_allocated()
    statm = Path("/proc/self/statm")
    if statm.exists():
        resident_pages = int(statm.read_text(encoding="ascii").split()[1])
        return resident_pages * os.sysconf("SC_PAGE_SIZE")
    return paddle.base.core.host_memory_stat_peak_value("Allocated", 0)


def peak_memory() -> int:
    """The largest memory of this process so far in bytes, where the system tells it."""
    status = Path("/proc/self/status")
    if status.exists() and not paddle.get_device().startswith("gpu"):
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 2**10
    return memory_in_use()
