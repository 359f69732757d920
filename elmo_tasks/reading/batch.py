"""Questions to a window of a passage, and batches of such groups.

Letters: B windows, Q questions, T and J tokens of either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmo_core.text.tokens import Vocabulary, padded
from elmo_tasks.reading.text import Text, Window

FEATURES = 2  # of a passage's token: whether the question has it, whether it stands somewhere in the question's text
QUESTIONS = 6  # of a group, at most


@dataclass
class WindowQuestion:
    """A question to a window. span: the first and the last token of its answer, counted from the window's beginning."""

    id: str
    question: Text
    span: tuple[int, int] | None = None


@dataclass
class QuestionGroup:
    """Questions to the same window, which are read together."""

    window: Window
    questions: list[WindowQuestion]

    def split(self) -> Iterator["QuestionGroup"]:
        """The same in groups of no more than QUESTIONS."""
        for k in range(0, len(self.questions), QUESTIONS):
            yield QuestionGroup(self.window, self.questions[k : k + QUESTIONS])


@dataclass
class Side:
    """The passages or the questions of a batch."""

    windows: list[Window]
    tokens: list[list[str]]
    ids: np.ndarray  # (B, T) int64 numbers of the tokens among the reader's words; padding is 0
    lengths: np.ndarray  # (B,) int64

    @classmethod
    def of(cls, windows: Sequence[Window], words: Vocabulary) -> "Side":
        tokens = [window.tokens for window in windows]
        lengths = np.array([len(one) for one in tokens], np.int64)
        ids = padded(np.concatenate([words.ids(one) for one in tokens]), lengths, lengths.max())
        return cls(list(windows), tokens, ids, lengths)

    @cached_property
    def mask(self) -> np.ndarray:
        """(B, T) float32, 1 at the tokens that are there."""
        return (np.arange(self.ids.shape[1]) < self.lengths[:, None]).astype(np.float32)


@dataclass
class Batch:
    passages: Side  # B windows
    questions: Side  # Q questions
    passage_of: np.ndarray  # (Q,) int64 row of each question's window
    features: np.ndarray  # (Q, T, FEATURES) float32
    spans: np.ndarray | None  # (Q, 2) int64


def batch_of(groups: Sequence[QuestionGroup], words: Vocabulary) -> Batch:
    questions = [question for group in groups for question in group.questions]
    passages = Side.of([group.window for group in groups], words)
    whole = Side.of([Window.whole(question.question) for question in questions], words)
    passage_of = np.repeat(np.arange(len(groups)), [len(group.questions) for group in groups])
    found = np.zeros((len(questions), passages.ids.shape[1], FEATURES), np.float32)
    lower = [[token.lower() for token in tokens] for tokens in passages.tokens]
    for row, one, passage in zip(found, questions, passage_of, strict=True):
        text = one.question.text.lower()
        tokens = {token.lower() for token in one.question.tokens}
        row[: len(lower[passage])] = [(token in tokens, token in text) for token in lower[passage]]
    spans = None if any(one.span is None for one in questions) else np.array([one.span for one in questions], np.int64)
    return Batch(passages, whole, passage_of, found, spans)
