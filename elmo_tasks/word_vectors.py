"""Word vectors of a file, a fixed input of a network."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from elmo_core.files.word_vectors import find_word_vectors, load_word_vectors
from elmo_core.messages import log
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokens import digest


class WordVectors:
    """The vectors of a file in word2vec's or GloVe's format. Unknown words fall back to lower case, then to zeros.

    path: if only FILE.gz exists, that is read. limit: read only the first N words.
    """

    SUFFIXES = (".txt", ".bin", ".txt.gz", ".bin.gz")

    def __init__(self, path: str | Path, limit: int | None = None):
        self.path, self.limit = find_word_vectors(Path(path)).absolute(), limit
        self.vectors = load_word_vectors(self.path, limit)
        self.dim = self.vectors.vector_size

    @property
    def suffix(self) -> str:
        """The one of SUFFIXES that tells the file's format."""
        name = self.path.name.removesuffix(".gz")
        return f"{'.bin' if name.endswith('.bin') else '.txt'}{self.path.name[len(name) :]}"

    @cached_property
    def fingerprint(self) -> str:
        return digest(self.vectors.index_to_key, self.vectors.vectors)

    def _row(self, token: str) -> int:
        index = self.vectors.key_to_index
        return index.get(token, index.get(token.lower(), -1))

    def table(self) -> tuple[list[str], np.ndarray]:
        """The words and their vectors, preceded by `<UNK>` with zeros."""
        zeros = np.zeros((1, self.dim), np.float32)
        return ["<UNK>", *self.vectors.index_to_key], np.concatenate([zeros, self.vectors.vectors])

    def lookup(self, sentences: Sequence[Sequence[str]], segment: Segmenter | None = None) -> np.ndarray:
        """Vectors (B, T, D), float32. segment: look up its words in sentences of characters."""
        vectors = np.zeros((len(sentences), max(map(len, sentences)), self.dim), np.float32)
        for out, rows in zip(vectors, self._row_numbers(sentences, segment), strict=True):
            known = np.flatnonzero(rows >= 0)
            out[known] = self.vectors.vectors[rows[known]]
        return vectors

    def _row_numbers(self, sentences: Sequence[Sequence[str]], segment: Segmenter | None) -> list[np.ndarray]:
        """The row number of each token, -1 if it has no vector, as one array per sentence."""
        if segment:
            words, word_index = segment.words_of(sentences)
            return [rows[index] for rows, index in zip(self._row_numbers(words, None), word_index, strict=True)]
        return [np.array([self._row(token) for token in sentence], np.int64) for sentence in sentences]

    def log_coverage(self, sentences: Sequence[Sequence[str]], segment: Segmenter | None = None) -> None:
        """Log the share of the tokens that have no vector."""
        rows = np.concatenate(self._row_numbers(sentences, segment)).tolist()
        log.info(
            f"word vectors: {len(self.vectors):,} of {self.dim} dimensions; {rows.count(-1) / len(rows):.2%} of the "
            "tokens have none (zeros)."
        )
