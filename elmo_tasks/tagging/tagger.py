"""A trained tagger: network, dictionaries and settings; saving and loading them.

FOLDER/        as in elmo_tasks/saved.py, and
  vocab.txt    the words of the training data
  labels.txt   the labels
  pieces.txt   the vocabulary whose pieces the tokens are; absent if they are whole words
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo_core.files import checkpoint
from elmo_core.machine.checks import check_sentences
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary, restore_order, sentence_batches
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.saved import TrainedModel
from elmo_tasks.tagging.data import Labels, Sentence, make_batch
from elmo_tasks.tagging.network import BiGRUCRF, TaggerSettings
from elmo_tasks.tagging.score import Score
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 64  # maximum sentences per batch
BATCH_TOKENS = 8192  # maximum tokens per batch, including padding


class Tagger(TrainedModel):
    """Labels the tokens of sentences.

        tagger = Tagger("runs/chunks")
        tagger.predict(["The cat sat .".split()])      # [["B-NP", "I-NP", "B-VP", "O"]]

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
        return list(self.iter_predict(sentences, math.inf))

    def iter_predict(self, sentences: Iterable[Sequence[str]], window: float | None = None) -> Iterator[list[str]]:
        """Yield the same. window: how many sentences to read ahead (default: 16 batches)."""
        return restore_order(self._tagged_batches(sentences, window))

    def _tagged_batches(self, sentences, window: float | None):
        for positions, group in sentence_batches(sentences, BATCH_SIZE, BATCH_TOKENS, window):
            nonempty = [list(sentence) for sentence in group if sentence]  # sorted by length: empty ones come last
            with self.inference():
                paths = self.network.decode(make_batch(nonempty, self.words)) if nonempty else []
            labels = [[self.labels.names[k] for k in path] for path in paths]
            yield positions, labels + [[]] * (len(group) - len(nonempty))

    def score(self, sentences: Sequence[Sentence], known: set[str] | None) -> Score:
        """Score the tagger. known: the words of the training data, None if not available."""
        score = Score(scheme=self.settings.scheme)
        for sentence, labels in zip(sentences, self.predict([s.tokens for s in sentences]), strict=True):
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
