"""What the user is told: mistakes, the log, lists and times in words."""

import logging
from collections.abc import Sequence

log = logging.getLogger("elmo")


class UserError(ValueError):
    """A mistake in what the user gave. The message says what was found, where, what was expected and what to do."""


def join_names(names: Sequence[str], most: int = 10) -> str:
    """Names, not too many of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def format_duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
