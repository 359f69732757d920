"""Errors, log messages and bars of progress for users; lists, counts and durations as text."""

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

log = logging.getLogger("elmo")
Progress = Callable[[dict[str, Any]], object]  # receives the scores of a training, as they come


class UserError(ValueError):
    """Invalid user input.

    The message says what was found and where, what was expected, and what to do.
    """

    __module__ = "elmo"  # where users import it from


def bar(items: Iterable | None, shown: bool, **options: Any) -> Any:
    """Return a bar for a terminal or a notebook, of items if there are any.

    It appears if it takes longer than 2 s.
    """
    from tqdm.auto import tqdm  # takes a while

    is_notebook = "ipykernel" in sys.modules
    # None: closed, by `2>&-`
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    is_watched = is_notebook or is_terminal
    return tqdm(items, disable=not (shown and is_watched), delay=2, **options)


def training_bar(progress: Progress | bool, **options: Any) -> Any:
    """A bar of a training: by default in a terminal or notebook where the log is not shown.

    progress: the user's wish: False for none. options: of tqdm.
    """
    from tqdm.auto import tqdm  # takes a while

    is_wanted = progress is not False and not log.isEnabledFor(logging.INFO)
    shown = bar(None, is_wanted, **options)
    if not shown.disable:
        advice = 'To see scores and times while it trains: logging.basicConfig(level="INFO")'
        tqdm.write(advice, file=sys.stderr)
    return shown


def join_names(names: Sequence[str], maximum: int = 10) -> str:
    """Join names with commas, at most `maximum` of them."""
    joined = ", ".join(names[:maximum])
    if len(names) > maximum:
        joined += f" and {len(names) - maximum} more"
    return joined


def format_count(n: int, things: str) -> str:
    """Format a number of things: 1 text, 2,000 texts."""
    if n == 1:
        things = things.removesuffix("s")
    return f"{n:,} {things}"


def format_duration(seconds: float) -> str:
    """Format a duration: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
