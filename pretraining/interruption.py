"""The end of a run by Ctrl-C, SIGTERM, a closed terminal or the loss of its launcher."""

import os
import signal
from contextlib import suppress

HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # which Windows lacks


class Interruption:
    """Notes, in a `with` block, that the run is to end after its step. A second Ctrl-C ends it at once."""

    def __init__(self):
        self.signal: int | None = None
        self.launcher = os.getppid() if "PADDLE_TRAINER_ID" in os.environ else None

    def __enter__(self) -> "Interruption":
        noted = {signal.SIGINT, signal.SIGTERM}
        if signal.getsignal(HANG_UP) != signal.SIG_IGN:  # as nohup wishes it
            noted.add(HANG_UP)
        self.before = {number: signal.signal(number, self._note) for number in noted}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        if self.signal is None:
            with suppress(OSError):  # the terminal may be gone
                os.write(2, b"finishing this step, then saving (Ctrl-C again: stop at once, without saving)\n")
        elif number == signal.SIGINT:
            self.__exit__()
            signal.raise_signal(number)
        self.signal = number

    def is_wanted(self) -> bool:
        """Whether the run is to end. A launcher that is killed leaves its ranks behind, with another parent."""
        return self.signal is not None or self.launcher not in (None, os.getppid())

    @property
    def exit_code(self) -> int:
        """As after the signal."""
        return 128 + (self.signal or signal.SIGTERM)
