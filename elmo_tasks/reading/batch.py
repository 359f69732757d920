"""Questions to a window of a passage, and batches of such groups.

Letters: B windows, Q questions, T and J tokens of either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.messages import UserError, format_count, log
from elmo_tasks.inputs import Rows
from elmo_tasks.reading.data import TokenisedPassage
from elmo_tasks.reading.text import Text, TokenSpan, Window, question_features, windows

FEATURES = 2  # per passage token: is it a token of the question, does it occur in the question's text
MAX_QUESTIONS = 6  # per group
NO_ANSWER = -1, -1  # the span of a question that its window does not answer


@dataclass
class QuestionGroup:
    """Questions to the same window. spans: of answers, see `Batch`; none in prediction."""

    window: Window
    questions: list[Text]
    spans: list[tuple[int, int]]

    @property
    def texts(self) -> list[Text]:
        return [self.window.text, *self.questions]


def question_groups(window: Window, questions: list[Text], spans: Sequence = ()) -> Iterator[QuestionGroup]:
    """Yield groups of at most MAX_QUESTIONS, for all of which the window is encoded once."""
    for k in range(0, len(questions), MAX_QUESTIONS):
        yield QuestionGroup(window, questions[k : k + MAX_QUESTIONS], list(spans[k : k + MAX_QUESTIONS]))


def training_groups(
    passages: Sequence[TokenisedPassage], max_seq_len: int, doc_stride: int, no_answer: bool = False
) -> list[QuestionGroup]:
    """Windows that contain an answer, each with the questions answered there. Logs how many answers are unusable.

    no_answer: all windows, with all questions; those that are not answered there have NO_ANSWER.
    """
    groups, trained, n_inexact, n_missing, n_too_long = [], set(), 0, 0, 0
    for passage in passages:
        answered = [(question.id, text, span) for question, text, span in passage.spans() if span]
        without = [(question.id, text, None) for question, text in passage.questions if not question.answers]
        n_missing += len(passage.questions) - len(without) - len(answered)
        n_inexact += sum(not span.exact for *_, span in answered)
        for window in windows(passage.text, max_seq_len, doc_stride):
            asked = [(id, text, _span_in(window, span)) for id, text, span in answered + without * no_answer]
            inside = [item for item in asked if item[2] != NO_ANSWER]
            trained |= {id for id, *_ in inside}
            kept = asked if no_answer else inside
            groups += question_groups(window, [text for _, text, _ in kept], [span for *_, span in kept])
        n_too_long += sum(id not in trained for id, *_ in answered)
    if not trained:
        raise UserError("No question to train on: no answer occurs in its passage.")
    faults = (
        f"begin or end within a word: {n_inexact:,}, not in their passage: {n_missing:,}, in no window: {n_too_long:,}"
    )
    log.info(f"{format_count(len(trained), 'questions')} with an answer to train on. Answers that {faults}")
    return groups


def _span_in(window: Window, span: TokenSpan | None) -> tuple[int, int]:
    is_inside = span and window.begin <= span.first and span.last < window.end
    return (span.first - window.begin, span.last - window.begin) if is_inside else NO_ANSWER


@dataclass
class Batch:
    passages: Rows  # B windows
    questions: Rows  # Q questions
    passage_of: np.ndarray  # (Q,) int64 row of each question's window
    features: np.ndarray  # (Q, T, FEATURES) float32
    spans: np.ndarray  # (Q, 2) int64, first and last token of each answer from the window's beginning, or NO_ANSWER


def window_rows(windows: Sequence[Window]) -> Rows:
    sentences, positions = zip(*(window.in_sentences() for window in windows), strict=True)
    return Rows([window.tokens for window in windows], sentences, positions)


def make_batch(groups: Sequence[QuestionGroup]) -> Batch:
    questions = [question for group in groups for question in group.questions]
    passages = window_rows([group.window for group in groups])
    passage_of = np.repeat(np.arange(len(groups)), [len(group.questions) for group in groups])
    features = np.zeros((len(questions), passages.steps, FEATURES), np.float32)
    for row, question, passage in zip(features, questions, passage_of, strict=True):
        row[: passages.lengths[passage]] = question_features(passages.tokens[passage], question)
    spans = np.array([span for group in groups for span in group.spans], np.int64)
    return Batch(passages, window_rows([Window.whole(text) for text in questions]), passage_of, features, spans)
