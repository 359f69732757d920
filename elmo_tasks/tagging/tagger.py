"""A trained tagger: network, dictionaries and settings; saving and loading them.

FOLDER/        as in elmo_tasks/saved.py, and
  vocab.txt    the words of the training data
  labels.txt   the labels
  pieces.txt   the vocabulary whose pieces the tokens are; absent if they are whole words
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo_core.files import checkpoint
from elmo_core.machine.checks import check_sentences, checked
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary, restore_order, sentence_batches
from elmo_core.weights.model_files import vocabulary_words
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.saved import TrainedModel
from elmo_tasks.tagging.columns import parse_token
from elmo_tasks.tagging.data import Labels, Sentence, make_batch
from elmo_tasks.tagging.network import BiGRUCRF, TaggerSettings
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import spans
from elmo_tasks.tagging.score import Score
from elmo_tasks.tagging.text import CHARACTERS, Line, Span, tokeniser
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 64  # maximum sentences per batch
BATCH_TOKENS = 8192  # maximum tokens per batch, including padding


class Tagger(TrainedModel):
    """Labels the tokens of sentences.

        tagger = Tagger("runs/chunks")
        tagger.predict(["The cat sat .".split()])      # [["B-NP", "I-NP", "B-VP", "O"]]
        tagger.spans(["The cat sat."])                 # [[Span(begin=0, end=7, text='The cat', label='NP', score=0.98), ..]]

    words: the words of the training data.
    pretrained: its biLM, if any.
    pieces: the vocabulary whose pieces the tokens are; None if they are whole words.
    vectors: word vectors of a file, if any.
    features, feature_column: the values of a further column of the training data that the tagger reads, and its number.
    """

    kind = "tagger"
    settings_type = TaggerSettings

    def build(
        self,
        settings: TaggerSettings,
        words: Vocabulary,
        labels: Labels,
        pretrained: PretrainedBiLM | None = None,
        pieces: Vocabulary | None = None,
        vectors: WordVectors | None = None,
        features: Sequence[str] = (),
        feature_column: int | None = None,
    ) -> None:
        self.settings, self.words, self.labels = settings, words, labels
        self.pretrained, self.pieces, self.vectors = pretrained, pieces, vectors
        self.features, self.feature_column = features, feature_column
        elmo = settings.layer(pretrained, len(settings.elmo_at.split(","))) if pretrained else None
        self.network = BiGRUCRF(settings, len(words), labels, elmo, vectors, features)

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the labels of each sentence's tokens; none for an empty sentence."""
        check_sentences(sentences)
        return [labels for labels, _ in self._decoded(sentences, math.inf)]

    def iter_predict(self, sentences: Iterable[Sequence[str]], window: float | None = None) -> Iterator[list[str]]:
        """Yield the same, for input of any size. window: how many sentences to read ahead (default: 16 batches)."""
        for labels, _ in self._decoded(checked(sentences), window):
            yield labels

    def spans(self, texts: Sequence[str | Sequence[str]]) -> list[list[Span]]:
        """Return the spans of each text; without spans in the labels, its tokens.

        texts: raw ones, which are split into tokens as in training, or lists of tokens, as if joined by spaces.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise TypeError(f"texts: found {texts!r:.60}, expected a list of texts.")
        texts = list(texts)
        check_sentences([[] if isinstance(text, str) else text for text in texts])
        lines = [self.tokenised(text) if isinstance(text, str) else Line.from_tokens(list(text)) for text in texts]
        return [spans for _, spans in self.tagged(lines)]

    def tokenised(self, text: str, lang: str = "", where: str = "text") -> Line:
        """Split a line of text as in training or as `lang` says. where: file and line, for messages."""
        if self.features:
            raise UserError("This tagger was trained with --feature_column: it tags columns, not text.")
        lang, segmentation = lang or self.settings.lang, self.settings.segmentation
        words = tokeniser(lang)(text)
        if self.settings.scheme == "lac" and lang != CHARACTERS:
            return Line(text, *self.piece_splitter.split_line(words))
        if lang == CHARACTERS and segmentation == "strip":  # they carry no positions
            segmentation = "none"
        return Line(text, words, [parse_token([word], 0, segmentation, None, where) for word in words])

    def tagged(self, lines: Sequence[Line]) -> list[tuple[list[str], list[Span]]]:
        """Return the labels and the spans of each line."""
        decoded = self._decoded([line.tokens for line in lines], math.inf, with_spans=True)
        scheme = self.settings.scheme
        return [
            (labels, line.spans(labels, scheme, scores)) for line, (labels, scores) in zip(lines, decoded, strict=True)
        ]

    @cached_property
    def piece_splitter(self) -> PieceSplitter:
        if self.pieces:
            return PieceSplitter(self.pieces.words)
        return PieceSplitter(
            self.words.words + vocabulary_words(self.pretrained and self.pretrained.prefix), whole=True
        )

    def _decoded(
        self, sentences: Iterable[Sequence[str]], window: float | None, with_spans: bool = False
    ) -> Iterator[tuple[list[str], list[float]]]:
        """Yield the labels of each sentence and, if requested, the scores of its spans."""
        return restore_order(self._decoded_batches(sentences, window, with_spans))

    def _decoded_batches(self, sentences: Iterable[Sequence[str]], window: float | None, with_spans: bool):
        for positions, group in sentence_batches(sentences, BATCH_SIZE, BATCH_TOKENS, window):
            nonempty, results = [list(sentence) for sentence in group if len(sentence)], []
            with self.inference():
                paths, emissions = self.network.decode(make_batch(nonempty, self.words)) if nonempty else ([], [])
            for path, x in zip(paths, emissions, strict=True):
                labels, scores = [self.labels.names[k] for k in path], []
                if with_spans:
                    bounds = [(begin, end) for begin, end, _ in spans(labels, self.settings.scheme)]
                    scores = self.network.crf.span_probabilities(x[: len(path)], path, bounds)
                results.append((labels, scores))
            # sorted by length: empty ones come last
            yield positions, results + [([], [])] * (len(group) - len(nonempty))

    def score(
        self, sentences: Sequence[Sentence], known: set[str] | None, predicted: Sequence[list[str]] | None = None
    ) -> Score:
        """Score the tagger. known: the words of the training data, None if not available. predicted: its labels."""
        score = Score(scheme=self.settings.scheme)
        predicted = self.predict([s.tokens for s in sentences]) if predicted is None else predicted
        for sentence, labels in zip(sentences, predicted, strict=True):
            score.add(sentence.tokens, sentence.labels, labels, known)
        return score

    def dictionaries(self) -> dict[str, Vocabulary | Labels | None]:
        return {checkpoint.VOCABULARY: self.words, "labels.txt": self.labels, "pieces.txt": self.pieces}

    def config(self) -> dict[str, Any]:
        return {"features": {"column": self.feature_column, "values": list(self.features)}}

    def build_saved(self, folder: Path, settings: TaggerSettings, values: Mapping[str, Any], **sources) -> None:
        features, pieces = values.get("features"), folder / "pieces.txt"
        if not isinstance(features, dict) or features.keys() != {"column", "values"}:
            raise UserError(
                f"{folder / 'config.json'}: features is {features!r:.80}, expected a column and its values."
            )
        self.build(
            settings,
            Vocabulary.from_file(folder / checkpoint.VOCABULARY),
            Labels.from_file(folder / "labels.txt"),
            pieces=Vocabulary.from_file(pieces) if pieces.is_file() else None,
            features=features["values"],
            feature_column=features["column"],
            **sources,
        )
