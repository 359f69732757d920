"""Tokens as rows of character ids: bilm-tf's bytes, or Unicode code points with ids from a table.

Both put a token's characters between a begin and an end marker, then padding, C in total: 50,
except in some imported models. "<S>" and "</S>" each become a single special character. NumPy only.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from elmo_core.config import MAX_CHARS

MAX_BYTES = MAX_CHARS - 2  # per token, or code points: without the two markers
BOS = "<S>"
EOS = "</S>"

# Five bytes that UTF-8 never uses represent bilm-tf's characters 256 to 260, so that a table of
# tokens is one byte string. IDS maps a byte to bilm-tf's id plus one.
BOS_BYTE = b"\xfb"
EOS_BYTE = b"\xfc"
WORD_BEGIN = b"\xfd"
WORD_END = b"\xfe"
PADDING = b"\xff"
IDS = np.r_[1:0xFC, 257:262].astype(np.int32)


@cache
def _padding_masks(columns: int) -> np.ndarray:
    """Masks (C + 1, C): a bitwise "or" with row n turns all but n bytes into padding."""
    column = np.arange(columns)
    length = np.arange(columns + 1)[:, None]
    return np.where(column < length, 0, PADDING[0]).astype(np.uint8)


class CharTable:
    """The bytes of many tokens, concatenated; `rows` expands them to bilm-tf's ids plus one."""

    def __init__(self, tokens: Iterable[str], columns: int = MAX_CHARS):
        special = {BOS: BOS_BYTE, EOS: EOS_BYTE}
        words = [special.get(token) or _utf8(token)[: columns - 2] for token in tokens]
        text = WORD_BEGIN + (WORD_END + WORD_BEGIN).join(words) + WORD_END + PADDING * columns
        self.lengths = _lengths_with_markers(words)
        self._starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        self._windows = np.lib.stride_tricks.sliding_window_view(
            np.frombuffer(text, np.uint8), columns
        )
        self._masks = _padding_masks(columns)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Character ids (n, C) int32 of the tokens with these indices (n,)."""
        windows = self._windows[self._starts[indices]]
        masks = self._masks[self.lengths[indices]]
        return IDS.take(windows | masks)


def _lengths_with_markers(words: Sequence[Sized]) -> np.ndarray:
    """The lengths (n,) uint8 of words, with the markers of begin and end."""
    lengths = np.array([len(word) for word in words], np.uint8)
    return lengths + np.uint8(2)


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "ignore")  # as bilm-tf: lone surrogates are dropped


@dataclass(frozen=True)
class Bytes:
    """bilm-tf's alphabet: a token is its UTF-8 bytes."""

    unit: ClassVar = "bytes"
    columns: int = MAX_CHARS

    def table(self, tokens: Iterable[str]) -> CharTable:
        return CharTable(tokens, self.columns)

    @staticmethod
    def truncated(tokens: Sequence[str]) -> Sequence[str]:
        return tokens

    def is_truncated(self, token: str) -> bool:
        """Tell whether only the beginning of the token is read."""
        longest = self.columns - 2
        return len(token) > longest // 4 and len(_utf8(token)) > longest


class CodePoints:
    """ELMoForManyLangs' alphabet: a token is its Unicode code points, with ids from a table.

    ids: {character: id}, which also has each name in NAMES. The marker before a token's characters
    is the one called "<eow>", the marker after them "<bow>": the original swaps them, in training
    too.
    """

    unit = "characters"
    columns = MAX_CHARS
    BOS_NAME = "<bos>"
    EOS_NAME = "<eos>"
    TOKEN_BEGIN = "<eow>"
    TOKEN_END = "<bow>"
    UNKNOWN = "<oov>"
    PAD = "<pad>"
    NAMES = (BOS_NAME, EOS_NAME, TOKEN_BEGIN, TOKEN_END, UNKNOWN, PAD)

    def __init__(self, ids: Mapping[str, int]):
        self.ids = dict(ids)

    def table(self, tokens: Iterable[str]) -> "CodePointTable":
        return CodePointTable(self.ids, list(tokens))

    @staticmethod
    def truncated(tokens: Sequence[str]) -> Sequence[str]:
        """Return the tokens as they are read; the vocabulary looks them up in this form too."""
        return [token[:MAX_BYTES] for token in tokens]

    @staticmethod
    def is_truncated(token: str) -> bool:
        return len(token) > MAX_BYTES


class CodePointTable:
    """A `CharTable` of code points."""

    def __init__(self, ids: Mapping[str, int], tokens: list[str]):
        words = [_code_point_ids(token, ids) for token in tokens]
        begin = ids[CodePoints.TOKEN_BEGIN]
        end = ids[CodePoints.TOKEN_END]
        self.lengths = _lengths_with_markers(words)
        self._rows = np.full((len(words), MAX_CHARS), ids[CodePoints.PAD], np.int32)
        for row, word in zip(self._rows, words, strict=True):
            row[: len(word) + 2] = [begin, *word, end]

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self._rows[indices]


def _code_point_ids(token: str, ids: Mapping[str, int]) -> list[int]:
    if token == BOS:
        return [ids[CodePoints.BOS_NAME]]
    if token == EOS:
        return [ids[CodePoints.EOS_NAME]]
    unknown = ids[CodePoints.UNKNOWN]
    return [ids.get(character, unknown) for character in token[:MAX_BYTES]]


Alphabet = Bytes | CodePoints
BYTES = Bytes()
