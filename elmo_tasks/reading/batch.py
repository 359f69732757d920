"""Questions to a window of a passage, and batches of such groups.

Letters: B windows, Q questions, T and J tokens of either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmo_core.messages import UserError, format_count, log
from elmo_core.text.tokens import Vocabulary, pad_rows
from elmo_tasks.reading.data import TokenisedPassage
from elmo_tasks.reading.text import Text, TokenSpan, Window, question_features, windows

FEATURES = 2  # per passage token: is it a token of the question, does it occur in the question's text
MAX_QUESTIONS = 6  # per group
NO_ANSWER = -1, -1  # the span of a question that its window does not answer


@dataclass
class WindowQuestion:
    """A question to a window. span: first and last token of its answer from the window's beginning, or NO_ANSWER."""

    id: str
    question: Text
    span: tuple[int, int] | None = None


@dataclass
class QuestionGroup:
    """Questions to the same window, which is encoded once for all of them."""

    window: Window
    questions: list[WindowQuestion]

    @property
    def n_tokens(self) -> int:
        return self.window.end - self.window.begin


def question_groups(window: Window, questions: list[WindowQuestion]) -> Iterator[QuestionGroup]:
    """Groups of at most MAX_QUESTIONS."""
    for k in range(0, len(questions), MAX_QUESTIONS):
        yield QuestionGroup(window, questions[k : k + MAX_QUESTIONS])


def training_groups(
    passages: Sequence[TokenisedPassage], max_seq_len: int, doc_stride: int, no_answer: bool = False
) -> list[QuestionGroup]:
    """Windows that contain an answer, each with the questions answered there. Logs how many answers are unusable.

    no_answer: all windows, with all questions; those that are not answered there have NO_ANSWER.
    """
    groups, trained, n_inexact, n_missing, n_too_long = [], set(), 0, 0, 0
    for passage in passages:
        answered = {question.id for question, _ in passage.questions if question.answers}
        spans = [(id, text, span) for id, text, span in passage.spans() if span or (no_answer and id not in answered)]
        n_missing += len(answered) - sum(span is not None for *_, span in spans)
        n_inexact += sum(not span.exact for *_, span in spans if span)
        for window in windows(passage.text, max_seq_len, doc_stride):
            questions = [WindowQuestion(id, text, _span_in(window, span)) for id, text, span in spans]
            inside = [question for question in questions if question.span != NO_ANSWER]
            trained |= {question.id for question in inside}
            groups += question_groups(window, questions if no_answer else inside)
        n_too_long += sum(id not in trained for id, _, span in spans if span)
    if not trained:
        raise UserError("No question to train on: no answer occurs in its passage.")
    log.info(
        f"{format_count(len(trained), 'questions')} with an answer to train on. Answers that begin or end within a word: "
        f"{n_inexact:,}, not in their passage: {n_missing:,}, in no window: {n_too_long:,}"
    )
    return groups


def _span_in(window: Window, span: TokenSpan | None) -> tuple[int, int]:
    is_inside = span and window.begin <= span.first and span.last < window.end
    return (span.first - window.begin, span.last - window.begin) if is_inside else NO_ANSWER


@dataclass
class PaddedTexts:
    """The passages or the questions of a batch."""

    windows: list[Window]
    tokens: list[list[str]]
    ids: np.ndarray  # (B, T) int64 ids of the tokens in the reader's vocabulary, 0 at padding
    lengths: np.ndarray  # (B,) int64

    @classmethod
    def from_windows(cls, windows: Sequence[Window], words: Vocabulary) -> "PaddedTexts":
        tokens = [window.tokens for window in windows]
        lengths = np.array([len(row) for row in tokens], np.int64)
        ids = pad_rows(np.concatenate([words.ids(row) for row in tokens]), lengths, lengths.max())
        return cls(list(windows), tokens, ids, lengths)

    @cached_property
    def mask(self) -> np.ndarray:
        """The mask (B, T), float32, 0 at padding."""
        return (np.arange(self.ids.shape[1]) < self.lengths[:, None]).astype(np.float32)


@dataclass
class Batch:
    passages: PaddedTexts  # B windows
    questions: PaddedTexts  # Q questions
    passage_of: np.ndarray  # (Q,) int64 row of each question's window
    features: np.ndarray  # (Q, T, FEATURES) float32
    spans: np.ndarray | None  # (Q, 2) int64, see `WindowQuestion`


def make_batch(groups: Sequence[QuestionGroup], words: Vocabulary) -> Batch:
    questions = [question for group in groups for question in group.questions]
    passages = PaddedTexts.from_windows([group.window for group in groups], words)
    passage_of = np.repeat(np.arange(len(groups)), [len(group.questions) for group in groups])
    features = np.zeros((len(questions), passages.ids.shape[1], FEATURES), np.float32)
    for row, question, passage in zip(features, questions, passage_of, strict=True):
        row[: passages.lengths[passage]] = question_features(passages.tokens[passage], question.question)
    spans = [question.span for question in questions]
    spans = None if None in spans else np.array(spans, np.int64)
    whole = PaddedTexts.from_windows([Window.whole(question.question) for question in questions], words)
    return Batch(passages, whole, passage_of, features, spans)
