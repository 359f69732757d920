"""A reader: its network, words and settings, at work and as a folder, as elmo_tasks/saved.py says.

vocab.txt holds the words of the training data, config.json also how texts are cut.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import Vocabulary, sentence_batches
from elmo_tasks.pretrained import Pretrained
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, batch_of
from elmo_tasks.reading.data import Passage
from elmo_tasks.reading.network import BiDAF, Settings
from elmo_tasks.reading.score import Scores, score
from elmo_tasks.reading.text import LANGUAGES, Span, Text, windows
from elmo_tasks.saved import TrainedModel, checked_settings
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 8  # windows that are read at a time
BATCH_TOKENS = 8192  # and their tokens, with padding
NO_WORDS = "？"  # stands for a question without words


@dataclass(frozen=True)
class Windowing:
    """How texts are cut: their language, and in tokens the windows of passages and the longest answer."""

    lang: str = "en"
    max_seq_len: int = 512
    doc_stride: int = 256
    max_answer_length: int = 50


@dataclass
class Answer:
    """A stretch of a passage, where it begins and ends there in characters, and its score: the sum of two logits."""

    text: str
    begin: int
    end: int
    score: float


class TokenisedPassage:
    """A passage and its questions as tokens."""

    def __init__(self, passage: Passage, language: str):
        self.passage = passage
        self.text = Text.of(passage.text, language)
        if not self.text.tokens:
            raise UserError(f"The passage {passage.text!r:.60} has no words.")
        texts = ((question, Text.of(question.text, language)) for question in passage.questions)
        self.questions = [(one, text if text.tokens else Text.of(NO_WORDS, language)) for one, text in texts]

    def texts(self) -> list[Text]:
        return [self.text, *(text for _, text in self.questions)]

    def spans(self) -> Iterator[tuple[str, Text, Span | None]]:
        """Every question's id and text, and the tokens of its first answer that stands in the passage."""
        for question, text in self.questions:
            found = ((begin, begin + len(answer)) for answer, begin in question.found())
            yield question.id, text, next(filter(None, (self.text.tokens_of(*place) for place in found)), None)


class Reader(TrainedModel):
    """Answers questions to passages.

    words: the words of the training data.
    pretrained: the checkpoint of the biLM that it reads, if any.
    """

    kind = "reader"
    settings_type = Settings

    def __init__(
        self,
        settings: Settings,
        windowing: Windowing,
        words: Vocabulary,
        pretrained: Pretrained | None = None,
        vectors: WordVectors | None = None,
    ):
        self.settings, self.windowing, self.words = settings, windowing, words
        self.pretrained, self.vectors = pretrained, vectors
        elmo = settings.layer(pretrained, len(BiDAF.elmo_at)) if pretrained else None
        self.network = BiDAF(settings, len(words), elmo, vectors)

    def answers(self, passages: Iterable[TokenisedPassage]) -> dict[str, Answer]:
        """The best answer to each question by its id, over all windows of its passage."""
        self.network.eval()
        best: dict[str, Answer] = {}
        groups = [group for passage in passages for group in self._groups(passage)]
        for positions, _ in sentence_batches([group.window.tokens for group in groups], BATCH_SIZE, BATCH_TOKENS):
            chosen = [groups[k] for k in positions]
            with paddle.no_grad():
                logits = self.network(batch_of(chosen, self.words)).numpy()
            rows = ((group.window, question) for group in chosen for question in group.questions)
            spans = best_spans(logits, self.windowing.max_answer_length)
            for (window, question), (first, last, total) in zip(rows, spans, strict=True):
                if question.id not in best or total > best[question.id].score:
                    begin, end = window.text.extent(window.begin + first, window.begin + last)
                    best[question.id] = Answer(window.text.text[begin:end], begin, end, total)
        return best

    def _groups(self, passage: TokenisedPassage) -> Iterator[QuestionGroup]:
        questions = [WindowQuestion(question.id, text) for question, text in passage.questions]
        for window in windows(passage.text, self.windowing.max_seq_len, self.windowing.doc_stride):
            yield from QuestionGroup(window, questions).split()

    def score(self, passages: Sequence[TokenisedPassage]) -> Scores:
        """How good its answers are."""
        predictions = {id: answer.text for id, answer in self.answers(passages).items()}
        return score([passage.passage for passage in passages], predictions, self.windowing.lang)

    def dictionaries(self) -> dict[str, Vocabulary]:
        return {checkpoint.VOCABULARY: self.words}

    def config(self) -> dict[str, Any]:
        return {"windowing": dataclasses.asdict(self.windowing)}

    @classmethod
    def from_folder(cls, folder: Path, settings: Settings, values: Mapping[str, Any], **sources) -> "Reader":
        file = folder / "config.json"
        windowing = checked_settings(Windowing, values.get("windowing"), "windowing", file)
        if windowing.lang not in LANGUAGES:
            raise UserError(f"{file}: windowing.lang is {windowing.lang!r:.80}, expected one of {list(LANGUAGES)}.")
        return cls(settings, windowing, Vocabulary.from_file(folder / checkpoint.VOCABULARY), **sources)


def best_spans(logits: np.ndarray, longest: int) -> Iterator[tuple[int, int, float]]:
    """For each row of logits (Q, 2, T): the first and the last token of the best span of at most `longest` tokens, and
    the sum of its two logits.
    """
    firsts, lasts = logits[:, 0], logits[:, 1]
    longest = min(longest, logits.shape[2])
    padding = np.full((len(logits), longest - 1), -np.inf, logits.dtype)
    reach = np.lib.stride_tricks.sliding_window_view(np.concatenate([padding, firsts], axis=1), longest, axis=1)
    total = reach.max(axis=2) + lasts  # (Q, T): of the best span that ends there
    last = total.argmax(axis=1)
    rows = np.arange(len(logits))
    first = last - longest + 1 + reach[rows, last].argmax(axis=1)
    yield from zip(first.tolist(), last.tolist(), total[rows, last].tolist(), strict=True)
