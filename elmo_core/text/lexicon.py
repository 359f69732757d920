"""Tokens as a model reads them: their characters and ids, for batches of sentences. NumPy only.

Shapes: B rows, T steps, N distinct tokens in a batch, C characters per token (50).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np

from elmo_core.text.characters import BOS, BYTES, EOS
from elmo_core.text.vocabulary import SPECIAL_TOKENS, UNK_ID, Vocabulary


@dataclass
class Tokens:
    """A batch's distinct tokens, shortest first, as the token encoder reads them.

    Fields that it does not read are None.
    """

    characters: np.ndarray | None  # (N, C) int32 character ids
    lengths: np.ndarray | None  # (N,) int32 characters without padding: the token's own + 2
    words: np.ndarray | None = None  # (N,) int64 vocabulary ids

    def take(self, indices: np.ndarray) -> "Tokens":
        """Return the tokens with these indices."""
        return Tokens(
            characters=None if self.characters is None else self.characters[indices],
            lengths=None if self.lengths is None else self.lengths[indices],
            words=None if self.words is None else self.words[indices],
        )


@dataclass
class TokenBatch:
    """Sentences to embed, one `<S> w1 .. wn </S>` per row."""

    tokens: Tokens
    index: np.ndarray  # (B, n_max + 2) int64 into tokens; padding is 0
    lengths: np.ndarray  # (B,) int64, n + 2


@dataclass
class LMBatch:
    """B rows of T steps in both directions. Padding is 0."""

    tokens: Tokens  # the distinct inputs of both directions
    forward_input: np.ndarray  # (B, T) int64 into tokens
    backward_input: np.ndarray  # (B, T) int64 into tokens
    forward_target: np.ndarray  # (B, T) int64 vocabulary ids
    backward_target: np.ndarray  # (B, T) int64 vocabulary ids
    lengths: np.ndarray  # (B,) int64 steps without padding: in training T
    position: dict | None = None  # in training: the stream's position after this batch
    scored: bool = True  # in evaluation: if false, the batch is read only for the state after it

    def take(self, rows: slice) -> "LMBatch":
        """Return a batch of some rows, with only the tokens that they use.

        It is this batch if that is all of them.
        """
        lengths = self.lengths[rows]
        if len(lengths) == len(self.lengths):
            return self
        steps = self.forward_input.shape[1]
        is_step = np.arange(steps) < lengths[:, None]  # (rows, T): the others are padding
        inputs = [self.forward_input[rows][is_step], self.backward_input[rows][is_step]]
        index = np.concatenate(inputs)
        is_used = np.bincount(index) > 0
        new_index = np.cumsum(is_used) - 1
        forward, backward = np.split(new_index[index], 2)
        return LMBatch(
            tokens=self.tokens.take(np.flatnonzero(is_used)),
            forward_input=pad_rows(forward, lengths, steps),
            backward_input=pad_rows(backward, lengths, steps),
            forward_target=self.forward_target[rows],
            backward_target=self.backward_target[rows],
            lengths=lengths,
            position=self.position,
            scored=self.scored,
        )


class Lexicon:
    """Ids for tokens: the vocabulary's and, if characters are read, from V on for unknown words."""

    def __init__(self, vocabulary: Vocabulary, input: str):
        self._vocabulary = vocabulary
        self._reads_characters = "char" in input
        self._reads_words = "word" in input
        self._unknown: dict[str, int] = {}  # word: id - V, by rising id
        self._rebuild()

    def ids(self, tokens: list[str]) -> np.ndarray:
        """Ids (n,) int32 of n tokens."""
        unknown_id = -1 if self._reads_characters else UNK_ID
        tokens = self._vocabulary.alphabet.truncated(tokens)
        known = map(self._vocabulary.index.get, tokens, repeat(unknown_id))
        ids = np.fromiter(known, np.int32, len(tokens))
        positions = np.flatnonzero(ids < 0)
        if len(positions):
            unknown = self._unknown
            words = [tokens[position] for position in positions.tolist()]
            ids[positions] = [unknown.setdefault(word, len(unknown)) for word in words]
            ids[positions] += len(self._vocabulary)
            self._is_stale = True
        return ids

    def prune(self, keep: np.ndarray) -> None:
        """Drop all unknown words except those in `keep`, an array of ids, renumbered in place."""
        first = len(self._vocabulary)
        words = list(self._unknown)
        is_unknown = keep >= first
        needed, index = np.unique(keep[is_unknown], return_inverse=True)
        self._unknown = {words[old - first]: new for new, old in enumerate(needed.tolist())}
        keep[is_unknown] = first + index
        self._is_stale = True

    def targets(self, ids: np.ndarray) -> np.ndarray:
        """Return the ids with those of unknown words replaced by `<UNK>`'s."""
        return np.where(ids < len(self._vocabulary), ids, UNK_ID)

    def unique(self, ids: np.ndarray) -> tuple[Tokens, np.ndarray]:
        """Return the distinct tokens and, for each of ids (n,), its index among them.

        Their order depends on the tokens, not on the ids, which in a stream depend on where it
        started.
        """
        if self._is_stale:
            self._rebuild()
        positions = np.arange(len(ids), dtype=np.int32)
        self._slots[ids] = positions  # the last position of each id
        distinct = ids[self._slots[ids] == positions]
        characters = None
        lengths = None
        words = None
        if self._reads_characters:
            distinct = distinct[np.argsort(self._lengths[distinct], kind="stable")]
            characters = self._character_rows(distinct)
            lengths = self._lengths[distinct].astype(np.int32)
        if self._reads_words:
            words = self.targets(distinct).astype(np.int64)
        self._slots[distinct] = positions[: len(distinct)]
        return Tokens(characters, lengths, words), self._slots[ids]

    def _character_rows(self, ids: np.ndarray) -> np.ndarray:
        known = ids < len(self._vocabulary)
        rows = np.empty((len(ids), self._vocabulary.alphabet.columns), np.int32)
        rows[known] = self._vocabulary.characters.rows(ids[known])
        rows[~known] = self._characters.rows(ids[~known] - len(self._vocabulary))
        return rows

    def _rebuild(self) -> None:
        """Update the tables behind `unique` to the current unknown words."""
        self._is_stale = False
        self._slots = np.empty(len(self._vocabulary) + len(self._unknown), np.int32)
        if self._reads_characters:
            self._characters = self._vocabulary.alphabet.table(self._unknown)
            self._lengths = np.concatenate(
                [self._vocabulary.characters.lengths, self._characters.lengths]
            )


_ALPHABET_ONLY = Vocabulary(SPECIAL_TOKENS)


def pad_rows(values: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
    """Split `values` into rows of these lengths (B,), padded with zeros: int64 (B, width)."""
    out = np.zeros((len(lengths), width), np.int64)
    out[np.arange(width) < lengths[:, None]] = values
    return out


def token_batch(
    sentences: Sequence[Sequence[str]], input: str = "char", vocabulary: Vocabulary | None = None
) -> TokenBatch:
    """Build a batch to embed.

    An input that reads words needs the vocabulary, others only its alphabet.
    """
    is_needed = vocabulary and ("word" in input or vocabulary.alphabet != BYTES)
    lexicon = Lexicon(vocabulary if is_needed else _ALPHABET_ONLY, input)
    rows = [[BOS, *sentence, EOS] for sentence in sentences]
    lengths = np.array([len(row) for row in rows], np.int64)
    ids = lexicon.ids(list(chain.from_iterable(rows)))
    tokens, index = lexicon.unique(ids)
    longest = lengths.max(initial=0)
    return TokenBatch(tokens, pad_rows(index, lengths, longest), lengths)
