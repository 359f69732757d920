"""A reader: network, words and settings, in memory and as a folder (see elmo_tasks/saved.py).

vocab.txt holds the words of the training data.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine.checks import check_texts
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary, sentence_batches
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, make_batch, question_groups
from elmo_tasks.reading.data import Passage, Question
from elmo_tasks.reading.network import BiDAF, ReaderSettings
from elmo_tasks.reading.score import Scores, score
from elmo_tasks.reading.text import Answer, Text, TokenSpan, best_answers, span_scores, windows
from elmo_tasks.saved import TrainedModel
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 8  # windows per batch
BATCH_TOKENS = 8192  # tokens per batch, padding included
QUESTIONS_PER_CHUNK = 256  # of `iter_answers`


class TokenisedPassage:
    """A passage and its questions as tokens."""

    def __init__(self, passage: Passage, language: str):
        self.passage = passage
        self.text = Text.from_string(passage.text, language)
        if not self.text.tokens:
            raise UserError(f"The passage {passage.text!r:.60} has no words.")
        self.questions = [(question, Text.from_question(question.text, language)) for question in passage.questions]

    def texts(self) -> list[Text]:
        return [self.text, *(text for _, text in self.questions)]

    def spans(self) -> Iterator[tuple[str, Text, TokenSpan | None]]:
        """Each question's id and text, and the tokens of its first answer that occurs in the passage."""
        for question, text in self.questions:
            located = ((begin, begin + len(answer)) for answer, begin in question.located_answers())
            yield question.id, text, next(filter(None, (self.text.token_span(*span) for span in located)), None)


class Reader(TrainedModel):
    """Answers questions about passages.

        reader = Reader("runs/mrc")
        reader.answer("Who lives in Paris?", "Anna lives in Paris.", k=3)  # [Answer("Anna", 0, 4, 0.93), ...]

    words: the words of the training data.
    pretrained: the checkpoint of its biLM, if any.
    """

    kind = "reader"
    settings_type = ReaderSettings

    def build(
        self,
        settings: ReaderSettings,
        words: Vocabulary,
        pretrained: PretrainedBiLM | None = None,
        vectors: WordVectors | None = None,
    ) -> None:
        self.settings, self.words, self.pretrained, self.vectors = settings, words, pretrained, vectors
        elmo = settings.layer(pretrained, len(BiDAF.elmo_at)) if pretrained else None
        self.network = BiDAF(settings, len(words), elmo, vectors)

    def answer(self, question: str, passage: str, k: int = 1) -> list[Answer]:
        """The k best answers, best first. Their texts differ; they may overlap."""
        return self.answers([(question, passage)], k)[0]

    def answers(self, questions: Sequence[tuple[str, str]], k: int = 1) -> list[list[Answer]]:
        """The k best answers to each of several questions, given with its passage. Each passage is read once."""
        check_texts(questions, ("question", "passage"))
        by_passage: dict[str, list[Question]] = {}
        for number, (question, passage) in enumerate(questions):
            by_passage.setdefault(passage, []).append(Question(str(number), question, [], []))
        language = self.settings.lang
        passages = (TokenisedPassage(Passage(text, asked), language) for text, asked in by_passage.items())
        answers = dict(self._answers(passages, k))
        return [answers[str(number)] for number in range(len(questions))]

    def iter_answers(self, questions: Iterable[tuple[str, str]], k: int = 1) -> Iterator[list[Answer]]:
        """Yield the same for any number of questions."""
        questions = iter(questions)
        while chunk := list(islice(questions, QUESTIONS_PER_CHUNK)):
            yield from self.answers(chunk, k)

    def _answers(self, passages: Iterable[TokenisedPassage], k: int) -> Iterator[tuple[str, list[Answer]]]:
        """Yield each question's id and its k best answers over all windows of its passage, in any order."""
        scores: dict[str, np.ndarray] = {}  # of the spans of each question whose passage is being read
        left: dict[str, int] = {}  # its windows that are not read yet
        groups = (group for passage in passages for group in self._groups(passage, left))
        for _, batch in sentence_batches(groups, BATCH_SIZE, BATCH_TOKENS):
            with self.inference():
                logits = self.network(make_batch(batch, self.words)).numpy()
            rows = [(group.window, question.id) for group in batch for question in group.questions]
            for (window, id), row in zip(rows, logits, strict=True):
                totals = span_scores(row[:, : len(window.tokens)], self.settings.max_answer_length)
                if id not in scores:
                    scores[id] = np.full((len(window.text.tokens), totals.shape[1]), -np.inf, np.float32)
                in_window = scores[id][window.begin : window.end]
                np.maximum(in_window, totals, out=in_window)
                left[id] -= 1
                if not left[id]:
                    del left[id]
                    yield id, best_answers(window.text, scores.pop(id), k)

    def _groups(self, passage: TokenisedPassage, left: dict[str, int]) -> Iterator[QuestionGroup]:
        questions = [WindowQuestion(question.id, text) for question, text in passage.questions]
        cover = windows(passage.text, self.settings.max_seq_len, self.settings.doc_stride)
        left |= dict.fromkeys((question.id for question in questions), len(cover))
        for window in cover:
            yield from question_groups(window, questions)

    def predictions(self, passages: Sequence[TokenisedPassage]) -> dict[str, str]:
        """The text of the answer to each question, by its id."""
        answers = dict(self._answers(passages, 1))
        return {question.id: answers[question.id][0].text for passage in passages for question, _ in passage.questions}

    def score(self, passages: Sequence[TokenisedPassage]) -> Scores:
        """Score its answers against the passages' own."""
        return score([passage.passage for passage in passages], self.predictions(passages), self.settings.lang)

    def dictionaries(self) -> dict[str, Vocabulary]:
        return {checkpoint.VOCABULARY: self.words}

    def config(self) -> dict[str, Any]:
        return {}

    def build_saved(self, folder: Path, settings: ReaderSettings, values: Mapping[str, Any], **sources) -> None:
        self.build(settings, Vocabulary.from_file(folder / checkpoint.VOCABULARY), **sources)
