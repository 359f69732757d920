"""Offsets of tokens in the text that they were made from."""

from collections.abc import Sequence
from difflib import Match, SequenceMatcher

import numpy as np

from elmo_core.text.tokenise import ASCII_MARKS

ONE_FOR_ONE = str.maketrans(
    {"–": "-", **{chr(code): text.strip() for code, text in ASCII_MARKS.items() if len(text.strip()) == 1}}
)
WINDOW = 128  # characters to compare at a difference, in which AGREEMENT in a row show that it is over
AGREEMENT = 16
LONGEST = 1 << 16  # of a part that the tokeniser removed, such as the address of a link
STRIDE = 4096  # characters to compare at once


def token_offsets(tokens: Sequence[str], text: str) -> np.ndarray:
    """Begin and end (n, 2) int64 of each token in its text, in characters: [[0, 1], [2, 3], [3, 4]] for `a … b` in `a …b`.

    Characters that the tokeniser replaced (“ by ", … by three stops, invisible ones by nothing) are included.
    """
    if not tokens:
        return np.zeros((0, 2), np.int64)
    lengths = np.array([len(token) for token in tokens])
    if text == " ".join(tokens):
        ends = (lengths + 1).cumsum() - 1
        return np.stack([ends - lengths, ends], axis=1)
    characters = align_characters("".join(tokens), text)
    last = lengths.cumsum() - 1
    return np.stack([characters[last - lengths + 1, 0], characters[last, 1]], axis=1)


def align_characters(tokenised: str, text: str) -> np.ndarray:
    """Begin and end (n, 2) int64 in the text of each character of its tokens. Replaced characters share one range."""
    indices = [k for k, character in enumerate(text) if not character.isspace()]
    original = "".join(text[k] for k in indices)
    first, end = np.arange(len(tokenised)), np.arange(1, len(tokenised) + 1)  # in `original`
    if tokenised != original and tokenised != (plain := original.translate(ONE_FOR_ONE)):
        a = c = 0
        for b, d, size in [*_matching_blocks(tokenised, plain), Match(len(tokenised), len(plain), 0)]:
            same = b - a == d - c
            first[a:b] = np.arange(c, d) if same else c
            end[a:b] = np.arange(c + 1, d + 1) if same else d
            a, c = b + size, d + size
            first[b:a], end[b:a] = np.arange(d, c), np.arange(d + 1, c + 1)
    begins, ends = np.array([*indices, len(text)], np.int64), np.array([0, *(k + 1 for k in indices)], np.int64)
    return np.stack([begins[first], ends[end]], axis=1)


def _matching_blocks(one: str, other: str) -> list[Match]:
    """The parts in which a text and its tokens agree, as `SequenceMatcher` finds them, in linear time."""
    blocks, a, b = [], 0, 0
    while a < len(one) and b < len(other):
        size = _agreement(one[a : a + STRIDE], other[b : b + STRIDE])
        blocks += [Match(a, b, size)] if size else _after_difference(one, other, a, b)
        a, b = blocks[-1].a + blocks[-1].size, blocks[-1].b + blocks[-1].size
    return _in_longer_blocks(blocks, one, other)


def _in_longer_blocks(blocks: list[Match], one: str, other: str) -> list[Match]:
    """Join adjacent blocks. What agrees on either side of a gap goes to the longer one: not the `a` of `&amp; and`."""
    joined: list[Match] = []
    for block in blocks:
        a, b, size = joined[-1] if joined else (0, 0, 0)
        is_adjacent = (a + size, b + size) == block[:2]
        joined[-1:] = [Match(a, b, size + block.size)] if is_adjacent else [*joined[-1:], block]
    for k in range(1, len(joined)):
        (a, b, size), (c, d, next_size), shared = joined[k - 1], joined[k], 0
        while 0 in (c - a - size, d - b - size) and shared < size and one[c - 1 - shared] == other[d - 1 - shared]:
            shared += 1
        if shared + next_size > size:
            joined[k - 1 : k + 1] = Match(a, b, size - shared), Match(c - shared, d - shared, next_size + shared)
    return joined


def _agreement(one: str, other: str) -> int:
    """The number of characters at the beginning that agree."""
    differences = (k for k, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)
    return len(one) if one == other else next(differences, min(len(one), len(other)))


def _after_difference(one: str, other: str, a: int, b: int) -> list[Match]:
    """The next matching blocks from a and b on, where the texts differ."""

    def blocks(end: int, begin: int, other_end: int) -> list[Match]:
        matcher = SequenceMatcher(None, one[a:end], other[begin:other_end], autojunk=False)
        return [Match(a + match.a, begin + match.b, match.size) for match in matcher.get_matching_blocks()]

    if a + WINDOW >= len(one):
        return blocks(len(one), b, b + LONGEST)
    found = blocks(a + WINDOW, b, b + 4 * WINDOW)
    for k, match in enumerate(found):
        if match.size >= AGREEMENT:
            return found[: k + 1]
    probes = range(a, min(a + 4 * WINDOW, len(one) - AGREEMENT), AGREEMENT // 2)
    hits = [(other.find(one[at : at + AGREEMENT], b, b + LONGEST), at) for at in probes]
    far, at = min((hit for hit in hits if hit[0] >= 0), default=(-1, a))
    if far >= 0:
        return [*blocks(at, b, far), Match(at, far, AGREEMENT)]
    half = WINDOW // 2  # of what agrees, the later part is uncertain
    return [match for match in found if match.a + match.size <= a + half] or [
        Match(a + half, min(b + half, len(other)), 0)
    ]
