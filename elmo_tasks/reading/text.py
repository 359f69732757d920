"""Passages and questions as tokens with their offsets in the text."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

import numpy as np

from elmo_core.text.offsets import token_offsets
from elmo_core.text.tokenise import sentences


@dataclass(frozen=True)
class TokenSpan:
    """Tokens from first to last, both included. exact: they do not extend beyond the characters looked up."""

    first: int
    last: int
    exact: bool


@dataclass(frozen=True)
class Text:
    """A text, its sentences of tokens, as ELMo reads them, and the tokens' offsets, as `token_offsets` returns them."""

    text: str
    sentences: list[tuple[str, ...]]
    offsets: np.ndarray

    @classmethod
    def from_string(cls, text: str, language: str) -> "Text":
        split, offsets, begin = [], [], 0
        for line in text.split("\n"):  # a sentence ends with its line
            in_line = [tuple(tokens) for tokens in sentences(line, language)]
            split += in_line
            offsets.append(token_offsets(list(chain.from_iterable(in_line)), line) + begin)
            begin += len(line) + 1
        return cls(text, split, np.concatenate(offsets))

    @cached_property
    def tokens(self) -> list[str]:
        return list(chain.from_iterable(self.sentences))

    @cached_property
    def sentence_ends(self) -> list[int]:
        """Cumulative token counts at sentence ends."""
        return list(accumulate(map(len, self.sentences)))

    def char_span(self, first: int, last: int) -> tuple[int, int]:
        """Begin and end, in characters, of the tokens from first to last, both included."""
        return int(self.offsets[first, 0]), int(self.offsets[last, 1])

    def token_span(self, begin: int, end: int) -> TokenSpan | None:
        """The tokens that share characters with text[begin:end]."""
        indices = np.flatnonzero((self.offsets[:, 0] < end) & (self.offsets[:, 1] > begin))
        if not len(indices):
            return None
        first, last = int(indices[0]), int(indices[-1])
        return TokenSpan(first, last, self.offsets[first, 0] >= begin and self.offsets[last, 1] <= end)


@dataclass(frozen=True)
class Window:
    """The tokens [begin, end) of a text."""

    text: Text
    begin: int
    end: int

    @classmethod
    def whole(cls, text: Text) -> "Window":
        return cls(text, 0, len(text.tokens))

    @property
    def tokens(self) -> list[str]:
        return self.text.tokens[self.begin : self.end]

    def parts(self) -> Iterator[tuple[tuple[str, ...], slice]]:
        """Each sentence that overlaps the window, with the slice of its tokens in the window."""
        ends = self.text.sentence_ends
        overlapping = slice(bisect_right(ends, self.begin), bisect_left(ends, self.end) + 1)
        for sentence, end in zip(self.text.sentences[overlapping], ends[overlapping], strict=True):
            first = end - len(sentence)
            yield sentence, slice(max(self.begin - first, 0), min(self.end - first, len(sentence)))


def windows(text: Text, size: int, stride: int) -> list[Window]:
    """Cover a text with windows of at most `size` tokens that begin `stride` tokens apart."""
    n = len(text.tokens)
    last = max(0, -(-(n - size) // stride))
    return [Window(text, k * stride, min(k * stride + size, n)) for k in range(last + 1)]
