"""Passages and questions as tokens with their offsets, and the answers in windows of them.

NumPy only.
"""

import math
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
    """A text as tokens.

    sentences: of tokens, as ELMo reads them.
    offsets: of the tokens, as `token_offsets` returns them.
    """

    text: str
    sentences: list[tuple[str, ...]] = field(repr=False)
    offsets: np.ndarray = field(repr=False)

    @classmethod
    def from_string(cls, text: str, tokeniser: Tokeniser) -> "Text":
        """Tokenise a text. A sentence does not cross the end of its line."""
        sentences = []
        offsets = []  # of each line's tokens
        begin = 0
        for line in text.split("\n"):
            in_line = [tuple(tokens) for tokens in tokeniser.sentences(line)]
            tokens = list(chain.from_iterable(in_line))
            sentences += in_line
            offsets.append(token_offsets(tokens, line) + begin)
            begin += len(line) + 1
        return cls(text, sentences, np.concatenate(offsets))

    @cached_property
    def tokens(self) -> list[str]:
        return list(chain.from_iterable(self.sentences))

    @cached_property
    def sentence_ends(self) -> list[int]:
        """Cumulative token counts at sentence ends."""
        return list(accumulate(len(sentence) for sentence in self.sentences))

    def char_span(self, first: int, last: int) -> tuple[int, int]:
        """Begin and end, in characters, of the tokens from first to last, both included."""
        return int(self.offsets[first, 0]), int(self.offsets[last, 1])

    def token_span(self, begin: int, end: int) -> tuple[int, int] | None:
        """The first and the last token that share characters with text[begin:end]."""
        indices = np.flatnonzero((self.offsets[:, 0] < end) & (self.offsets[:, 1] > begin))
        if not len(indices):
            return None
        return int(indices[0]), int(indices[-1])


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
        """The sentences that overlap the window, and its tokens' positions in these, joined."""
        ends = self.text.sentence_ends
        first = bisect_right(ends, self.begin)
        last = bisect_left(ends, self.end)
        before = ends[first - 1] if first else 0  # tokens before the first sentence
        positions = np.arange(self.begin - before, self.end - before)
        return self.text.sentences[first : last + 1], positions


def windows(text: Text, size: int, stride: int) -> list[Window]:
    """Cover a text with windows of at most `size` tokens that begin `stride` tokens apart."""
    n = len(text.tokens)
    if not n:
        return []
    beyond_the_first = max(0, n - size)
    n_windows = 1 + math.ceil(beyond_the_first / stride)
    begins = [k * stride for k in range(n_windows)]
    return [Window(text, begin, min(begin + size, n)) for begin in begins]


def question_features(tokens: Sequence[str], question: Text) -> list[tuple[bool, bool]]:
    """Two features of each token of a passage, whatever the case.

    They are whether it is a token of the question, and whether it occurs in the question's text.
    """
    text = question.text.lower()
    words = {token.lower() for token in question.tokens}
    lowered = [token.lower() for token in tokens]
    return [(token in words, token in text) for token in lowered]


class Answer(NamedTuple):
    """A span of a passage: begin and end in characters.

    score: its probability among all spans of the passage. A reader of questions that may have no
    answer also gives the empty text at 0, whose score is that of no answer.
    """

    text: str
    begin: int
    end: int
    score: float


def span_scores(logits: np.ndarray, longest: int) -> np.ndarray:
    """Scores (T, longest) of each span of at most `longest` tokens.

    They are sums of the logits (2, T) of the first and of the last token. Row t holds the spans
    that end with token t, the longest first; -inf: the span would begin before the text.
    """
    firsts, lasts = logits
    before_the_text = np.full(longest - 1, -np.inf, logits.dtype)
    padded = np.concatenate([before_the_text, firsts])
    of_firsts = np.lib.stride_tricks.sliding_window_view(padded, longest)  # (T, longest)
    return of_firsts + lasts[:, None]


def best_answers(
    text: Text, scores: np.ndarray, k: int, no_answer: float | None = None
) -> list[Answer]:
    """The k best of the spans of a text, best first; the earliest of equal ones comes first.

    scores: (T, longest), as `span_scores` orders them; they are changed.
    no_answer: the score of no answer, if there may be none.
    """
    longest = scores.shape[1]
    total = np.logaddexp.reduce(scores.ravel(), dtype=np.float64)
    if no_answer is not None:
        total = np.logaddexp(total, no_answer)
    answers: dict[str, Answer] = {}
    while len(answers) < k and np.isfinite(scores.max()):
        first_of_the_best = int((scores >= scores.max() - TIE).argmax())  # in reading order
        last, column = divmod(first_of_the_best, longest)
        first = last - longest + 1 + column
        begin, end = text.char_span(first, last)
        probability = float(np.exp(scores[last, column] - total))
        answer = Answer(text.text[begin:end], begin, end, probability)
        answers.setdefault(answer.text, answer)  # of equal texts, the best
        scores[last, column] = -np.inf
    best = list(answers.values())
    if no_answer is not None:
        best.append(Answer("", 0, 0, float(np.exp(no_answer - total))))
        best.sort(key=attrgetter("score"), reverse=True)
    return best[:k]
