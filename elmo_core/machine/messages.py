"""Errors and log messages for users; lists, counts and durations as text."""

import logging
from collections.abc import Sequence

from elmo_core.machine.command import with_commands

log = logging.getLogger("elmo")


def _name_commands(record: logging.LogRecord) -> bool:
    record.msg = with_commands(str(record.msg))
    return True


log.addFilter(_name_commands)


class UserError(ValueError):
    """Invalid user input. The message says what was found and where, what was expected, and what to do."""

    __module__ = "elmo"  # where users import it from

    def __init__(self, message: str):
        super().__init__(with_commands(message))


def join_names(names: Sequence[str], maximum: int = 10) -> str:
    """Join names with commas, at most `maximum` of them."""
    return ", ".join(names[:maximum]) + (f" and {len(names) - maximum} more" if len(names) > maximum else "")


def format_count(n: int, things: str) -> str:
    """Format a number of things: 1 text, 2,000 texts."""
    return f"{n:,} {things.removesuffix('s') if n == 1 else things}"


def format_duration(seconds: float) -> str:
    """Format a duration: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
