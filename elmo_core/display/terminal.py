"""Text in terminal columns. A Chinese character takes two."""

import unicodedata
from collections.abc import Sequence


def display_width(text: str) -> int:
    """Return the width in columns: two for a wide character, none for a combining accent."""
    bases = (c for c in text if unicodedata.category(c) not in ("Mn", "Me"))
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in bases)


def pad(text: str, width: int) -> str:
    """Fill up a text with spaces to a width in columns."""
    missing = width - display_width(text)
    return text.ljust(len(text) + missing)


def pad_all(texts: Sequence[str]) -> list[str]:
    """Fill up texts with spaces to the width of the widest."""
    width = max(display_width(text) for text in texts)
    return [pad(text, width) for text in texts]


def truncate(text: str, room: int) -> str:
    """Truncate a text to `room` columns."""
    column = 0
    n_kept = 0  # characters that leave a column for the ellipsis
    for character in text:
        column += display_width(character)
        if column > room:
            return text[:n_kept] + "…"
        if column < room:
            n_kept += 1
    return text


def printable(text: str) -> str:
    """Replace control characters, but not the joiners of Persian and of other scripts."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else "\ufffd" for c in text)
