"""Passages and questions as tokens with their offsets in the text, and the answers in windows of them. NumPy only."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from elmo_core.text.offsets import token_offsets
from elmo_core.text.tokenise import Tokeniser

TIE = 1e-4  # scores closer than this are equal: processors differ in the last digits


@dataclass(frozen=True)
class Text:
    """A text, its sentences of tokens, as ELMo reads them, and the tokens' offsets, as `token_offsets` returns them."""

    text: str
    sentences: list[tuple[str, ...]] = field(repr=False)
    offsets: np.ndarray = field(repr=False)

    @classmethod
    def from_string(cls, text: str, tokeniser: Tokeniser) -> "Text":
        split, offsets, begin = [], [], 0
        for line in text.split("\n"):  # a sentence ends with its line
            in_line = [tuple(tokens) for tokens in tokeniser.sentences(line)]
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

    def token_span(self, begin: int, end: int) -> tuple[int, int] | None:
        """The first and the last token that share characters with text[begin:end]."""
        indices = np.flatnonzero((self.offsets[:, 0] < end) & (self.offsets[:, 1] > begin))
        return (int(indices[0]), int(indices[-1])) if len(indices) else None


@dataclass(frozen=True)
class Window:
    """The tokens [begin, end) of a text."""

    text: Text
    begin: int
    end: int

    @property
    def tokens(self) -> list[str]:
        return self.text.tokens[self.begin : self.end]

    def in_sentences(self) -> tuple[list[tuple[str, ...]], np.ndarray]:
        """The sentences that overlap the window, and the positions of its tokens in these one after another."""
        ends = self.text.sentence_ends
        first, last = bisect_right(ends, self.begin), bisect_left(ends, self.end)
        before = ends[first - 1] if first else 0
        return self.text.sentences[first : last + 1], np.arange(
            self.begin - before, self.end - before
        )


def windows(text: Text, size: int, stride: int) -> list[Window]:
    """Cover a text with windows of at most `size` tokens that begin `stride` tokens apart."""
    n = len(text.tokens)
    last = max(0, -(-(n - size) // stride))
    return [
        Window(text, k * stride, min(k * stride + size, n)) for k in range(last + 1 if n else 0)
    ]


def question_features(tokens: Sequence[str], question: Text) -> list[tuple[bool, bool]]:
    """Whether each token of a passage is a token of the question, and whether it occurs in the question's text."""
    text, words = question.text.lower(), {token.lower() for token in question.tokens}
    return [(token in words, token in text) for token in map(str.lower, tokens)]


class Answer(NamedTuple):
    """A span of a passage: begin and end in characters; score: its probability among all spans of the passage.

    A reader of questions that may have no answer also gives the empty text at 0, whose score is that of no answer.
    """

    text: str
    begin: int
    end: int
    score: float


def span_scores(logits: np.ndarray, longest: int) -> np.ndarray:
    """Sums (T, longest) of the logits (2, T) of the first and last token of each span of at most `longest` tokens.

    Row t holds the spans that end with token t, the longest first; -inf: the span would begin before the text.
    """
    firsts, lasts = logits
    padded = np.concatenate([np.full(longest - 1, -np.inf, logits.dtype), firsts])
    return np.lib.stride_tricks.sliding_window_view(padded, longest) + lasts[:, None]


def best_answers(
    text: Text, scores: np.ndarray, k: int, no_answer: float | None = None
) -> list[Answer]:
    """The k best of the spans (T, longest) of a text, as `span_scores` orders them, best first. Changes the scores.

    The earliest of equal spans comes first. no_answer: the score of no answer, if there may be none.
    """
    longest, total = scores.shape[1], np.logaddexp.reduce(scores.ravel(), dtype=np.float64)
    if no_answer is not None:
        total = np.logaddexp(total, no_answer)
    answers: dict[str, Answer] = {}
    while len(answers) < k and np.isfinite(scores.max()):
        last, column = divmod(int((scores >= scores.max() - TIE).argmax()), longest)
        begin, end = text.char_span(last - longest + 1 + column, last)
        answer = Answer(
            text.text[begin:end], begin, end, float(np.exp(scores[last, column] - total))
        )
        answers.setdefault(answer.text, answer)
        scores[last, column] = -np.inf
    best = list(answers.values())
    if no_answer is not None:
        best.append(Answer("", 0, 0, float(np.exp(no_answer - total))))
        best.sort(key=attrgetter("score"), reverse=True)
    return best[:k]
