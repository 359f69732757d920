"""Tokens as rows of character ids: the bytes of bilm-tf, or Unicode code points by a table of their own. NumPy only.

Both give a token's own characters between two marks and padding behind them, C in all: 50, but for some imported models.
"<S>" and "</S>" become single characters of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from elmo_core.config import MAX_CHARS

MAX_BYTES = MAX_CHARS - 2  # of a token, or code points: what is left between the two marks
BOS, EOS = "<S>", "</S>"

# Five bytes that UTF-8 never uses stand for bilm-tf's characters 256 to 260, so that a table of tokens is one string
# of bytes. IDS turns a byte into bilm-tf's id plus one; _behind(C)[n] turns, by "or", all but n bytes into padding.
BOS_BYTE, EOS_BYTE, WORD_BEGIN, WORD_END, PADDING = (bytes([byte]) for byte in range(0xFB, 0x100))
IDS = np.r_[1:0xFC, 257:262].astype(np.int32)


@cache
def _behind(columns: int) -> np.ndarray:
    return np.where(np.arange(columns) < np.arange(columns + 1)[:, None], 0, PADDING[0]).astype(np.uint8)


class CharTable:
    """The bytes of many tokens, end to end in one string, expanded into rows of bilm-tf's ids plus one on demand."""

    def __init__(self, tokens: Iterable[str], columns: int = MAX_CHARS):
        marker = {BOS: BOS_BYTE, EOS: EOS_BYTE}
        words = [marker.get(token) or _utf8(token)[: columns - 2] for token in tokens]
        text = WORD_BEGIN + (WORD_END + WORD_BEGIN).join(words) + WORD_END + PADDING * columns
        self.lengths = np.fromiter(map(len, words), np.uint8, len(words)) + np.uint8(2)  # (n,) with begin and end
        self._starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        self._windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text, np.uint8), columns)
        self._behind = _behind(columns)

    def rows(self, which: np.ndarray) -> np.ndarray:
        """(n, C) int32 character ids of the tokens numbered `which` (n,)."""
        return IDS.take(self._windows[self._starts[which]] | self._behind[self.lengths[which]])


def count_cut(tokens: Iterable[str], alphabet: "Alphabet | None" = None) -> int:
    """How many of the tokens are longer than what is read of them."""
    return sum(map((alphabet or BYTES).is_cut, tokens))


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "ignore")  # as bilm-tf: half a surrogate pair is left out


class Bytes:
    """bilm-tf's alphabet: a token is its UTF-8 bytes."""

    unit = "bytes"

    def __init__(self, columns: int = MAX_CHARS):
        self.columns = columns

    def table(self, tokens: Iterable[str]) -> CharTable:
        return CharTable(tokens, self.columns)

    @staticmethod
    def shortened(tokens: Sequence[str]) -> Sequence[str]:
        return tokens

    def is_cut(self, token: str) -> bool:
        """Whether the token is longer than what is read of it."""
        longest = self.columns - 2
        return len(token) > longest // 4 and len(_utf8(token)) > longest


class CodePoints:
    """ELMoForManyLangs' alphabet: a token is its Unicode code points, each with the id that a table gives it.

    ids: {character: id}, with an id for each name in NAMES, too. The mark before a token's characters is the one that is
    called "<eow>", the mark behind them "<bow>": they are swapped in the original, in training, too.
    """

    unit, columns = "characters", MAX_CHARS
    NAMES = BOS_NAME, EOS_NAME, BEFORE, BEHIND, UNKNOWN, PAD = "<bos>", "<eos>", "<eow>", "<bow>", "<oov>", "<pad>"

    def __init__(self, ids: Mapping[str, int]):
        self.ids = dict(ids)

    def table(self, tokens: Iterable[str]) -> "CodePointTable":
        return CodePointTable(self.ids, list(tokens))

    @staticmethod
    def shortened(tokens: Sequence[str]) -> Sequence[str]:
        """Tokens as they are looked up among the words, too: cut first."""
        return [token[:MAX_BYTES] for token in tokens]

    @staticmethod
    def is_cut(token: str) -> bool:
        return len(token) > MAX_BYTES


class CodePointTable:
    """The same of code points, as `CharTable`."""

    def __init__(self, ids: Mapping[str, int], tokens: list[str]):
        unknown, names = ids[CodePoints.UNKNOWN], {BOS: CodePoints.BOS_NAME, EOS: CodePoints.EOS_NAME}
        words = [
            [ids[names[token]]] if token in names else [ids.get(character, unknown) for character in token[:MAX_BYTES]]
            for token in tokens
        ]
        self.lengths = np.fromiter(map(len, words), np.uint8, len(words)) + np.uint8(2)
        self._rows = np.full((len(words), MAX_CHARS), ids[CodePoints.PAD], np.int32)
        for row, word in zip(self._rows, words, strict=True):
            row[: len(word) + 2] = [ids[CodePoints.BEFORE], *word, ids[CodePoints.BEHIND]]

    def rows(self, which: np.ndarray) -> np.ndarray:
        return self._rows[which]


Alphabet = Bytes | CodePoints
BYTES = Bytes()
