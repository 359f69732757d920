"""A tagger: network, words, labels and pieces, in memory and on disk.

checkpoints/lac/elmo/
  config.json       the network's numbers; the biLM's checkpoint; fingerprints of its weights and of the dictionaries
  best.pdparams     the weights; a frozen biLM's are those of its own checkpoint
  words.txt         the words of the training data, as a vocabulary
  tag.dic           the labels
  pieces.txt        the vocabulary whose pieces the words were; absent if they were whole
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from elmo_core import checkpoint, disk, model_files
from elmo_core.runtime import UserError, hint_if_moved, paddle
from elmo_core.tokens import Vocabulary, in_order, sentence_batches
from tasks.tagging.data import Labels, Sentence, batch_of
from tasks.tagging.elmo_encoder import Pretrained
from tasks.tagging.network import BiGRUCRF, Settings
from tasks.tagging.score import Score
from tasks.tagging.vectors import WordVectors

BATCH_SIZE = 64  # sentences that are tagged at a time
BATCH_TOKENS = 8192  # and their tokens, with padding
FLAGS = "--pretrain_elmo_model_path (of run_tag.py: --init_from_ckpt)"
BILM = "encoder.elmo.bilm."  # begins the names of the biLM's weights


class OwnWeights:
    """The weights of a `network` that are its own: without those of a frozen biLM, which are its checkpoint's."""

    owns_bilm = False  # it was fine-tuned, or is random

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.own().items()}

    def set_weights(self, weights: dict[str, np.ndarray], source: str) -> None:
        own = self.own()
        checkpoint.match({name: weight.shape for name, weight in own.items()}, weights, source)
        for name, weight in own.items():
            weight.set_value(weights[name])

    def own(self) -> dict[str, paddle.Tensor]:
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if self.owns_bilm or not name.startswith(BILM)}


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

    def score(self, sentences: Sequence[Sentence], known: set[str]) -> Score:
        """How well it tags; `known`: the words of the training data."""
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
        if self.pretrained:
            values["elmo"] = {"checkpoint": self.pretrained.prefix, "fingerprint": self.pretrained.fingerprint}
        if self.vectors:
            of_file = {"limit": self.vectors.limit, "fingerprint": self.vectors.fingerprint}
            values["vectors"] = {"file": str(self.vectors.path), **of_file}
        checkpoint.save_config(folder, values)
        for name, vocabulary in (("words.txt", self.words), ("pieces.txt", self.pieces)):
            if vocabulary is None:
                (folder / name).unlink(missing_ok=True)
                continue
            with disk.atomic_write(folder / name, "wb") as file:
                vocabulary.write(file)
        with disk.atomic_write(folder / "tag.dic") as file:
            file.write("\n".join(self.labels.names) + "\n")
        checkpoint.save(folder / "best", self.weights())

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
        refuse_unread(values, folder, pretrained, vectors)
        settings = Settings.from_dict(values["tagger"], file)
        elmo = elmo_of(values.get("elmo"), file, pretrained) if settings.use_elmo else None
        word_vectors = vectors_of(values["vectors"], file, vectors) if "vectors" in values else None
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


def vectors_of(values: object, file: Path, moved_to: str | Path | None) -> WordVectors:
    """The word vectors that config.json names, where they were in training or have moved to."""
    if not isinstance(values, dict) or not all(isinstance(values.get(k), str) for k in ("file", "fingerprint")):
        raise UserError(f"{file}: vectors is {values!r:.80}, expected a file and its fingerprint.")
    with hint_if_moved("--word_vectors", moved_to):
        vectors = WordVectors(moved_to or values["file"], values.get("limit"))
    if vectors.fingerprint != values["fingerprint"]:
        raise UserError(f"{vectors.path} has other word vectors than those that {file.parent} was trained with.")
    return vectors


def refuse_unread(values: Mapping, folder: Path, pretrained: str | None, vectors: str | Path | None) -> None:
    """Refuse a biLM or word vectors that config.json does not name: what was trained without them cannot read them."""
    for name, flag, given in (("elmo", FLAGS, pretrained), ("vectors", "--word_vectors", vectors)):
        if given and name not in values:
            raise UserError(f"{flag}: {folder} was trained without it, and would not read {given}. Leave it out.")


def elmo_of(values: object, file: Path, moved_to: str | None) -> Pretrained:
    """The biLM that config.json names, at its path in training or at `moved_to`."""
    if not isinstance(values, dict) or not all(isinstance(values.get(k), str) for k in ("checkpoint", "fingerprint")):
        raise UserError(f"{file}: elmo is {values!r:.80}, expected a checkpoint and the fingerprint of its weights.")
    with hint_if_moved(FLAGS, moved_to):
        elmo = Pretrained.of(model_files.resolve(moved_to or values["checkpoint"]))
    if elmo.fingerprint != values["fingerprint"]:
        raise UserError(
            f"{elmo.prefix} is not the ELMo that {file.parent} was trained with: its weights differ. Give that one "
            f"by {FLAGS}, or train the tagger again."
        )
    return elmo
