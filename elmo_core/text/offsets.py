"""Offsets of tokens in the text that they were made from.

The tokeniser removes mark-up, white space and invisible characters, and replaces others by similar ones. So tokens and text
are compared in a plain form, which these changes leave as it is.
"""

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from elmo_core.text.tokenise import ASCII_MARKS, BREAK, CP1252_FIXES, ENTITY, INVISIBLE, TAG

MARKUP = re.compile(f"{BREAK.pattern}|{TAG.pattern}|{ENTITY.pattern}", re.IGNORECASE)
MARKS = ASCII_MARKS | str.maketrans(
    {**dict.fromkeys('"“”„‟', "''"), "–": "-"}
)  # `''` is a quotation mark, too
FARTHEST = 1000  # characters that are searched for one that is not where it is expected


def token_offsets(tokens: Sequence[str], text: str) -> np.ndarray:
    """Begin and end (n, 2) int64 of each token in its text, in characters: [[0, 1], [2, 3], [3, 4]] for `a … b` in `a …b`.

    Characters that the tokeniser replaced (“ by ", … by three stops, invisible ones by nothing) are included.
    """
    if "".join(tokens) == "".join(text.split()):
        pieces = [
            (k, k + 1, character) for k, character in enumerate(text) if not character.isspace()
        ]
    else:
        pieces = [
            (begin, end, character) for begin, end, plain in _pieces(text) for character in plain
        ]
        ordered = unicodedata.normalize(
            "NFKD", "".join(character for *_, character in pieces)
        )  # marks, as in tokens
        pieces = [(begin, end, mark) for (begin, end, _), mark in zip(pieces, ordered, strict=True)]
        tokens = list(map(_plain, tokens))
    found = _align("".join(tokens), "".join(character for _, _, character in pieces))
    ranges = np.array([piece[:2] for piece in pieces] or [(0, 0)], np.int64)[
        found
    ]  # of the tokens' characters
    lengths = np.array([len(token) for token in tokens], np.int64)
    stop = np.cumsum(lengths)
    begin, end = np.append(ranges[:, 0], 0)[stop - lengths], np.append(0, ranges[:, 1])[stop]
    return np.stack([np.where(lengths, begin, end), end], axis=1)


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of a text that become characters, or nothing: begin, end, plain form."""
    begin = 0
    for match in MARKUP.finditer(text):
        yield from ((k, k + 1, _plain(text[k])) for k in range(begin, match.start()))
        begin = match.end()
        yield (
            match.start(),
            begin,
            _plain(html.unescape(match[0])) if match[0].startswith("&") else "",
        )
    yield from ((k, k + 1, _plain(text[k])) for k in range(begin, len(text)))


@lru_cache(10_000)
def _plain(text: str) -> str:
    """Return a form that is the same before and after the tokeniser's changes, without white space."""
    text = unicodedata.normalize("NFKD", text.translate(CP1252_FIXES)).translate(MARKS)
    return "".join(INVISIBLE.sub("", text).split())


def _align(tokens: str, text: str) -> np.ndarray:
    """For each character of the tokens, the index of the same character in the text, from the last one on."""
    if tokens == text:
        return np.arange(len(text))
    found, position = [], 0
    for character in tokens:
        k = text.find(character, position, position + FARTHEST)
        found.append(k if k >= 0 else min(position, len(text) - 1))
        position = found[-1] + (k >= 0)
    return np.array(found, np.int64)
