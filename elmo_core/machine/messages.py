"""What the user is told: mistakes, the log, lists and times in words."""

import contextlib
import logging
from collections.abc import Iterator, Sequence

log = logging.getLogger("elmo")


class UserError(ValueError):
    """A mistake in what the user gave. The message says what was found, where, what was expected and what to do."""


@contextlib.contextmanager
def hint_if_moved(flag: str, given: object) -> Iterator[None]:
    """Name the flag for a file whose place is remembered, and may be another by now, unless the user has given it."""
    try:
        yield
    except UserError as error:
        if given:
            raise
        raise UserError(f"{error} If it has moved, give its new place by {flag}.") from error


def listed(names: Sequence[str], most: int = 10) -> str:
    """Names, not too many of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
