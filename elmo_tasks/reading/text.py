"""Passages and questions as tokens that know their place in the text."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate, chain

import numpy as np

from elmo_core.text.tokenise import ASCII_MARKS, chinese, english, paragraphs

LANGUAGES = {"zh": chinese, "en": english}  # as `preprocess.py text` splits text into sentences of tokens
ONE_FOR_ONE = str.maketrans(
    {"–": "-", **{chr(code): text.strip() for code, text in ASCII_MARKS.items() if len(text.strip()) == 1}}
)


@dataclass(frozen=True)
class Span:
    """Tokens from the first to the last, both included. whole: they have nothing but the text that was looked for."""

    first: int
    last: int
    whole: bool


@dataclass(frozen=True)
class Text:
    """A text, its sentences, which are what ELMo reads, and where each of their tokens begins and ends in it."""

    text: str
    sentences: list[tuple[str, ...]]
    places: np.ndarray  # (n, 2) int64

    @classmethod
    def of(cls, text: str, language: str) -> "Text":
        cut, sentences, found, offset = LANGUAGES[language], [], [], 0
        for line in text.split("\n"):  # no sentence goes on in the next
            new = [tuple(tokens) for paragraph in paragraphs(line) for tokens in cut(paragraph)]
            sentences += new
            found.append(places(list(chain.from_iterable(new)), line) + offset)
            offset += len(line) + 1
        return cls(text, sentences, np.concatenate(found))

    @cached_property
    def tokens(self) -> list[str]:
        return list(chain.from_iterable(self.sentences))

    @cached_property
    def ends(self) -> list[int]:
        """How many tokens there are up to the end of each sentence."""
        return list(accumulate(map(len, self.sentences)))

    def extent(self, first: int, last: int) -> tuple[int, int]:
        """Where the text from one token to another, both included, begins and ends."""
        return int(self.places[first, 0]), int(self.places[last, 1])

    def tokens_of(self, begin: int, end: int) -> "Span | None":
        """The tokens that share characters with the text from begin to end."""
        found = np.flatnonzero((self.places[:, 0] < end) & (self.places[:, 1] > begin))
        if not len(found):
            return None
        first, last = int(found[0]), int(found[-1])
        return Span(first, last, self.places[first, 0] >= begin and self.places[last, 1] <= end)


def places(tokens: Sequence[str], text: str) -> np.ndarray:
    """(n, 2) int64, where each token begins and ends in the text that it was cut from.

    The tokeniser may have changed characters (“ to ", … to three stops, invisible ones to nothing): these stand for the
    stretch of text that they replace.
    """
    if not tokens:
        return np.zeros((0, 2), np.int64)
    kept = np.array([k for k, character in enumerate(text) if not character.isspace()], np.int64)
    found, original = "".join(tokens), "".join(text.split())
    begins, ends = np.arange(len(found)), np.arange(1, len(found) + 1)  # of characters, without white space
    if found != original and found != (plain := original.translate(ONE_FOR_ONE)):
        for _, a, b, c, d in SequenceMatcher(None, found, plain, autojunk=False).get_opcodes():
            same = b - a == d - c
            begins[a:b] = np.arange(c, d) if same else c
            ends[a:b] = np.arange(c + 1, d + 1) if same else d
    kept_ends = np.concatenate([[0], kept + 1])  # the text's end after so many characters
    kept = np.append(kept, len(text))
    last = np.cumsum([len(token) for token in tokens], dtype=np.int64)
    first = last - [len(token) for token in tokens]
    return np.stack([kept[begins[first]], kept_ends[ends[last - 1]]], axis=1).reshape(-1, 2)


@dataclass(frozen=True)
class Window:
    """The tokens of a text from one (included) to another (not included)."""

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
        """The sentences that it has tokens of, each with the slice of these tokens."""
        ends = self.text.ends
        found = slice(bisect_right(ends, self.begin), bisect_left(ends, self.end) + 1)
        for sentence, end in zip(self.text.sentences[found], ends[found], strict=True):
            first = end - len(sentence)
            yield sentence, slice(max(self.begin - first, 0), min(self.end - first, len(sentence)))


def windows(text: Text, size: int, stride: int) -> list[Window]:
    """All of a text in windows of at most `size` tokens, each `stride` tokens behind the one before."""
    n = len(text.tokens)
    last = max(0, -(-(n - size) // stride))
    return [Window(text, k * stride, min(k * stride + size, n)) for k in range(last + 1)]
