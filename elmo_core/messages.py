"""Errors, log messages and bars of progress for users; lists, counts and durations as text."""

import logging
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

log = logging.getLogger("elmo")
SCRIPTS = (
    Path(__file__).resolve().parent.parent / "elmo_scripts"
)  # of a library that pip has installed
COMMANDS = {  # of the command `elmo`: the script and what it does
    "preprocess": ("preprocess", "turn raw text into a corpus; count a vocabulary; train word2vec"),
    "pretrain": ("run_pretrain", "pretrain ELMo on a corpus"),
    "eval": ("run_eval", "compute the perplexity of held-out text"),
    "surprisal": (
        "run_eval",
        "the same: surprisal of words and sentences, minimal pairs, regions of experiments",
    ),
    "embed": ("run_embed", "write the vectors of a text to HDF5"),
    "polysemy": ("run_polysemy", "show the senses of a word in context"),
    "tag": ("run_tag", "train taggers, tag text"),
    "finetune": ("run_finetune", "train classifiers of texts and text pairs, classify"),
    "parse": ("run_parse", "train dependency parsers, parse text"),
    "read": ("run_read", "train question answering, answer questions"),
    "word2vec": ("word2vec_base", "train the baseline of finetune, word2vec + bag of words"),
    "convert": ("convert", "list and fetch published models; import and export weights"),
    "models": (
        "convert",
        "the same: list the published ELMos, and the ready-made taggers and parsers",
    ),
    "export": ("export_model", "export a trained model for Paddle Inference and ONNX Runtime"),
}
COMMAND_OF = {f"{script}.py": command for command, (script, _) in reversed(COMMANDS.items())}
_NAME = "|".join(map(re.escape, COMMAND_OF))
_NAME = rf"(?<![\w./\\-])({_NAME})(?!\.?[\w/\\-])"  # not within a path
_SCRIPT = re.compile(rf"(distributed\.launch .*?)?(?:python )?{_NAME}")


def with_commands(text: str) -> str:
    """Name the commands instead of the scripts, such as `python run_tag.py`, where no script is at hand.

    Paddle's launcher needs the script.
    """
    if not SCRIPTS.is_dir():
        return text
    return _SCRIPT.sub(
        lambda m: f"{m[1]}{SCRIPTS / m[2]}" if m[1] else f"elmo {COMMAND_OF[m[2]]}", text
    )


class UserError(ValueError):
    """Invalid user input. The message says what was found and where, what was expected, and what to do."""

    __module__ = "elmo"  # where users import it from

    def __init__(self, message: str):
        super().__init__(with_commands(message))


def bar(items: Iterable | None, shown: bool, **options: Any) -> Any:
    """Return a bar, of items if there are any, for a terminal or a notebook. It appears if it takes longer than 2 s."""
    from tqdm.auto import tqdm  # takes a while

    is_watched = "ipykernel" in sys.modules or (
        sys.stderr and sys.stderr.isatty()
    )  # None: closed, by `2>&-`
    return tqdm(items, disable=not (shown and is_watched), delay=2, **options)


def join_names(names: Sequence[str], maximum: int = 10) -> str:
    """Join names with commas, at most `maximum` of them."""
    return ", ".join(names[:maximum]) + (
        f" and {len(names) - maximum} more" if len(names) > maximum else ""
    )


def format_count(n: int, things: str) -> str:
    """Format a number of things: 1 text, 2,000 texts."""
    return f"{n:,} {things.removesuffix('s') if n == 1 else things}"


def format_duration(seconds: float) -> str:
    """Format a duration: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
