"""Word vectors as a layer: of a file, fixed or fine-tuned, or learnt with the task; a random one for each other word."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import log
from elmo_core.network.row_gradients import embedding_lookup
from elmo_core.text.tokens import Vocabulary, pad_rows
from elmo_tasks.word_vectors import WordVectors

nn = paddle.nn

RANDOM_DIM, RANDOM_STD = 300, 0.1  # of word vectors without a file
REMEMBERED = 1 << 18  # vectors that are not computed again


class Words(nn.Layer):
    """The vectors of tokens, as `elmo.ELMo` gives those of its layers.

    vectors: of a file; None: all words get random vectors, which depend only on the word and the seed.
    vocabulary: the words whose vectors are trained; None: all are fixed.
    pool: None (one vector per token), or the mean over each text. word_dropout: share of a batch's distinct words whose
    vectors are dropped in training.
    """

    def __init__(
        self,
        vectors: WordVectors | None,
        seed: int,
        vocabulary: Vocabulary | None = None,
        pool: str | None = None,
        word_dropout: float = 0.0,
    ):
        super().__init__()
        self.dim, variance = RANDOM_DIM, RANDOM_STD**2
        if vectors:
            self.dim, table = vectors.dim, vectors.vectors.vectors
            square = np.einsum("nd,nd->", table, table, dtype=np.float64) / table.size
            variance = square - table.mean(dtype=np.float64) ** 2  # np.var would copy GoogleNews' 3.6 GB
        self.file_vectors, self.seed = vectors.vectors if vectors else {}, seed
        self.uniform_bound = math.sqrt(3 * max(0.0, variance))  # of a uniform draw of the same variance
        self.vector = lru_cache(REMEMBERED)(self._vector)
        self.vocabulary, self.pool, self.word_dropout = vocabulary, pool, word_dropout
        self._cached: dict[tuple[str, ...], np.ndarray] = {}
        if vocabulary:
            self.table = self.create_parameter([len(vocabulary), self.dim])
            self.table.set_value(np.stack([self._vector(word) for word in vocabulary.tokens]))

    def _vector(self, word: str) -> np.ndarray:
        """The file's vector, or a random one that depends only on the word and the seed."""
        if word in self.file_vectors:
            return self.file_vectors[word]
        number = int.from_bytes(hashlib.sha1(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        draw = np.random.default_rng([self.seed, number])
        return draw.uniform(-self.uniform_bound, self.uniform_bound, self.dim).astype(np.float32)

    def cache(self, sentences: Iterable[Sequence[str]]) -> None:
        """Compute the means of fixed vectors over texts that recur in every epoch."""
        if self.pool and not self.vocabulary:
            zeros = np.zeros((1, self.dim), np.float32)
            for sentence in dict.fromkeys(map(tuple, sentences)):
                self._cached[sentence] = np.array([self.vector(word) for word in sentence] or zeros).mean(axis=0)

    def layers(self, sentences: Sequence[Sequence[str]]) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """One layer (B, T, D) or pooled (B, D), and the mask (B, T)."""
        lengths = np.array(list(map(len, sentences)), np.int64)
        mask = to_tensor((np.arange(lengths.max(initial=0)) < lengths[:, None]).astype(np.float32))
        if self._cached and all(tuple(s) in self._cached for s in sentences):
            return [to_tensor(np.stack([self._cached[tuple(s)] for s in sentences]))], mask
        row_of: dict[str, int] = {}
        rows = np.array([row_of.setdefault(word, len(row_of)) for word in chain.from_iterable(sentences)], np.int64)
        if not row_of:
            return [paddle.zeros([len(sentences), *([] if self.pool else [mask.shape[1]]), self.dim])], mask
        vectors, order = self._distinct(list(row_of))
        rows = order[rows]
        if self.training and self.word_dropout:
            vectors = vectors * nn.functional.dropout(paddle.ones([len(vectors), 1]), self.word_dropout)
        if self.pool:
            averaging = np.zeros((len(sentences), len(row_of)), np.float32)  # (B, N)
            np.add.at(averaging, (np.repeat(np.arange(len(lengths)), lengths), rows), 1 / np.repeat(lengths, lengths))
            return [to_tensor(averaging) @ vectors], mask
        index = to_tensor(pad_rows(rows, lengths, mask.shape[1]).ravel())
        x = paddle.gather(vectors, index).reshape([*mask.shape, self.dim])
        return [x * mask.unsqueeze(-1)], mask

    def _distinct(self, words: Sequence[str]) -> tuple[paddle.Tensor, np.ndarray]:
        """The vectors (N, D) of words, and the row of each: trained vectors come before fixed ones."""
        index = self.vocabulary.index if self.vocabulary else {}
        is_trained = np.array([word in index for word in words])
        order = np.argsort(np.argsort(~is_trained, kind="stable"))
        parts = []
        if is_trained.any():
            ids = np.array([index[word] for word in words if word in index], np.int64)
            parts.append(embedding_lookup(self.table, ids))
        if not is_trained.all():
            parts.append(to_tensor(np.stack([self.vector(word) for word in words if word not in index])))
        return paddle.concat(parts) if len(parts) > 1 else parts[0], order

    def log_unknown(self, sentences: Sequence[Sequence[str]]) -> None:
        """Log how many words have no vector in the file."""
        counts = Counter(chain.from_iterable(sentences))
        unknown = [word for word in counts if word not in self.file_vectors]
        share = sum(counts[word] for word in unknown) / max(1, counts.total())
        log.info(
            f"word vectors  {len(self.file_vectors):,} of {self.dim} dimensions; {len(unknown):,} of the texts' "
            f"{len(counts):,} words ({share:.2%} of the tokens) have none and get random ones"
        )
