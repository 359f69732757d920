"""Encoders map tokens to vectors: a word-vector table, and the biLM.

Letters: n texts, batch size B, N distinct tokens, L layers, D dimensions.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import elmo
from elmo_core.files import checkpoint
from elmo_core.machine.messages import log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import UNK_ID, Tokens, Vocabulary
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.word_vectors import WordVectors

nn = paddle.nn

RANDOM_DIM, RANDOM_STD = 300, 0.1  # of word vectors without a file
WORDS, BILM = "words", "bilm/final"  # in a classifier's folder: its own word vectors, its own biLM


@dataclass
class FineTuning:
    """How an encoder is fine-tuned.

    rates: learning rates to select from. word_dropout: share of a batch's words whose vectors are dropped.
    dropout: between the biLM's LSTMs.
    """

    rates: Sequence[float]
    word_dropout: float = 0.0
    dropout: float = 0.0


class Encoder(nn.Layer):
    """Maps tokens to vectors, in L layers of D dimensions. Subclasses provide:

    name: in messages and in saved files. shape: (L, D). tuning: None if its weights are frozen.
    prepare(sentences): each text as `means` and `forward` need it, made once.
    means(texts): an array (n, L, D) of means over the tokens, zeros for a text without tokens.
    sentence_means(sentences): the same, without preparation.
    forward(texts): the same as a tensor (B, L, D) with gradients, and with dropout in training.
    groups(): the weights, from the bottom of the network to its top. Each group's gradient is clipped separately.
    config(): its fields of a classifier's settings.
    log_unknown_words(sentences): logs how many words are unknown to it.
    save(folder): writes its own weights, if it has any.
    """

    name: str
    shape: tuple[int, int]
    tuning: FineTuning | None = None

    def sentence_means(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        return self.means(self.prepare(sentences))


class WordTable(Encoder):
    """Word vectors from a file, plus a reproducible random vector for each unknown word.

    source: the file's vectors; None: all words are unknown.
    words, rows (n, D): fine-tuned vectors, which take precedence.
    """

    name = "word_vectors"

    def __init__(
        self,
        source: WordVectors | None,
        seed: int,
        tuning: FineTuning | None = None,
        words: Sequence[str] = (),
        rows: np.ndarray | None = None,
    ):
        super().__init__()
        vectors, dim, variance = {}, RANDOM_DIM, RANDOM_STD**2
        if source:
            vectors, dim = source.vectors, source.dim
            square = np.einsum("nd,nd->", vectors.vectors, vectors.vectors, dtype=np.float64) / vectors.vectors.size
            variance = square - vectors.vectors.mean(dtype=np.float64) ** 2  # np.var would copy GoogleNews' 3.6 GB
        self.source, self.vectors, self.seed, self.tuning = source, vectors, seed, tuning
        self.is_tuned = bool(tuning or words)
        self.shape = (1, dim)
        self.uniform_bound = math.sqrt(3 * max(0.0, variance))  # of a uniform draw of the same variance
        self.index = {word: k for k, word in enumerate(words)}
        self._set_rows(np.zeros((0, dim), np.float32) if rows is None else rows)

    def _set_rows(self, rows: np.ndarray) -> None:
        self.table = self.create_parameter([max(1, len(rows)), rows.shape[1]])
        if len(rows):
            self.table.set_value(rows)

    def prepare(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The tokens' row numbers. Words not yet in the table are added."""
        words = dict.fromkeys(chain.from_iterable(sentences))
        if new := [word for word in words if word not in self.index]:
            rows = self.table.numpy()[: len(self.index)]
            self.index.update(zip(new, range(len(rows), len(rows) + len(new)), strict=True))
            self._set_rows(np.concatenate([rows, np.stack([self.vector(word) for word in new])]))
        return [np.array([self.index[word] for word in sentence], np.int64) for sentence in sentences]

    def vector(self, word: str) -> np.ndarray:
        """The file's vector, or a random one that depends only on the word and the seed."""
        if word in self.vectors:
            return self.vectors[word]
        number = int.from_bytes(hashlib.sha1(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        draw = np.random.default_rng([self.seed, number])
        return draw.uniform(-self.uniform_bound, self.uniform_bound, self.shape[1]).astype(np.float32)

    def log_unknown_words(self, sentences: Sequence[Sequence[str]]) -> None:
        counts = Counter(chain.from_iterable(sentences))
        unknown = [word for word in counts if word not in self.vectors]
        share = sum(counts[word] for word in unknown) / max(1, counts.total())
        log.info(
            f"word vectors  {len(self.vectors):,} of {self.shape[1]} dimensions; {len(unknown):,} of the texts' "
            f"{len(counts):,} words ({share:.2%} of the tokens) have none and get random ones"
        )

    def means(self, texts: list[np.ndarray]) -> np.ndarray:
        table, zeros = self.table.numpy(), np.zeros(self.shape[1], np.float32)
        means = [table[rows].mean(axis=0) if len(rows) else zeros for rows in texts]
        return np.array(means, np.float32).reshape(-1, *self.shape)

    def sentence_means(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """The same without adding words to the table, which would grow with every text."""
        table, vectors = self.table.numpy(), {}
        for word in dict.fromkeys(chain.from_iterable(sentences)):
            vectors[word] = table[self.index[word]] if word in self.index else self.vector(word)
        zeros = np.zeros((1, self.shape[1]), np.float32)
        means = [np.array([vectors[word] for word in sentence] or zeros).mean(axis=0) for sentence in sentences]
        return np.array(means, np.float32).reshape(-1, *self.shape)

    def forward(self, texts: list[np.ndarray]) -> paddle.Tensor:
        rows, inverse = np.unique(np.concatenate(texts), return_inverse=True)
        averaging = np.zeros((len(texts), len(rows)), np.float32)  # (B, N)
        lengths = np.array(list(map(len, texts)))
        np.add.at(averaging, (np.repeat(np.arange(len(texts)), lengths), inverse), 1 / np.repeat(lengths, lengths))
        vectors = nn.functional.embedding(paddle.to_tensor(rows), self.table, sparse=True)  # (N, D)
        if self.training and self.tuning and self.tuning.word_dropout:
            vectors = vectors * nn.functional.dropout(paddle.ones([len(vectors), 1]), self.tuning.word_dropout)
        return (paddle.to_tensor(averaging) @ vectors).unsqueeze(1)

    def groups(self) -> list[list[paddle.Tensor]]:
        return [[self.table]]

    def config(self) -> dict[str, Any]:
        return {"has_words": True, "owns_words": self.is_tuned, "seed": self.seed}

    def save(self, folder: Path) -> None:
        if self.is_tuned:
            words = np.frombuffer("\n".join(self.index).encode(), np.uint8)
            checkpoint.save(folder / WORDS, {"words": words, "rows": self.table.numpy()})

    @staticmethod
    def saved(folder: Path) -> dict[str, Any]:
        """Load the words and rows that `save` has written."""
        tuned = checkpoint.load_params(folder / WORDS)
        return {"words": tuned["words"].tobytes().decode().split("\n"), "rows": tuned["rows"]}


class _PooledELMo(elmo.ELMo):
    """ELMo with a sparse gradient of the embedding table, which is faster."""

    def token_vectors(self, tokens: Tokens) -> paddle.Tensor:
        if self.config.reads_characters:
            return super().token_vectors(tokens)
        table = self.bilm.token_encoder.embedding.weight
        return nn.functional.embedding(paddle.to_tensor(tokens.words), table, sparse=True)


class BiLMEncoder(Encoder):
    """The biLM. Its layers are concatenated here, or mixed by the head.

    layers: see `elmo.ELMo`. source: the checkpoint of its weights; None if they are random or fine-tuned.
    """

    name = "elmo"

    def __init__(
        self,
        bilm: elmo.BiLM,
        vocabulary: Vocabulary | None,
        layers: str = "concat",
        tuning: FineTuning | None = None,
        source: PretrainedBiLM | None = None,
    ):
        super().__init__()
        self.layers, self.tuning, self.source = layers, tuning, None if tuning else source
        dropout = {"word_dropout": tuning.word_dropout, "layer_dropout": tuning.dropout} if tuning else {}
        self.elmo = _PooledELMo((bilm, vocabulary), 0, bool(tuning), layers=layers, pool="mean", **dropout)
        n, dim = self.elmo.choice.n_layers, self.elmo.layer_dim
        self.shape = (1, n * dim) if self.elmo.choice.how == "concat" else (n, dim)

    def prepare(self, sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        return list(sentences)

    def log_unknown_words(self, sentences: Sequence[Sequence[str]]) -> None:
        if not self.elmo.config.reads_characters:
            ids = self.elmo.vocabulary.ids(list(chain.from_iterable(sentences)))
            unknown = np.count_nonzero(ids == UNK_ID) / max(1, len(ids))
            log.info(f"ELMo's words  {len(self.elmo.vocabulary):,}; {unknown:.2%} of the texts' tokens become <UNK>")

    def means(self, texts: list[Sequence[str]]) -> np.ndarray:
        return np.array(self.elmo.arrays(texts), np.float32).reshape(-1, *self.shape)

    def forward(self, texts: list[Sequence[str]]) -> paddle.Tensor:
        layers, _ = self.elmo.layers(texts)
        return paddle.stack(layers, axis=1).reshape([-1, *self.shape])

    def groups(self) -> list[list[paddle.Tensor]]:
        return self.elmo.parameter_groups()

    def config(self) -> dict[str, Any]:
        return {"layers": self.layers, "owns_bilm": self.source is None}

    def save(self, folder: Path) -> None:
        if self.source is None:
            prefix = folder / BILM
            checkpoint.save(prefix, {name: weight.numpy() for name, weight in self.elmo.bilm.state_dict().items()})
            checkpoint.save_config(prefix.parent, {"model": self.elmo.config.to_dict()})
            if self.elmo.vocabulary:
                checkpoint.save_vocabulary(prefix.parent, self.elmo.vocabulary)
