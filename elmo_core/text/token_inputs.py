"""Sentences as padded arrays of ids, which `ELMo` reads beside lists. NumPy only.

They are without the markers of begin and end, as the inputs of exported networks.

Shapes: B rows, T tokens of the longest, C characters per token, N distinct tokens in a batch,
n entries of all rows, their markers included, K ids that describe a token.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from elmo_core.checks import describe
from elmo_core.config import ELMoConfig
from elmo_core.messages import UserError, join_names
from elmo_core.text.lexicon import TokenBatch, Tokens, pad_rows, token_batch
from elmo_core.text.vocabulary import Vocabulary

LENGTHS = "lengths"
CHARACTERS = "characters"
WORDS = "words"
ADVICE = "Make them by `inputs` of this ELMo."


def input_names(config: ELMoConfig) -> list[str]:
    """Return the names of a model's arrays, in alphabetical order, as Paddle flattens a dict."""
    names = [LENGTHS]
    if config.reads_characters:
        names.append(CHARACTERS)
    if config.reads_words:
        names.append(WORDS)
    return sorted(names)


def check_names(inputs: Mapping, config: ELMoConfig) -> None:
    """Raise a UserError unless these are the names of the model's arrays."""
    names = input_names(config)
    if set(inputs) != set(names):
        found = join_names([str(name) for name in inputs]) or "nothing"
        raise UserError(f"ELMo's inputs: found {found}; expected {join_names(names)}. {ADVICE}")


class TokenInputs:
    """A model's sentences as arrays: `characters` (B, T, C), `lengths` (B,), `words` (B, T).

    Those that the model does not read are missing. All are int64.
    """

    def __init__(self, config: ELMoConfig, vocabulary: Vocabulary | None):
        self.config = config
        self.vocabulary = vocabulary
        markers = token_batch([[]], config.input, vocabulary)
        self.bos, self.eos = _ids(markers.tokens)[markers.index[0]]  # (K,) each
        # beyond a sentence's end
        self.padding = np.zeros_like(self.bos)
        if config.reads_characters:
            self.columns = markers.tokens.characters.shape[1]
            self.begin = self.bos[0]
            self.end = self.bos[2]
            self.padding[: self.columns] = self.bos[self.columns - 1]

    def arrays(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """Return the arrays of sentences."""
        batch = token_batch(sentences, self.config.input, self.vocabulary)
        lengths = batch.lengths - 2
        steps = lengths.max(initial=0)
        mask = np.arange(steps) < lengths[:, None]
        ids = np.empty((len(lengths), steps, len(self.padding)), np.int64)
        ids[:] = self.padding
        ids[mask] = _ids(batch.tokens)[batch.index[:, 1 : steps + 1][mask]]
        arrays = {LENGTHS: lengths}
        if self.config.reads_characters:
            arrays[CHARACTERS] = np.ascontiguousarray(ids[..., : self.columns])
        if self.config.reads_words:
            arrays[WORDS] = np.ascontiguousarray(ids[..., -1])
        return {name: arrays[name] for name in input_names(self.config)}

    def batch(self, arrays: Mapping[str, np.ndarray]) -> TokenBatch:
        """Return the batch that `token_batch` makes of the sentences themselves.

        What an array holds beyond a sentence's end is ignored. Tokens with the same ids are one,
        such as two whose first 48 bytes are the same.
        """
        lengths, tokens = self._checked(arrays)
        rows, steps = tokens.shape[:2]
        ids = np.empty((rows, steps + 2, len(self.padding)), tokens.dtype)
        ids[:, 0] = self.bos
        ids[:, 1:-1] = tokens
        ids[np.arange(rows), lengths + 1] = self.eos
        lengths = lengths + 2
        ids = ids[np.arange(steps + 2) < lengths[:, None]]  # (n, K)
        opaque = np.ascontiguousarray(ids).view(np.dtype((np.void, ids.itemsize * ids.shape[1])))
        _, first, entries = np.unique(opaque.ravel(), return_index=True, return_inverse=True)
        entries = entries.ravel()
        ids = ids[first]  # (N, K), sorted
        order = _order_of_last_positions(entries, len(ids))
        characters = None
        character_counts = None
        words = None
        if self.config.reads_characters:
            counts = self._character_counts(ids)
            order = order[np.argsort(counts[order], kind="stable")]
            characters = ids[order, : self.columns].astype(np.int32)
            character_counts = counts[order].astype(np.int32)
        if self.config.reads_words:
            words = ids[order, -1].astype(np.int64)
        index = np.argsort(order)[entries]
        longest = lengths.max(initial=0)
        return TokenBatch(
            tokens=Tokens(characters, character_counts, words),
            index=pad_rows(index, lengths, longest),
            lengths=lengths,
        )

    def _character_counts(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers of characters (n,) of tokens (n, K), with the markers of each."""
        return (ids[:, : self.columns] != self.padding[0]).sum(axis=1)

    def _checked(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the lengths (B,) and the ids (B, T, K). Raise a UserError if one is wrong."""
        config = self.config
        check_names(arrays, config)
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
                found = getattr(array, "dtype", None) or describe(array)
                raise UserError(f"ELMo's inputs: {name} has {found}, expected int64. {ADVICE}")
        lengths = arrays[LENGTHS].astype(np.int64)
        names = [name for name in (CHARACTERS, WORDS) if name in arrays]
        rows, steps = (*arrays[names[0]].shape, 0, 0)[:2]
        shapes = {CHARACTERS: (rows, steps), WORDS: (rows, steps), LENGTHS: (rows,)}
        if config.reads_characters:
            shapes[CHARACTERS] = (rows, steps, self.columns)
        for name, array in arrays.items():
            if array.shape != shapes[name]:
                problem = f"{name} has the shape {array.shape}, expected {shapes[name]}"
                raise UserError(f"ELMo's inputs: {problem}. {ADVICE}")
        if not ((lengths >= 0) & (lengths <= steps)).all():
            problem = f"a length is outside 0 to {steps}, the tokens that there are"
            raise UserError(f"ELMo's inputs: {problem}. {ADVICE}")
        mask = np.arange(steps) < lengths[:, None]
        if config.reads_characters:
            self._check_characters(arrays[CHARACTERS][mask])
        if config.reads_words:
            words = arrays[WORDS][mask]
            if not ((words >= 0) & (words < config.vocab_size)).all():
                problem = f"a word is outside 0 to {config.vocab_size - 1}, the vocabulary"
                raise UserError(f"ELMo's inputs: {problem}. {ADVICE}")
        columns = []
        if config.reads_characters:
            columns.append(arrays[CHARACTERS])
        if config.reads_words:
            columns.append(arrays[WORDS][:, :, None])
        return lengths, np.concatenate(columns, axis=2).astype(np.int32)

    def _check_characters(self, ids: np.ndarray) -> None:
        """Raise a UserError unless tokens (n, C) are as this model's alphabet writes them."""
        counts = self._character_counts(ids)
        is_padding = ids == self.padding[0]
        is_beyond = np.arange(self.columns) >= counts[:, None]
        last = ids[np.arange(len(ids)), counts - 1]
        are_right = (
            ((ids >= 0) & (ids < self.config.n_characters)).all()
            and (is_padding == is_beyond).all()
            and (counts > 1).all()
            and (ids[:, 0] == self.begin).all()
            and (last == self.end).all()
        )
        if not are_right:
            problem = "characters are not those of this model's alphabet"
            raise UserError(f"ELMo's inputs: {problem}. {ADVICE}")


def _order_of_last_positions(entries: np.ndarray, n: int) -> np.ndarray:
    """Return the values 0 to n - 1, each of which occurs, as `Lexicon.unique` orders tokens."""
    positions = np.arange(len(entries))
    last = np.empty(n, np.int64)
    last[entries] = positions
    return np.argsort(last)


def _ids(tokens: Tokens) -> np.ndarray:
    """Return what describes each token: its characters, then its word. (N, K)"""
    columns = []
    if tokens.characters is not None:
        columns.append(tokens.characters)
    if tokens.words is not None:
        columns.append(tokens.words[:, None])
    return np.concatenate(columns, axis=1).astype(np.int64)
