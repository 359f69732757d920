"""Offsets of tokens in the text that they were made from."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from elmo_core.text.tokenise import ASCII_MARKS

ONE_FOR_ONE = str.maketrans(
    {"–": "-", **{chr(code): text.strip() for code, text in ASCII_MARKS.items() if len(text.strip()) == 1}}
)


def token_offsets(tokens: Sequence[str], text: str) -> np.ndarray:
    """Begin and end (n, 2) int64 of each token in its text, in characters: [[0, 1], [2, 3], [3, 4]] for `a … b` in `a …b`.

    Characters that the tokeniser replaced (“ by ", … by three stops, invisible ones by nothing) are included.
    """
    if not tokens:
        return np.zeros((0, 2), np.int64)
    characters = align_characters("".join(tokens), text)
    lengths = np.array([len(token) for token in tokens])
    last = lengths.cumsum() - 1
    return np.stack([characters[last - lengths + 1, 0], characters[last, 1]], axis=1)


def align_characters(tokenised: str, text: str) -> np.ndarray:
    """Begin and end (n, 2) int64 in the text of each character of its tokens. Replaced characters share one range."""
    indices = [k for k, character in enumerate(text) if not character.isspace()]
    original = "".join(text[k] for k in indices)
    first, end = np.arange(len(tokenised)), np.arange(1, len(tokenised) + 1)  # in `original`
    if tokenised != original and tokenised != (plain := original.translate(ONE_FOR_ONE)):
        for _, a, b, c, d in SequenceMatcher(None, tokenised, plain, autojunk=False).get_opcodes():
            same = b - a == d - c
            first[a:b] = np.arange(c, d) if same else c
            end[a:b] = np.arange(c + 1, d + 1) if same else d
    begins, ends = np.array([*indices, len(text)], np.int64), np.array([0, *(k + 1 for k in indices)], np.int64)
    return np.stack([begins[first], ends[end]], axis=1)
