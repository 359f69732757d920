"""Interpolated modified Kneser-Ney n-grams (Chen and Goodman 1999).

c is the count of an n-gram and D one of three discounts, for counts of 1, 2 and 3 or more. Below
the highest order, c is the number of distinct words that precede the n-gram:

    p(w | u v) = (c(u v w) - D(c)) / c(u v .)
                 + (sum of the discounts after u v) / c(u v .) * p(w | v)

The recursion ends with 1 / V. An n-gram that begins with <S> has no preceding word and keeps its
count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts too small to estimate discounts


@dataclass
class Level:
    """Counts of the n-grams of one length, by id, and of their contexts, one word shorter."""

    discounted: np.ndarray  # (n-grams,) float64 counts minus discounts
    total: np.ndarray  # (contexts,) float64 sums of counts
    discount_mass: np.ndarray  # (contexts,) float64 sums of discounts
    discounts: tuple[float, float, float]


class KneserNey:
    """N-grams of all lengths up to `order`.

    sentences: word ids `<S> w1 .. wn </S>`, or these reversed. An n-gram's key combines its first
    word and the id of the rest; its id is the key's index in the sorted keys.
    discount: one for all counts, instead of three estimated per length.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        vocab_size: int,
        order: int,
        discount: float | None = None,
    ):
        self.vocab_size = vocab_size
        self.keys: list[np.ndarray] = []  # per length, sorted
        words, depth = _concatenate(sentences)
        longest = 1 + int(depth.max())  # sentence
        # Per length, the ids of the n-grams that end at each word; -1: none.
        ids = [np.zeros(len(words), np.int64)]
        for k in range(1, min(order, longest) + 1):
            key, is_ngram = self._keys_at(k, words, depth, ids[-1])
            self.keys.append(_distinct(key[is_ngram]))
            ids.append(_find(self.keys[-1], key, is_ngram))
        self.levels = []
        for k in range(1, len(self.keys) + 1):
            is_ngram = (depth > 0) & (ids[k] >= 0)  # nothing predicts <S>
            level = self._level(
                k=k,
                gram=ids[k][is_ngram],
                context=_shifted(ids[k - 1])[is_ngram],
                begin=int(words[0]),
                discount=discount,
            )
            self.levels.append(level)

    def _level(
        self, k: int, gram: np.ndarray, context: np.ndarray, begin: int, discount: float | None
    ) -> Level:
        """Count the n-grams of length k.

        gram, context: ids (n,) of all in the text, and of their contexts. begin: the id of <S>.
        """
        size = self._size(k)
        n_contexts = self._size(k - 1)
        counts = np.bincount(gram, minlength=size)
        if k < len(self.keys):
            # The number of distinct preceding words, unless it begins with <S>.
            preceding = np.bincount(self.keys[k] % size, minlength=size)
            is_begin = self.keys[k - 1] // n_contexts == begin
            counts = np.where(is_begin, counts, preceding)
        by_count = estimated_discounts(counts) if discount is None else (discount,) * 3
        discounts = discounts_of(counts, by_count)
        context_of = np.zeros(size, np.int64)
        context_of[gram] = context
        return Level(
            discounted=counts - discounts,
            total=np.bincount(context_of, counts, n_contexts),
            discount_mass=np.bincount(context_of, discounts, n_contexts),
            discounts=by_count,
        )

    def probabilities(self, sentences: Sequence[Sequence[int]]) -> np.ndarray:
        """Compute the probabilities of every id but each sentence's first, concatenated."""
        words, depth = _concatenate(sentences)
        ids = np.zeros(len(words), np.int64)
        probability = np.full(len(words), 1 / self.vocab_size)
        for k, level in enumerate(self.levels, 1):
            context = np.where(depth >= max(1, k - 1), _shifted(ids), -1)
            key, is_ngram = self._keys_at(k, words, depth, ids)
            ids = _find(self.keys[k - 1], key, is_ngram)
            total = np.where(context >= 0, level.total[context], 0.0)
            discounted = np.where(ids >= 0, level.discounted[ids], 0.0)
            numerator = discounted + level.discount_mass[context] * probability
            is_seen = total > 0  # the context; otherwise the shorter n-gram's probability stays
            probability[is_seen] = numerator[is_seen] / total[is_seen]
        return probability[depth > 0]

    def perplexity(self, sentences: Sequence[Sequence[int]]) -> float:
        """Compute the perplexity of all predictions; it may be infinite."""
        with np.errstate(divide="ignore"):  # with a discount of 0, a probability may be 0
            surprisals = -np.log(self.probabilities(sentences))
            return float(np.exp(surprisals.mean()))

    def _keys_at(
        self, k: int, words: np.ndarray, depth: np.ndarray, rest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of the n-grams of length k that end at each word, and which are valid.

        rest: ids of the n-grams without their first words; -1: none. A key is valid if the sentence
        is long enough there and the rest is known.
        """
        first = np.roll(words, k - 1)  # values that wrap around are invalid by their depth
        keys = first * self._size(k - 1) + rest
        is_valid = (depth >= k - 1) & (rest >= 0)
        return keys, is_valid

    def _size(self, k: int) -> int:
        """Return the number of n-grams of length k; 1 for length 0."""
        return len(self.keys[k - 1]) if k else 1


def discounts_of(counts: np.ndarray, by_count: tuple[float, float, float]) -> np.ndarray:
    """Return the discount (n,) of each count. by_count: those of 1, 2, and 3 or more."""
    return np.array([0.0, *by_count])[np.minimum(counts, 3)]


def estimated_discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """Estimate discounts for counts of 1, 2, and 3 or more.

    They follow from the numbers of n-grams with counts 1 to 4.
    """
    n1 = np.count_nonzero(counts == 1)
    n2 = np.count_nonzero(counts == 2)
    n3 = np.count_nonzero(counts == 3)
    n4 = np.count_nonzero(counts == 4)
    if not (n1 and n2 and n3):
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return discounts if min(discounts) > 0 else FALLBACK_DISCOUNTS


def _concatenate(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return all ids in one array, and each one's position in its sentence."""
    lengths = np.array([len(sentence) for sentence in sentences])
    words = np.concatenate([np.asarray(sentence, np.int64) for sentence in sentences])
    begins = np.cumsum(lengths) - lengths
    depth = np.arange(len(words)) - np.repeat(begins, lengths)
    return words, depth


def _shifted(ids: np.ndarray) -> np.ndarray:
    """Return, at each word, the id (n,) at the word before it; 0 at the first."""
    return np.r_[0, ids[:-1]]


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Return the different keys, sorted. np.unique takes 20 times as long from NumPy 2.3 on."""
    keys = np.sort(keys)
    is_first = np.append(True, keys[1:] != keys[:-1])
    return keys[is_first]


def _find(keys: np.ndarray, queries: np.ndarray, is_valid: np.ndarray) -> np.ndarray:
    """Return the indices of the valid queries in the sorted keys; -1 for all others."""
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(is_valid & (keys[index] == queries), index, -1)
