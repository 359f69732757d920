"""Word vectors from a file, as a fixed input of a network."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine.messages import log
from elmo_tasks.characters import jieba_words


class WordVectors:
    """The vectors of a file in word2vec's or GloVe's format. A word without one gets that of its lower case, or zeros.

    limit: read only so many words, the first ones.
    """

    def __init__(self, path: str | Path, limit: int | None = None):
        self.path, self.limit = Path(path).absolute(), limit
        self.vectors = load_word_vectors(self.path, limit)
        self.dim = self.vectors.vector_size

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha1("\n".join(self.vectors.index_to_key).encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(self.vectors.vectors))
        return digest.hexdigest()

    def _row(self, token: str) -> int:
        index = self.vectors.key_to_index
        return index.get(token, index.get(token.lower(), -1))

    def table(self) -> tuple[list[str], np.ndarray]:
        """The words and their vectors, preceded by `<UNK>` with zeros."""
        zeros = np.zeros((1, self.dim), np.float32)
        return ["<UNK>", *self.vectors.index_to_key], np.concatenate([zeros, self.vectors.vectors])

    def lookup(self, sentences: Sequence[Sequence[str]], words: str = "tokens") -> np.ndarray:
        """(B, T, D) float32. words: tokens, or jieba: the words that it finds in sentences of characters."""
        vectors = np.zeros((len(sentences), max(map(len, sentences)), self.dim), np.float32)
        for out, rows in zip(vectors, self._rows(sentences, words), strict=True):
            known = np.flatnonzero(rows >= 0)
            out[known] = self.vectors.vectors[rows[known]]
        return vectors

    def _rows(self, sentences: Sequence[Sequence[str]], words: str) -> list[np.ndarray]:
        """The row of every token of each sentence, -1 where there is none."""
        if words == "jieba":
            cut, numbers = jieba_words(sentences)
            return [row[of_token] for row, of_token in zip(self._rows(cut, "tokens"), numbers, strict=True)]
        return [np.array([self._row(token) for token in sentence], np.int64) for sentence in sentences]

    def log_coverage(self, sentences: Sequence[Sequence[str]], words: str = "tokens") -> None:
        """Log how many of the tokens have no vector."""
        rows = np.concatenate(self._rows(sentences, words)).tolist()
        log.info(
            f"word vectors: {len(self.vectors):,} of {self.dim} dimensions; {rows.count(-1) / len(rows):.2%} of the "
            "tokens have none, and get zeros."
        )
