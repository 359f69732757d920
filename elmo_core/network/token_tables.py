"""Where an embedder finds the vectors of its tokens: in the word table, in a file, or computed once and kept."""

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.characters import BYTES, count_cut
from elmo_core.text.tokens import BOS, EOS, UNK, Vocabulary, padded, token_batch

TOKENS_AT_ONCE = 2048  # new tokens in one pass of the character CNN
CACHE_BYTES = 256 * 2**20  # of computed token vectors that are kept


def token_table(encoder: paddle.nn.Layer, config: ELMoConfig, vocabulary: Vocabulary | None) -> "TokenTable":
    """The table of a model's own vectors."""
    if config.reads_characters:
        return CachedVectors(encoder, config, vocabulary)
    return VocabularyTable(encoder.embedding.weight, vocabulary)


class Unread:
    """Counts tokens that a model cannot read as they are: too many bytes, or not in the vocabulary of a word model."""

    def __init__(self, config: ELMoConfig, vocabulary: Vocabulary | None):
        self.vocabulary = None if config.reads_characters else vocabulary
        self.alphabet = vocabulary.alphabet if vocabulary else BYTES
        self.total = self.unknown = 0
        self.warned = False

    def count(self, tokens: Sequence[str]) -> None:
        """Count a batch's tokens. Logs once that some are cut."""
        if self.vocabulary:
            self.total += len(tokens)
            self.unknown += sum(token not in self.vocabulary or token == UNK for token in tokens)
        elif not self.warned and (cut := count_cut(tokens, self.alphabet)):
            self.warned = True
            unit, longest = self.alphabet.unit, self.alphabet.columns - 2
            log.warning(f"{cut} tokens of a batch have more than {longest} {unit}; only the first {longest} are read.")

    @property
    def oov_share(self) -> float:
        """Share of the tokens so far that a word model does not know; 0 for a character model."""
        return self.unknown / max(1, self.total)


class TokenTable:
    """Vectors of sentences' tokens, from a table with a row for each known token."""

    def __init__(self, table: paddle.Tensor):
        self.table = table  # (rows, P)
        self.lock = threading.Lock()  # several threads may use one embedder

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[paddle.Tensor, np.ndarray, np.ndarray]:
        """Vectors (N, P) of the distinct tokens, their places (B, T) in the rows `<S> w1 .. wn </S>`, the rows' lengths."""
        tokens = [token for sentence in sentences for token in (BOS, *sentence, EOS)]
        lengths = np.array([len(sentence) + 2 for sentence in sentences], dtype=np.int64)
        with self.lock:
            distinct, place = np.unique(self.rows(tokens), return_inverse=True)
            vectors = paddle.gather(self.table, paddle.to_tensor(distinct))
        return vectors, padded(place.ravel(), lengths, lengths.max(initial=0)), lengths

    def of(self, tokens: Sequence[str]) -> np.ndarray:
        """The vectors (n, P) of tokens."""
        with self.lock:
            rows = paddle.to_tensor(self.rows(list(tokens)))  # first: the table may have to grow for it
            return paddle.gather(self.table, rows).numpy()

    def rows(self, tokens: list[str]) -> np.ndarray:
        """(n,) the tokens' rows in the table. The caller holds the lock."""
        raise NotImplementedError

    def check(self, sentence: Sequence[str], number: int) -> None:
        """Raise a UserError about tokens that have no vector."""

    def forget(self) -> None:
        """Drop what was computed with weights that may have changed."""


class VocabularyTable(TokenTable):
    """The vocabulary's words."""

    def __init__(self, table: paddle.Tensor, vocabulary: Vocabulary):
        super().__init__(table)
        self.vocabulary = vocabulary

    def rows(self, tokens: list[str]) -> np.ndarray:
        return self.vocabulary.ids(tokens)


class FixedVectors(TokenTable):
    """The words of a fixed vocabulary, from a file of their vectors."""

    def __init__(self, path: Path, vocabulary: Path, width: int):
        from elmo_core.files import token_vectors  # and with it h5py: only here

        words, vectors = token_vectors.read(path, vocabulary, width)
        super().__init__(paddle.to_tensor(vectors))
        self.path, self.places = path, {word: row for row, word in enumerate(words)}

    def check(self, sentence: Sequence[str], number: int) -> None:
        for place, token in enumerate(sentence):
            if token not in self.places:
                raise UserError(
                    f"sentence {number}, token {place}: {token!r:.60} is not among the {len(self.places):,} words of "
                    f"{self.path}. Add it to their vocabulary and make the file again, or leave token_vectors out."
                )

    def rows(self, tokens: list[str]) -> np.ndarray:
        return np.fromiter(map(self.places.__getitem__, tokens), np.int64, len(tokens))


class CachedVectors(TokenTable):
    """Any tokens, from their characters. They are kept, because a frozen model sees the same words again and again."""

    def __init__(self, token_encoder: paddle.nn.Layer, config: ELMoConfig, vocabulary: Vocabulary | None):
        self.token_encoder, self.config, self.vocabulary = token_encoder, config, vocabulary
        super().__init__(paddle.zeros([1024, config.projection_dim], next(iter(token_encoder.parameters())).dtype))
        self.places: dict[str, int] = {}
        self.capacity = CACHE_BYTES // (4 * config.projection_dim)

    def rows(self, tokens: list[str]) -> np.ndarray:
        rows = self._known(tokens)
        if (rows < 0).any():
            self._compute(list(dict.fromkeys(tokens[k] for k in np.flatnonzero(rows < 0))), tokens)
            rows = self._known(tokens)
        return rows

    def forget(self) -> None:
        with self.lock:
            self.places.clear()

    def _known(self, tokens: list[str]) -> np.ndarray:
        return np.fromiter(map(self.places.get, tokens, itertools.repeat(-1)), np.int64, len(tokens))

    def _compute(self, new: list[str], batch: list[str]) -> None:
        if len(self.places) + len(new) > self.capacity and self.places:
            self.places.clear()
            new = list(dict.fromkeys(batch))
        begin, end = len(self.places), len(self.places) + len(new)
        if end > len(self.table):
            more = max(end, 2 * len(self.table)) - len(self.table)
            room = paddle.zeros([more, self.table.shape[1]], self.table.dtype)
            self.table = paddle.concat([self.table, room])
        new.sort(key=len)  # like lengths together: padding costs time
        for a in range(0, len(new), TOKENS_AT_ONCE):
            batch = token_batch([new[a : a + TOKENS_AT_ONCE]], self.config.input, self.vocabulary)
            vectors = paddle.gather(self.token_encoder(batch.tokens), paddle.to_tensor(batch.index[0, 1:-1]))
            self.table[begin + a : begin + a + len(vectors)] = vectors
        self.places.update(zip(new, range(begin, end), strict=True))
