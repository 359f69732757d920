"""A reader: network, words and settings, in memory and as a folder (see elmo_tasks/saved.py).

vocab.txt holds the words of the training data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary, sentence_batches
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, make_batch, question_groups
from elmo_tasks.reading.data import Passage, Question
from elmo_tasks.reading.network import BiDAF, ReaderSettings
from elmo_tasks.reading.score import Scores, score
from elmo_tasks.reading.text import Text, TokenSpan, windows
from elmo_tasks.saved import TrainedModel
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 8  # windows per batch
BATCH_TOKENS = 8192  # tokens per batch, padding included
EMPTY_QUESTION = "？"  # replaces a question without words


@dataclass
class Answer:
    """A span of a passage: begin and end in characters, and the sum of its two logits."""

    text: str
    begin: int
    end: int
    score: float


class TokenisedPassage:
    """A passage and its questions as tokens."""

    def __init__(self, passage: Passage, language: str):
        self.passage = passage
        self.text = Text.from_string(passage.text, language)
        if not self.text.tokens:
            raise UserError(f"The passage {passage.text!r:.60} has no words.")
        self.questions: list[tuple[Question, Text]] = []
        for question in passage.questions:
            text = Text.from_string(question.text, language)
            self.questions.append((question, text if text.tokens else Text.from_string(EMPTY_QUESTION, language)))

    def texts(self) -> list[Text]:
        return [self.text, *(text for _, text in self.questions)]

    def spans(self) -> Iterator[tuple[str, Text, TokenSpan | None]]:
        """Each question's id and text, and the tokens of its first answer that occurs in the passage."""
        for question, text in self.questions:
            located = ((begin, begin + len(answer)) for answer, begin in question.located_answers())
            yield question.id, text, next(filter(None, (self.text.token_span(*span) for span in located)), None)


class Reader(TrainedModel):
    """Answers questions about passages.

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

    def answers(self, passages: Sequence[TokenisedPassage]) -> dict[str, Answer]:
        """The best answer to each question by its id, over all windows of its passage."""
        best: dict[str, Answer] = {}
        groups = [group for passage in passages for group in self._groups(passage)]
        for indices, _ in sentence_batches([group.window.tokens for group in groups], BATCH_SIZE, BATCH_TOKENS):
            batch = [groups[k] for k in indices]
            with self.inference():
                logits = self.network(make_batch(batch, self.words)).numpy()
            rows = ((group.window, question.id) for group in batch for question in group.questions)
            spans = best_spans(logits, self.settings.max_answer_length)
            for (window, id), (first, last, total) in zip(rows, spans, strict=True):
                if id not in best or total > best[id].score:
                    begin, end = window.text.char_span(window.begin + first, window.begin + last)
                    best[id] = Answer(window.text.text[begin:end], begin, end, total)
        return {question.id: best[question.id] for passage in passages for question, _ in passage.questions}

    def _groups(self, passage: TokenisedPassage) -> Iterator[QuestionGroup]:
        questions = [WindowQuestion(question.id, text) for question, text in passage.questions]
        for window in windows(passage.text, self.settings.max_seq_len, self.settings.doc_stride):
            yield from question_groups(window, questions)

    def predictions(self, passages: Sequence[TokenisedPassage]) -> dict[str, str]:
        """The text of the answer to each question, by its id."""
        return {id: answer.text for id, answer in self.answers(passages).items()}

    def score(self, passages: Sequence[TokenisedPassage]) -> Scores:
        """Score its answers against the passages' own."""
        return score([passage.passage for passage in passages], self.predictions(passages), self.settings.lang)

    def dictionaries(self) -> dict[str, Vocabulary]:
        return {checkpoint.VOCABULARY: self.words}

    def config(self) -> dict[str, Any]:
        return {}

    def build_saved(self, folder: Path, settings: ReaderSettings, values: Mapping[str, Any], **sources) -> None:
        self.build(settings, Vocabulary.from_file(folder / checkpoint.VOCABULARY), **sources)


def best_spans(logits: np.ndarray, longest: int) -> Iterator[tuple[int, int, float]]:
    """First and last token of each row's best span of at most `longest` tokens, and the sum of its two logits.

    logits: (Q, 2, T).
    """
    firsts, lasts = logits[:, 0], logits[:, 1]
    longest = min(longest, logits.shape[2])
    padding = np.full((len(logits), longest - 1), -np.inf, logits.dtype)
    reach = np.lib.stride_tricks.sliding_window_view(np.concatenate([padding, firsts], axis=1), longest, axis=1)
    total = reach.max(axis=2) + lasts  # (Q, T), of the best span that ends there
    last = total.argmax(axis=1)
    rows = np.arange(len(logits))
    first = last - longest + 1 + reach[rows, last].argmax(axis=1)
    yield from zip(first.tolist(), last.tolist(), total[rows, last].tolist(), strict=True)
