"""Errors and log messages for users; lists, counts and durations as text."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger("elmo")
SCRIPTS = Path(__file__).resolve().parent.parent.parent / "elmo_scripts"  # of a library that pip has installed
_NAMES = r"eval|embed|finetune|polysemy|pretrain|read|tag|convert|preprocess|export|word2vec"  # of command.py
_SCRIPT = re.compile(rf"(distributed\.launch .*?)?(?:python )?\b((?:run_)?({_NAMES})(?:_model|_base)?\.py)\b")


def with_commands(text: str) -> str:
    """Name the commands instead of the scripts, such as `python run_tag.py`, where no script is at hand.

    Paddle's launcher needs the script.
    """
    if not SCRIPTS.is_dir():
        return text
    return _SCRIPT.sub(lambda match: f"{match[1]}{SCRIPTS / match[2]}" if match[1] else f"elmo {match[3]}", text)


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
