"""An embedder's token vectors: computed once and cached."""

import threading
from collections.abc import Sequence

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels.matmul import state_of
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import format_count, log
from elmo_core.text.characters import BOS, BYTES, EOS
from elmo_core.text.language import warn_if_unreadable
from elmo_core.text.lexicon import pad_rows, token_batch
from elmo_core.text.vocabulary import UNK, Vocabulary

TOKENS_PER_CHUNK = 2048  # new tokens per pass of the character CNN
CACHE_BYTES = 256 * 2**20  # of cached token vectors
# Several threads may use one embedder. A lock of each counter would prevent copies.
COUNTER_LOCK = threading.Lock()


class OOVCounter:
    """Counts tokens outside the table of words.

    Warns once of truncated tokens, and once of text that the model cannot read.
    """

    def __init__(self, config: ELMoConfig, vocabulary: Vocabulary | None):
        self.config = config
        self.vocabulary = vocabulary
        self.alphabet = vocabulary.alphabet if vocabulary else BYTES
        self.total = 0
        self.unknown = 0
        self.warned = False

    def update(self, tokens: Sequence[str]) -> None:
        """Count a batch's tokens."""
        with COUNTER_LOCK:
            if not self.total:
                words = self.vocabulary.words if self.vocabulary else ()
                warn_if_unreadable("The text", tokens, words)
            self.total += len(tokens)
            if self.config.reads_words and self.vocabulary:
                self.unknown += sum(
                    token not in self.vocabulary or token == UNK for token in tokens
                )
            if self.config.reads_characters and not self.warned:
                self._warn_if_truncated(tokens)

    def _warn_if_truncated(self, tokens: Sequence[str]) -> None:
        n_truncated = sum(self.alphabet.is_truncated(token) for token in tokens)
        if n_truncated:
            self.warned = True
            shown = format_count(n_truncated, "tokens")
            longest = self.alphabet.columns - 2  # without the markers
            log.warning(
                f"{shown} in a batch: longer than {longest} {self.alphabet.unit}, truncated."
            )


class TokenTable:
    """Vectors of tokens by a model's encoder.

    They are cached, because a frozen model sees the same words again and again.
    """

    def __init__(
        self, token_encoder: paddle.nn.Layer, config: ELMoConfig, vocabulary: Vocabulary | None
    ):
        self.token_encoder = token_encoder
        self.config = config
        self.vocabulary = vocabulary
        dtype = token_encoder.parameters()[0].dtype
        self.table = paddle.zeros([1024, config.projection_dim], dtype)  # (rows, P)
        self.row_of: dict[str, int] = {}  # {token: row}
        self.state: object = None  # of the weights that the vectors were computed with
        self.capacity = CACHE_BYTES // (4 * config.projection_dim)
        self.lock = threading.Lock()  # several threads may use one embedder

    def __call__(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[paddle.Tensor, np.ndarray, np.ndarray]:
        """Look up the tokens of rows `<S> .. </S>`.

        Returns the vectors (N, P) of the distinct ones, the rows' indices (B, T) into these, and
        the rows' lengths (B,).
        """
        tokens = []
        for sentence in sentences:
            tokens.append(BOS)
            tokens.extend(sentence)
            tokens.append(EOS)
        lengths = np.array([len(sentence) + 2 for sentence in sentences], dtype=np.int64)
        with self.lock:
            distinct, inverse = np.unique(self._row_ids(tokens), return_inverse=True)
            vectors = paddle.gather(self.table, to_tensor(distinct))
        return vectors, pad_rows(inverse.ravel(), lengths, lengths.max(initial=0)), lengths

    def lookup(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the vectors (n, P) of tokens."""
        with self.lock:
            rows = to_tensor(self._row_ids(list(tokens)))  # first: it may let the table grow
            return paddle.gather(self.table, rows).numpy()

    def refresh(self) -> None:
        """Drop vectors that were computed with other weights."""
        state = state_of(self.token_encoder.parameters())
        with self.lock:
            if state != self.state:
                self.row_of.clear()
                self.state = state

    def _row_ids(self, tokens: list[str]) -> np.ndarray:
        """Return the tokens' rows (n,) in the table, after computing those of new ones.

        The caller holds the lock.
        """
        new = list(dict.fromkeys(token for token in tokens if token not in self.row_of))
        if new:
            self._compute(new, tokens)
        return np.array([self.row_of[token] for token in tokens], np.int64)

    def _compute(self, new: list[str], tokens: list[str]) -> None:
        """Add the vectors of new tokens. A table that would grow too large begins anew."""
        if len(self.row_of) + len(new) > self.capacity and self.row_of:
            self.row_of.clear()
            new = list(dict.fromkeys(tokens))
        begin = len(self.row_of)
        end = begin + len(new)
        if end > len(self.table):
            n_rows = max(end, 2 * len(self.table)) - len(self.table)
            more = paddle.zeros([n_rows, self.table.shape[1]], self.table.dtype)
            self.table = paddle.concat([self.table, more])
        new.sort(key=len)  # similar lengths together: padding costs time
        for a in range(0, len(new), TOKENS_PER_CHUNK):
            batch = token_batch([new[a : a + TOKENS_PER_CHUNK]], self.config.input, self.vocabulary)
            vectors = paddle.gather(
                self.token_encoder(batch.tokens), to_tensor(batch.index[0, 1:-1])
            )
            self.table[begin + a : begin + a + len(vectors)] = vectors
        self.row_of.update(zip(new, range(begin, end), strict=True))
