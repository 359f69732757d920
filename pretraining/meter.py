"""The losses and the speed of a pretraining run between two of its log lines."""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from elmo_core.machine.messages import UserError
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle

ADVICE = "It is not saved. Resume earlier with --init_from_ckpt, --allow_changes and a lower --lr or --max_grad_norm."


class Meter:
    """Losses and time since the last line. On a GPU it looks at a loss only when a line or a checkpoint is due.

    sums: (3,) forward loss, backward loss and steps so far, which are changed in place.
    """

    def __init__(self, sums: np.ndarray):
        self._sums = sums
        self.checks_at_once = paddle.get_device() == "cpu"
        self._unseen: list[tuple[int, list, dict]] = []
        self._start()

    def add(self, step: int, losses: list, position: dict) -> None:
        """Note a step's losses, and where in the text its batch ended."""
        self._unseen.append((step, [loss.detach() for loss in losses], position))
        if self.checks_at_once:
            self.check()

    def check(self) -> None:
        """Look at all losses not seen so far; one that is not finite ends the run before it can be saved."""
        for step, losses, position in self._unseen:
            forward, backward = (float(loss) for loss in losses)
            if not math.isfinite(forward + backward):
                raise UserError(
                    f"step {step:,}: the loss is not finite (forward {forward}, backward {backward}), in a batch that "
                    f"ends {position['sentence']:,} sentences into {position['file']}, epoch {position['epoch']}. {ADVICE}"
                )
            self._sums += forward, backward, 1
            self._steps += 1
        self._unseen.clear()

    def take(self, ranks: Ranks) -> tuple[float, float, float]:
        """Mean forward and backward loss over all ranks, and seconds a step, since the last call."""
        self.check()
        seconds = (time.perf_counter() - self._since - self._idle) / self._steps
        forward, backward, steps = ranks.sum(self._sums)
        self._sums[:] = 0
        self._start()
        return forward / steps, backward / steps, seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time that does not count as training."""
        self.check()
        began = time.perf_counter()
        yield
        self._idle += time.perf_counter() - began

    def _start(self) -> None:
        self._since, self._idle, self._steps = time.perf_counter(), 0.0, 0


def memory_in_use() -> int:
    """Bytes that this process holds; on a GPU the most it has held there."""
    if paddle.get_device().startswith("gpu"):
        return paddle.device.cuda.max_memory_allocated()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
