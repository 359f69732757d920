"""Offsets of tokens in the text that they were made from.

The tokeniser removes mark-up, white space and invisible characters, and replaces others by similar
ones. So tokens and text are compared in a plain form, which these changes leave as it is.
"""

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from elmo_core.text.tokenise import ASCII_MARKS, BREAK, CP1252_FIXES, ENTITY, INVISIBLE, TAG

MARKUP = re.compile(f"{BREAK.pattern}|{TAG.pattern}|{ENTITY.pattern}", re.IGNORECASE)
# `''` is a quotation mark, too
MARKS = ASCII_MARKS | str.maketrans(
    {'"': "''", "“": "''", "”": "''", "„": "''", "‟": "''", "–": "-"}
)
FARTHEST = 1000  # characters that are searched for one that is not where it is expected


def token_offsets(tokens: Sequence[str], text: str) -> np.ndarray:
    """Begin and end (n, 2) int64 of each token in its text, in characters.

    [[0, 1], [2, 3], [3, 4]] for `a … b` in `a …b`. Characters that the tokeniser replaced (“ by ",
    … by three stops, invisible ones by nothing) are included.
    """
    if "".join(tokens) == "".join(text.split()):
        pieces = [_Piece(k, k + 1, text[k]) for k in range(len(text)) if not text[k].isspace()]
        plain_tokens = tokens
    else:
        pieces = _plain_characters(text)
        plain_tokens = [_plain(token) for token in tokens]
    found = _align("".join(plain_tokens), "".join(piece.plain for piece in pieces))
    begins = np.array([piece.begin for piece in pieces] or [0], np.int64)[found]
    ends = np.array([piece.end for piece in pieces] or [0], np.int64)[found]
    lengths = np.array([len(token) for token in plain_tokens], np.int64)
    stop = np.cumsum(lengths)  # of each token among the characters of all
    begin = np.append(begins, 0)[stop - lengths]
    end = np.append(0, ends)[stop]
    return np.stack([np.where(lengths, begin, end), end], axis=1)


class _Piece(NamedTuple):
    """A part of a text, and what it is in plain form."""

    begin: int
    end: int
    plain: str


def _plain_characters(text: str) -> list[_Piece]:
    """The plain characters of a text, and where each comes from."""
    pieces = []
    for begin, end, plain in _pieces(text):
        for character in plain:
            pieces.append(_Piece(begin, end, character))
    # combining marks in canonical order, as in tokens
    ordered = unicodedata.normalize("NFKD", "".join(piece.plain for piece in pieces))
    return [
        piece._replace(plain=character) for piece, character in zip(pieces, ordered, strict=True)
    ]


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the parts of a text that become characters, or nothing."""
    done = 0
    for match in MARKUP.finditer(text):
        yield from _characters(text, done, match.start())
        is_entity = match[0].startswith("&")
        plain = _plain(html.unescape(match[0])) if is_entity else ""
        yield _Piece(match.start(), match.end(), plain)
        done = match.end()
    yield from _characters(text, done, len(text))


def _characters(text: str, begin: int, end: int) -> Iterator[_Piece]:
    for k in range(begin, end):
        yield _Piece(k, k + 1, _plain(text[k]))


@lru_cache(10_000)
def _plain(text: str) -> str:
    """Return a form that the tokeniser's changes leave as it is, without white space."""
    text = unicodedata.normalize("NFKD", text.translate(CP1252_FIXES))
    text = text.translate(MARKS)
    text = INVISIBLE.sub("", text)
    return "".join(text.split())


def _align(tokens: str, text: str) -> np.ndarray:
    """For each character of the tokens, the index of the same character in the text.

    Each is searched after the one before it.
    """
    if tokens == text:
        return np.arange(len(text))
    found = []
    position = 0
    for character in tokens:
        index = text.find(character, position, position + FARTHEST)
        if index >= 0:
            found.append(index)
            position = index + 1
        else:
            position = min(position, len(text) - 1)
            found.append(position)
    return np.array(found, np.int64)
