"""A reader: its training, and the answers that it finds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, overload

import numpy as np

from elmo_core.checks import as_list, check_number, describe
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.inputs import PretrainedELMo, Rows
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
from elmo_tasks.reading.score import ReaderScore, score
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Answer, Window, best_answers, span_scores, windows
from elmo_tasks.task import Task, checked_stream, resolve_language, with_dev

Asked = tuple[str, str]  # a question and its passage
MIN_COUNT = 2  # of a word in the training data, else it is unknown
QUESTIONS_AT_ONCE = 256  # of those to a passage, which are answered in one pass


class Reader(Task[ReaderSettings, Passage, list[list[Answer]]]):
    """Answers questions about passages. The epoch with the best F1 is kept.

        answers = {"text": ["Anna"], "answer_start": [0]}
        question = ("Who lives in Paris?", "Anna lives in Paris.")
        examples = [{"id": 1, "question": question[0], "context": question[1], "answers": answers}]
        reader = Reader.train(examples, save_dir="runs/mrc")
        reader = Reader("runs/mrc")
        reader.predict(question)         # Answer("Anna", 0, 4, 0.93)
        reader.answers(question, k=3)    # [Answer("Anna", 0, 4, 0.93), ...]

    It is trained on a file in the JSON of SQuAD, or a table; its answers are in the data, not in
    `labels`. What it predicts from is a tuple of a question and its passage, both raw text.

    parts: words, of the training data; no_answer: whether some questions of these have none.
    """

    name = "reader"
    settings_type = ReaderSettings
    network: BiDAF
    batch_size = 8  # windows

    # What users call

    @overload
    def predict(self, texts: Asked) -> Answer: ...
    @overload
    def predict(self, texts: Iterable[Asked]) -> list[Answer]: ...
    def predict(self, texts: Asked | Iterable[Asked]) -> Answer | list[Answer]:
        """Return the best answer to each (question, passage); to one, its answer.

        A blank passage has none: "". Without an answer, its text is "", see `Answer`.
        """
        return self._one_or_all(texts, self.results)

    def iter_predict(self, texts: Iterable[Asked]) -> Iterator[Answer]:
        """Like `predict`, but lazy, for any number of questions: reads ahead some of them."""
        return self.results(checked_stream(texts), is_lazy=True)

    @overload
    def answers(self, texts: Asked, k: int = 5) -> list[Answer]: ...
    @overload
    def answers(self, texts: Iterable[Asked], k: int = 5) -> list[list[Answer]]: ...
    def answers(
        self, texts: Asked | Iterable[Asked], k: int = 5
    ) -> list[Answer] | list[list[Answer]]:
        """Return the k best answers to each (question, passage), best first; to one, its answers.

        Their texts differ; they may overlap. One may be "", see `Answer`. A blank passage has none.
        """
        check_number("k", k, 1, integer=True)
        return self._one_or_all(texts, lambda some: self._answers(some, k))

    def iter_answers(self, texts: Iterable[Asked], k: int = 5) -> Iterator[list[Answer]]:
        """Like `answers`, but lazy, for any number of questions: reads ahead some of them."""
        check_number("k", k, 1, integer=True)
        return self._answers(checked_stream(texts), k)

    # Its data: an example is a group of questions in training, a passage in evaluation

    @classmethod
    def read_data(cls, data: Any, name: str, settings: ReaderSettings) -> list[Passage]:
        return read_passages(data, name)

    def complete(self, examples: list[Passage]) -> list[Passage]:
        return tokenise_passages(examples, self.tokeniser)

    @classmethod
    def texts(cls, examples: Sequence[Passage]) -> list[str]:
        return [passage.text for passage in examples]

    @classmethod
    def set_up(
        cls,
        data: dict[str, list[Passage]],
        settings: ReaderSettings,
        pretrained: PretrainedELMo | None,
    ) -> tuple[ReaderSettings, dict[str, Any], dict[str, list[Any]]]:
        passages = data["train"]
        settings, tokeniser = resolve_language(settings, cls.texts(passages), pretrained)
        data = {name: tokenise_passages(part, tokeniser) for name, part in data.items()}
        data = with_dev(data, settings)
        questions = chain.from_iterable(passage.questions for passage in passages)
        no_answer = not all(question.answers for question in questions)
        groups = training_groups(
            data["train"], settings.max_seq_len, settings.doc_stride, no_answer
        )
        texts = chain.from_iterable(passage.texts for passage in data["train"])
        tokens = chain.from_iterable(text.tokens for text in texts)
        parts = {"words": Vocabulary.frequent(tokens, MIN_COUNT).words, "no_answer": no_answer}
        return settings, parts, {**data, "train": groups}

    # The task

    def build(self) -> BiDAF:
        inputs = self.make_inputs(dropout=self.settings.dropout, elmo_at=("input", "output"))
        return BiDAF(self.settings, inputs, self.parts["no_answer"])

    def length(self, example: QuestionGroup) -> int:
        return len(example.window.tokens)

    def rows(self, examples: Sequence[QuestionGroup | Passage]) -> Rows:
        texts = chain.from_iterable(example.texts for example in examples)
        return Rows([], [text.sentences for text in texts])

    def prepare(self, train: Sequence[QuestionGroup]) -> None:
        """Count no words: rare ones are not in the vocabulary."""

    def collate(self, examples: Sequence[QuestionGroup]) -> Batch:
        return make_batch(examples)

    def decode(self, batch: Batch) -> list[np.ndarray]:
        """The logits (Q, 2, T) of each group's questions and its window's tokens."""
        logits = self.network(batch).numpy()
        lengths = batch.passages.lengths
        return [logits[batch.passage_of == k, :, :n] for k, n in enumerate(lengths)]

    def measure(
        self, examples: Sequence[Passage], predictions: Sequence[list[list[Answer]]]
    ) -> ReaderScore:
        found = {}
        for passage, of_passage in zip(examples, predictions, strict=True):
            for question, answers in zip(passage.questions, of_passage, strict=True):
                found[question.id] = best_of(answers).text
        return score(examples, found, self.settings.lang)

    def predictions(self, examples: Sequence[Passage]) -> Iterator[list[list[Answer]]]:
        """Yield the best answer to each question of a passage, in a list; of a blank one, none."""
        return self.best(examples, 1)

    def usage(self, text: str) -> str:
        return f'predict(("?", {text!r}))'

    def is_one(self, texts: Any) -> bool:
        return isinstance(texts, tuple) and [type(text) for text in texts] == [str, str]

    def results(self, texts: Iterable[Asked], is_lazy: bool = False) -> Iterator[Answer]:
        return (best_of(answers) for answers in self._answers(texts, 1))

    def _answers(self, texts: Iterable[Asked], k: int) -> Iterator[list[Answer]]:
        """Yield the k best answers to each question, of many questions at a time."""
        pairs = (checked_pair(value, number) for number, value in enumerate(texts))
        some = list(islice(pairs, QUESTIONS_AT_ONCE))
        while some:
            yield from self._answers_to(some, k)
            some = list(islice(pairs, QUESTIONS_AT_ONCE))

    def _answers_to(self, asked: Sequence[Asked], k: int) -> list[list[Answer]]:
        """The k best answers to each question. A passage is read once for all its questions."""
        by_passage: dict[str, list[Question]] = {}
        for number, (question, passage) in enumerate(asked):
            by_passage.setdefault(passage, []).append(Question(str(number), question, [], []))
        passages = [Passage(text, questions) for text, questions in by_passage.items()]
        tokenise_passages(passages, self.tokeniser)
        found = {}
        for passage, of_passage in zip(passages, self.best(passages, k), strict=True):
            for question, answers in zip(passage.questions, of_passage, strict=True):
                found[question.id] = answers
        return [found[str(number)] for number in range(len(asked))]

    def best(self, passages: Sequence[Passage], k: int) -> Iterator[list[list[Answer]]]:
        """Yield the k best answers to each question of a passage, over all windows of the passage.

        The scores of all spans are in memory for one question at a time: they are many times the
        logits.
        """
        groups = chain.from_iterable(self._groups(passage) for passage in passages)
        # Of each window of each passage and each of its questions, in this order: (2, T).
        logits = chain.from_iterable(of_group for _, of_group in self.predicted(groups))
        no_answer = None
        if self.parts["no_answer"]:
            no_answer = self.network.no_answer.sum().item()
        for passage in passages:
            n_tokens = len(passage.content.tokens)
            if not n_tokens:
                yield [[] for _ in passage.questions]
                continue
            longest = min(self.settings.max_answer_length, self.settings.max_seq_len, n_tokens)
            cover = self._windows(passage)
            of_windows = [list(islice(logits, len(passage.questions))) for _ in cover]
            answers = []
            for number in range(len(passage.questions)):
                scores = np.full((n_tokens, longest), -np.inf, np.float32)
                for window, rows in zip(cover, of_windows, strict=True):
                    spans = scores[window.begin : window.end]
                    np.maximum(spans, span_scores(rows[number], longest), out=spans)
                answers.append(best_answers(passage.content, scores, k, no_answer))
            yield answers

    def _groups(self, passage: Passage) -> Iterator[QuestionGroup]:
        """All questions of a passage to each of its windows."""
        questions = [question.content for question in passage.questions]
        for window in self._windows(passage):
            yield from question_groups(window, questions)

    def _windows(self, passage: Passage) -> list[Window]:
        return windows(passage.content, self.settings.max_seq_len, self.settings.doc_stride)


def best_of(answers: Sequence[Answer]) -> Answer:
    """The first answer; of a blank passage, which has none, an empty one."""
    return answers[0] if answers else Answer("", 0, 0, 1.0)


def checked_pair(value: Any, number: int) -> Sequence[str]:
    """A question and its passage. Raise unless they are two strings. number: from 0."""
    parts = as_list(value)
    if parts is None or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        expected = "a question and its passage, two strings in a tuple"
        raise TypeError(f"question {number}: found {describe(value)}, expected {expected}.")
    return parts
