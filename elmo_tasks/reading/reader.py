"""A reader: its training, and the answers that it finds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, overload

import numpy as np

from elmo_core.checks import as_list, check_number, describe
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.inputs import Rows
from elmo_tasks.reading.data import (
    Passage,
    Question,
    QuestionGroup,
    question_groups,
    read_passages,
    tokenise_passages,
    training_groups,
)
from elmo_tasks.reading.network import Batch, BiDAF, make_batch
from elmo_tasks.reading.score import Scores, score
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Answer, Window, best_answers, span_scores, windows
from elmo_tasks.task import Task, as_given, resolve_language, with_dev

MIN_COUNT = 2  # of a word in the training data, else it is unknown
QUESTIONS_AT_ONCE = 256  # of those to a passage, which are answered in one pass


class Reader(Task[ReaderSettings]):
    """Answers questions about passages. It is selected by F1.

        examples = [{"id": 1, "context": ..., "question": ..., "answers": {"text": [...], "answer_start": [...]}}, ...]
        reader = Reader.train(examples, save_dir="runs/mrc")
        reader = Reader("runs/mrc")
        reader.answer("Who lives in Paris?", "Anna lives in Paris.", k=3)  # [Answer("Anna", 0, 4, 0.93), ...]

    parts: words, of the training data; no_answer: whether some questions of these have none.
    """

    name = "reader"
    settings_type = ReaderSettings
    example = 'answer("?", {text!r})'
    batch_size = 8  # windows

    @classmethod
    def read_training(cls, given, settings):
        return {name: read_passages(part, name) for name, part in given.items()}

    @classmethod
    def texts(cls, examples):
        return [passage.text for passage in examples]

    @classmethod
    def set_up(cls, data, settings, pretrained):
        passages = data["train"]
        settings, tokeniser = resolve_language(settings, cls.texts(passages), pretrained)
        data = {name: tokenise_passages(part, tokeniser) for name, part in data.items()}
        data = with_dev(data, settings)
        no_answer = not all(
            question.answers for passage in passages for question in passage.questions
        )
        groups = training_groups(
            data["train"], settings.max_seq_len, settings.doc_stride, no_answer
        )
        tokens = (
            token for passage in data["train"] for text in passage.texts for token in text.tokens
        )
        parts = {"words": Vocabulary.frequent(tokens, MIN_COUNT).words, "no_answer": no_answer}
        return settings, parts, {**data, "train": groups}

    # The task: an example is a group of questions in training, a passage in evaluation

    def build(self) -> BiDAF:
        inputs = self.make_inputs(dropout=self.settings.dropout, elmo_at=("input", "output"))
        return BiDAF(self.settings, inputs, self.parts["no_answer"])

    def length(self, example: QuestionGroup) -> int:
        return len(example.window.tokens)

    def rows(self, examples: Sequence[QuestionGroup | Passage]) -> Rows:
        return Rows([], [text.sentences for example in examples for text in example.texts])

    def prepare(self, train: Sequence[QuestionGroup]) -> None:
        """Count no words: rare ones are not in the vocabulary."""

    collate = staticmethod(make_batch)

    def decode(self, batch: Batch) -> list[np.ndarray]:
        """The logits (Q, 2, T) of each group's questions and its window's tokens."""
        logits = self.network(batch).numpy()
        lengths = batch.passages.lengths
        return [logits[batch.passage_of == k, :, :n] for k, n in enumerate(lengths)]

    def evaluated(self, examples: Sequence[Passage]) -> Scores:
        answers = {id: some[0].text if some else "" for id, some in self.best(examples, 1).items()}
        return score(examples, answers, self.settings.lang)

    # What users call

    def read(self, data: Any) -> list[Passage]:
        return tokenise_passages(read_passages(data), self.tokeniser)

    def answer(self, question: str, passage: str, k: int = 1) -> list[Answer]:
        """Return the k best answers, best first. Their texts differ; they may overlap. One may be "", see `Answer`."""
        return self.answers([(question, passage)], k)[0]

    @overload
    def answers(
        self, questions: Iterator[tuple[str, str]], k: int = 1
    ) -> Iterator[list[Answer]]: ...
    @overload
    def answers(self, questions: Iterable[tuple[str, str]], k: int = 1) -> list[list[Answer]]: ...
    def answers(self, questions, k=1):
        """Return the k best answers to each (question, passage); none in a blank passage. Of an iterator, yield them."""
        check_number("k", k, 1, integer=True)
        return as_given(questions, "questions", lambda some, _: self._answers(iter(some), k))

    def _answers(self, questions: Iterator[tuple[str, str]], k: int) -> Iterator[list[Answer]]:
        pairs = (_pair(value, number) for number, value in enumerate(questions))
        while some := list(islice(pairs, QUESTIONS_AT_ONCE)):
            asked: dict[str, list[Question]] = {}
            for number, (question, passage) in enumerate(some):
                asked.setdefault(passage, []).append(Question(str(number), question, [], []))
            passages = [Passage(text, about) for text, about in asked.items()]
            answers = self.best(tokenise_passages(passages, self.tokeniser), k)
            yield from (answers[str(number)] for number in range(len(some)))

    def best(self, passages: Sequence[Passage], k: int) -> dict[str, list[Answer]]:
        """The k best answers to each question over all windows of its passage, by its id.

        The scores of all spans are in memory for one question at a time: they are many times the logits.
        """
        asked = (
            (window, passage.texts[1:]) for passage in passages for window in self._windows(passage)
        )
        groups = chain.from_iterable(question_groups(*pair) for pair in asked)
        logits = chain.from_iterable(
            self.predictions(groups)
        )  # of each window and question, (2, T)
        no_answer = self.network.no_answer.sum().item() if self.parts["no_answer"] else None
        answers = {}
        for passage in passages:
            n_tokens = len(passage.content.tokens)
            longest = min(self.settings.max_answer_length, self.settings.max_seq_len, n_tokens)
            cover = self._windows(passage)
            of_windows = [list(islice(logits, len(passage.questions))) for _ in cover]
            for question, *of_question in zip(passage.questions, *of_windows, strict=True):
                scores = np.full((n_tokens, longest), -np.inf, np.float32)
                for window, row in zip(cover, of_question, strict=True):
                    spans = scores[window.begin : window.end]
                    np.maximum(spans, span_scores(row, longest), out=spans)
                found = best_answers(passage.content, scores, k, no_answer) if n_tokens else []
                answers[question.id] = found
        return answers

    def _windows(self, passage: Passage) -> list[Window]:
        return windows(passage.content, self.settings.max_seq_len, self.settings.doc_stride)


def _pair(value: Any, number: int) -> Sequence[str]:
    """A question and its passage. Raise unless they are two strings. number: from 0."""
    parts = as_list(value)
    if parts is None or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        expected = "a question and its passage, two strings in a tuple"
        raise TypeError(f"question {number}: found {describe(value)}, expected {expected}.")
    return parts
