"""A tagger: network, words, labels and pieces, in memory and on disk.

checkpoints/lac/elmo/
  config.json       the network's numbers; the biLM's checkpoint; fingerprints of its weights and of the dictionaries
  best.pdparams     the weights; a frozen biLM's are those of its own checkpoint
  words.txt         the words of the training data, as a vocabulary
  tag.dic           the labels
  pieces.txt        the vocabulary whose pieces the words were; absent if they were whole
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from elmo_core.files import checkpoint
from elmo_core.machine import disk
from elmo_core.machine.checks import check_sentences
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary, in_order, sentence_batches
from elmo_tasks.elmo_input import Pretrained
from elmo_tasks.sources import OwnWeights, find_sources, name_sources
from elmo_tasks.tagging.data import Labels, Sentence, batch_of
from elmo_tasks.tagging.network import BiGRUCRF, Settings
from elmo_tasks.tagging.score import Score
from elmo_tasks.word_vectors import WordVectors

BATCH_SIZE = 64  # sentences that are tagged at a time
BATCH_TOKENS = 8192  # and their tokens, with padding


class Tagger(OwnWeights):
    """Gives tokens their labels.

    words: the words of the training data.
    pretrained: the checkpoint of the biLM, where settings.use_elmo.
    pieces: the vocabulary whose pieces the tokens are, None if they are whole words.
    vectors: word vectors of a file.
    features: the values that a column of the training data has, which the tagger reads beside the tokens.
    """

    def __init__(
        self,
        settings: Settings,
        words: Vocabulary,
        labels: Labels,
        pretrained: Pretrained | None = None,
        pieces: Vocabulary | None = None,
        vectors: WordVectors | None = None,
        features: Sequence[str] = (),
    ):
        self.settings, self.words, self.labels = settings, words, labels
        self.pretrained, self.pieces, self.vectors = pretrained, pieces, vectors
        self.segmentation = "none"  # of the text that it was trained on: see columns.py
        self.features, self.feature_column = features, None  # which column they are in
        prefix = pretrained.prefix if pretrained else None
        self.owns_bilm = bool(settings.elmo_trainable or settings.random_weights)
        self.network = BiGRUCRF(settings, len(words), labels, prefix, vectors, features)

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The labels of every sentence's tokens. An empty sentence has none."""
        check_sentences(sentences)
        return list(self.iter_tag(sentences, math.inf))

    def iter_tag(self, sentences: Iterable[Sequence[str]], window: float | None = None) -> Iterator[list[str]]:
        """The same as an iterator, which reads `window` sentences ahead (default: 16 batches)."""
        self.network.eval()
        return in_order(self._tagged_batches(sentences, window))

    def _tagged_batches(self, sentences, window: float | None):
        for positions, group in sentence_batches(sentences, BATCH_SIZE, BATCH_TOKENS, window):
            nonempty = [list(sentence) for sentence in group if sentence]  # longest first: the empty ones are the last
            paths = self.network.decode(batch_of(nonempty, self.words)) if nonempty else []
            labels = [[self.labels.names[k] for k in path] for path in paths]
            yield positions, labels + [[]] * (len(group) - len(nonempty))

    def score(self, sentences: Sequence[Sentence], known: set[str] | None) -> Score:
        """How well it tags; `known`: the words of the training data, None where they are not at hand."""
        score = Score(scheme=self.labels.scheme)
        for sentence, labels in zip(sentences, self.tag([s.tokens for s in sentences]), strict=True):
            score.add(sentence.tokens, sentence.labels, labels, known)
        return score

    def save(self, folder: str | Path) -> None:
        """Write all its files, the weights last: after a kill, the folder is not taken for a tagger."""
        folder = Path(folder)
        (folder / "best.pdparams").unlink(missing_ok=True)
        values = {"tagger": self.settings.to_dict(), "dictionaries": self._fingerprints(), "scheme": self.labels.scheme}
        if self.segmentation != "none":
            values["segmentation"] = self.segmentation
        if self.features:
            values["features"] = {"column": self.feature_column, "values": list(self.features)}
        checkpoint.save_config(folder, {**values, **name_sources(self.pretrained, self.vectors)})
        for name, vocabulary in (("words.txt", self.words), ("pieces.txt", self.pieces)):
            if vocabulary is None:
                (folder / name).unlink(missing_ok=True)
                continue
            vocabulary.save(folder / name)
        with disk.atomic_write(folder / "tag.dic") as file:
            file.write("\n".join(self.labels.names) + "\n")
        self.save_weights(folder)

    def _fingerprints(self) -> dict[str, str | None]:
        """Of the dictionaries' files: other lines, or another order of them, would give other tags, and no error."""
        dictionaries = {"words.txt": self.words, "tag.dic": self.labels, "pieces.txt": self.pieces}
        return {name: found and found.fingerprint for name, found in dictionaries.items()}

    @classmethod
    def load(cls, folder: str | Path, pretrained: str | None = None, vectors: str | Path | None = None) -> "Tagger":
        """Read what `save` has written. pretrained, vectors: where the biLM's checkpoint and the file of word vectors
        are, if they have moved.
        """
        folder = Path(folder)
        file, values = folder / "config.json", checkpoint.load_config(folder, "a trained tagger")
        if "tagger" not in values:
            raise UserError(f"{file} has no field 'tagger': expected a folder with a trained tagger.")
        settings = Settings.from_dict(values["tagger"], file)
        elmo, word_vectors = find_sources(values, file, settings.use_elmo, pretrained, vectors)
        words = Vocabulary.from_file(folder / "words.txt")
        labels = Labels.from_file(folder / "tag.dic", values.get("scheme", "lac"))
        pieces = folder / "pieces.txt"
        pieces = Vocabulary.from_file(pieces) if pieces.is_file() else None
        features = values.get("features", {"column": None, "values": ()})
        tagger = cls(settings, words, labels, elmo, pieces, word_vectors, features["values"])
        tagger.segmentation, tagger.feature_column = values.get("segmentation", "none"), features["column"]
        fingerprints = tagger._fingerprints()
        for name, expected in values.get("dictionaries", fingerprints).items():
            if fingerprints.get(name) != expected:
                raise UserError(
                    f"{folder / name} is missing, or is not the file that this tagger was trained with: copy the folder "
                    "again as training has written it, or train again."
                )
        tagger.set_weights(checkpoint.load_params(folder / "best"), str(folder / "best"))
        return tagger
