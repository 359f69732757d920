"""A reader: network and words, in memory and on disk.

checkpoints/mrc/elmo/
  config.json       the network's numbers; how texts are cut; the biLM's checkpoint and word vectors with their fingerprints
  best.pdparams     the weights; the frozen biLM's are those of its own checkpoint
  vocab.txt         the words of the training data
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import Vocabulary, sentence_batches
from elmo_tasks.elmo_input import Pretrained
from elmo_tasks.reading.batch import Asked, Group, batch_of
from elmo_tasks.reading.data import Passage
from elmo_tasks.reading.network import BiDAF, Settings
from elmo_tasks.reading.score import Scores, score
from elmo_tasks.reading.text import LANGUAGES, Span, Text, windows
from elmo_tasks.saved import checked_settings
from elmo_tasks.sources import OwnWeights, find_sources, name_sources
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 8  # windows that are read at a time
BATCH_TOKENS = 8192  # and their tokens, with padding
NO_WORDS = "？"  # stands for a question without words


@dataclass(frozen=True)
class Reading:
    """How texts are cut. window, stride, max_answer: in tokens."""

    language: str = "zh"
    window: int = 512
    stride: int = 256
    max_answer: int = 50


@dataclass
class Answer:
    """A stretch of a passage, where it begins and ends there in characters, and its score: the sum of two logits."""

    text: str
    begin: int
    end: int
    score: float


class Prepared:
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


class Reader(OwnWeights):
    """Answers questions to passages.

    words: the words of the training data that have vectors of their own.
    pretrained: the checkpoint of the biLM, where settings.use_elmo.
    vectors: fixed word vectors.
    """

    def __init__(
        self,
        settings: Settings,
        reading: Reading,
        words: Vocabulary,
        pretrained: Pretrained | None = None,
        vectors: WordVectors | None = None,
    ):
        self.settings, self.reading, self.words = settings, reading, words
        self.pretrained, self.vectors = pretrained, vectors
        self.network = BiDAF(settings, len(words), pretrained.prefix if pretrained else None, vectors)

    def answers(self, passages: Iterable[Prepared]) -> dict[str, Answer]:
        """The best answer to each question by its id, over all windows of its passage."""
        self.network.eval()
        best: dict[str, Answer] = {}
        groups = [group for one in passages for group in self._groups(one)]
        for positions, _ in sentence_batches([group.window.tokens for group in groups], BATCH_SIZE, BATCH_TOKENS):
            chosen = [groups[k] for k in positions]
            with paddle.no_grad():
                logits = self.network(batch_of(chosen, self.words)).numpy()
            rows = ((group.window, asked) for group in chosen for asked in group.asked)
            spans = best_spans(logits, self.reading.max_answer)
            for (window, asked), (first, last, total) in zip(rows, spans, strict=True):
                if asked.id not in best or total > best[asked.id].score:
                    begin, end = window.text.extent(window.begin + first, window.begin + last)
                    best[asked.id] = Answer(window.text.text[begin:end], begin, end, total)
        return best

    def _groups(self, one: Prepared) -> Iterator[Group]:
        asked = [Asked(question.id, text) for question, text in one.questions]
        for window in windows(one.text, self.reading.window, self.reading.stride):
            yield from Group(window, asked).split()

    def score(self, passages: Sequence[Prepared]) -> Scores:
        """How good its answers are."""
        predictions = {id: answer.text for id, answer in self.answers(passages).items()}
        return score([one.passage for one in passages], predictions, self.reading.language)

    def mixes(self) -> dict[str, dict]:
        """How ELMo's layers are mixed at the input and at the output of the network's encoder, if they are mixed."""
        if self.network.encoder is None or self.settings.layers == "concat":
            return {}
        return {where: self.network.encoder.mix(number) for number, where in enumerate(("input", "output"))}

    def save(self, folder: str | Path) -> None:
        """Write all its files, the weights last: after a kill, the folder is not taken for a reader."""
        folder = Path(folder)
        (folder / "best.pdparams").unlink(missing_ok=True)
        values = {
            "reader": dataclasses.asdict(self.settings),
            "reading": dataclasses.asdict(self.reading),
            "words": self.words.fingerprint,
            **name_sources(self.pretrained, self.vectors),
        }
        checkpoint.save_config(folder, values)
        checkpoint.save_vocabulary(folder, self.words)
        self.save_weights(folder)

    @classmethod
    def load(cls, folder: str | Path, pretrained: str | None = None, vectors: str | Path | None = None) -> "Reader":
        """Read what `save` has written. pretrained, vectors: where the biLM's checkpoint and the file of word vectors
        are, if they have moved.
        """
        folder = Path(folder)
        file, values = folder / "config.json", checkpoint.load_config(folder, "a trained reader")
        if "reader" not in values:
            raise UserError(f"{file} has no field 'reader': expected a folder with a trained reader.")
        settings = checked_settings(Settings, values["reader"], "reader", file)
        reading = checked_settings(Reading, values.get("reading"), "reading", file)
        if reading.language not in LANGUAGES:
            raise UserError(f"{file}: reading.language is {reading.language!r:.80}, expected one of {list(LANGUAGES)}.")
        elmo, word_vectors = find_sources(values, file, settings.use_elmo, pretrained, vectors)
        words = Vocabulary.from_file(folder / checkpoint.VOCABULARY)
        if words.fingerprint != values.get("words"):
            raise UserError(f"{folder / checkpoint.VOCABULARY} is not the file that this reader was trained with.")
        reader = cls(settings, reading, words, elmo, word_vectors)
        reader.set_weights(checkpoint.load_params(folder / "best"), str(folder / "best"))
        return reader


def best_spans(logits: np.ndarray, longest: int) -> Iterator[tuple[int, int, float]]:
    """Of every row of logits (Q, 2, T) the first and the last token of the best span of at most `longest` tokens, and the
    sum of its two logits.
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
