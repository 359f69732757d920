"""Stopping a run on Ctrl-C, SIGTERM, a closed terminal or the loss of its launcher."""

import os
import signal
import threading
from contextlib import suppress
from typing import Any

HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # not on Windows
STANDARD_ERROR = 2
MESSAGE = b"finishing this step, then saving (Ctrl-C again: stop at once, without saving)\n"


class Interruption:
    """In a `with` block, turns signals into a request to stop after the current step.

    A second Ctrl-C stops at once.
    """

    def __init__(self):
        self.signal: int | None = None
        self.launcher = os.getppid() if "PADDLE_TRAINER_ID" in os.environ else None
        self.old_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is not threading.main_thread():
            return self  # where Python handles no signals
        handled_signals = {signal.SIGINT, signal.SIGTERM}
        if signal.getsignal(HANG_UP) != signal.SIG_IGN:  # nohup ignores it
            handled_signals.add(HANG_UP)
        self.old_handlers = {
            number: signal.signal(number, self._handle) for number in handled_signals
        }
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.old_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if self.signal is None:
            with suppress(OSError):  # the terminal may be gone
                os.write(STANDARD_ERROR, MESSAGE)
        elif number == signal.SIGINT:
            self.__exit__()
            signal.raise_signal(number)
        self.signal = number

    def is_requested(self) -> bool:
        """Whether the run should stop: after a signal, or if the launcher was killed."""
        # a process whose parent was killed gets another one
        is_orphan = self.launcher is not None and self.launcher != os.getppid()
        return self.signal is not None or is_orphan

    @property
    def exit_code(self) -> int:
        """The exit code that stands for the signal."""
        return 128 + (self.signal or signal.SIGTERM)
