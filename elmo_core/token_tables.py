"""Where an embedder finds the vectors of its tokens: in the word table, in a file, or by the character CNN, once each."""

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.char_cnn import CharCNN
from elmo_core.runtime import UserError, log, paddle
from elmo_core.tokens import BOS, EOS, MAX_BYTES, UNK_ID, CharTable, Tokens, Vocabulary, count_cut, padded

TOKENS_AT_ONCE = 2048  # of new tokens in one pass of the character CNN
CACHE_BYTES = 256 * 2**20  # of remembered token vectors


class TokenTable:
    """Vectors of sentences' tokens, from a table with a row for each known token."""

    def __init__(self, table: paddle.Tensor):
        self.table = table  # (rows, P)
        self.unknown, self.met = 0, 0  # tokens, by a word model's own table
        self.lock = threading.Lock()  # several threads may use one embedder

    def __call__(self, sentences) -> tuple[paddle.Tensor, np.ndarray, np.ndarray]:
        """Vectors (N, P) of the distinct tokens, their places (B, T) in the rows `<S> w1 .. wn </S>`, the rows' lengths."""
        tokens = [token for sentence in sentences for token in (BOS, *sentence, EOS)]
        lengths = np.array([len(sentence) + 2 for sentence in sentences], dtype=np.int64)
        with self.lock:
            distinct, place = np.unique(self.rows(tokens), return_inverse=True)
            vectors = paddle.gather(self.table, paddle.to_tensor(distinct))
        return vectors, padded(place.ravel(), lengths, lengths.max(initial=0)), lengths

    def rows(self, tokens: list[str]) -> np.ndarray:
        """(n,) where in the table the tokens are."""
        raise NotImplementedError

    def check(self, sentence: Sequence[str], number: int) -> None:
        """Refuse tokens that cannot be had."""

    def forget(self) -> None:
        """Remember nothing of earlier calls. The caller holds the lock."""

    def report(self) -> None:
        """Tell the user, once, what happened to tokens that could not be taken whole."""


class WordVectors(TokenTable):
    """The vocabulary's words."""

    def __init__(self, token_encoder, vocabulary: Vocabulary):
        super().__init__(token_encoder.embedding.weight)
        self.vocabulary = vocabulary

    def rows(self, tokens: list[str]) -> np.ndarray:
        ids = self.vocabulary.ids(tokens)
        markers = np.count_nonzero(ids < UNK_ID)
        self.unknown += np.count_nonzero(ids == UNK_ID)
        self.met += len(ids) - markers
        return ids


class FixedVectors(TokenTable):
    """The words of a fixed vocabulary, from a file of their vectors."""

    def __init__(self, path: Path, vocabulary: Path, width: int):
        from elmo_core import token_vectors  # and with it h5py: only here

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


class CharacterVectors(TokenTable):
    """Tokens from their characters, remembered: a frozen model meets the same words again and again."""

    def __init__(self, token_encoder: CharCNN):
        self.token_encoder = token_encoder
        width = token_encoder.config.projection_dim
        super().__init__(paddle.zeros([1024, width], token_encoder.embedding.weight.dtype))
        self.places: dict[str, int] = {}
        self.capacity = CACHE_BYTES // (4 * width)
        self.too_long: set[str] = set()
        self.cut, self.told = 0, False

    def rows(self, tokens: list[str]) -> np.ndarray:
        rows = self._known(tokens)
        if (rows < 0).any():
            self._learn(list(dict.fromkeys(tokens[k] for k in np.flatnonzero(rows < 0))), tokens)
            rows = self._known(tokens)
        if self.too_long:
            self.cut += sum(token in self.too_long for token in tokens)
        return rows

    def forget(self) -> None:
        """Remember nothing: the weights have changed, or there is no more room."""
        self.places.clear()
        self.too_long.clear()

    def _known(self, tokens: list[str]) -> np.ndarray:
        return np.fromiter(map(self.places.get, tokens, itertools.repeat(-1)), np.int64, len(tokens))

    def _learn(self, new: list[str], batch: list[str]) -> None:
        if len(self.places) + len(new) > self.capacity and self.places:
            self.forget()
            new = list(dict.fromkeys(batch))
        begin, end = len(self.places), len(self.places) + len(new)
        if end > len(self.table):
            more = max(end, 2 * len(self.table)) - len(self.table)
            room = paddle.zeros([more, self.table.shape[1]], self.table.dtype)
            self.table = paddle.concat([self.table, room])
        characters = CharTable(new)
        order = np.argsort(characters.lengths, kind="stable")
        ids, lengths = characters.rows(order), characters.lengths[order].astype(np.int64)
        for a in range(0, len(new), TOKENS_AT_ONCE):
            part = slice(a, a + TOKENS_AT_ONCE)
            self.table[begin + a : begin + a + len(lengths[part])] = self.token_encoder(
                Tokens(ids[part], lengths[part])
            )
        self.places.update((new[k], row) for k, row in zip(order.tolist(), range(begin, end), strict=True))
        self.too_long.update(token for token in new if count_cut([token]))

    def report(self) -> None:
        if self.cut and not self.told:
            self.told = True
            log.warning(f"{self.cut} tokens have more than {MAX_BYTES} bytes and were read up to there.")
