"""Interpolated modified Kneser-Ney n-grams (Chen and Goodman 1999).

c is the count of an n-gram and D one of three discounts, for counts of 1, 2 and 3 or more. Below the highest order, c is
the number of distinct words that precede the n-gram:

    p(w | u v) = (c(u v w) - D(c)) / c(u v .)  +  (sum of the discounts after u v) / c(u v .) * p(w | v)

The recursion ends with 1 / V. An n-gram that begins with <S> has no preceding word and keeps its count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import BOS, EOS
from elmo_core.text.vocabulary import Vocabulary

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts too small to estimate discounts


@dataclass
class Level:
    """Counts of the n-grams of one length, by id, and of their contexts, the n-grams one word shorter."""

    discounted: np.ndarray  # (n-grams,) float64 counts minus discounts
    total: np.ndarray  # (contexts,) float64 sums of counts
    discount_mass: np.ndarray  # (contexts,) float64 sums of discounts
    discounts: tuple[float, float, float]


class KneserNey:
    """N-grams of all lengths up to `order`, from sentences of word ids `<S> w1 .. wn </S>`, or these reversed.

    An n-gram's key combines its first word and the id of the rest; its id is the key's index in the sorted keys.
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
        ids = [
            np.zeros(len(words), np.int64)
        ]  # per length, ids of the n-grams that end at each word; -1: none
        for k in range(
            1, min(order, 1 + int(depth.max())) + 1
        ):  # at most as long as the longest sentence
            key, is_ngram = self._keys_at(k, words, depth, ids[-1])
            self.keys.append(np.unique(key[is_ngram]))
            ids.append(_find(self.keys[-1], key, is_ngram))
        self.levels = []
        for k in range(1, len(self.keys) + 1):
            is_ngram = (depth > 0) & (ids[k] >= 0)  # nothing predicts <S>
            gram, context = ids[k][is_ngram], np.r_[0, ids[k - 1][:-1]][is_ngram]
            self.levels.append(self._level(k, gram, context, int(words[0]), discount))

    def _level(
        self, k: int, gram: np.ndarray, context: np.ndarray, begin: int, discount: float | None
    ) -> Level:
        """Count the n-grams of length k. gram, context: ids (n,) of all in the text, and of their contexts."""
        counts = np.bincount(gram, minlength=self._size(k))
        if k < len(self.keys):  # number of distinct preceding words, unless it begins with <S>
            preceding = np.bincount(self.keys[k] % self._size(k), minlength=self._size(k))
            counts = np.where(self.keys[k - 1] // self._size(k - 1) == begin, counts, preceding)
        by_count = estimated_discounts(counts) if discount is None else (discount,) * 3
        discounts = np.array([0.0, *by_count])[np.minimum(counts, 3)]
        context_of = np.zeros(self._size(k), np.int64)
        context_of[gram] = context
        total, discount_mass = (
            np.bincount(context_of, values, self._size(k - 1)) for values in (counts, discounts)
        )
        return Level(counts - discounts, total, discount_mass, by_count)

    def probabilities(self, sentences: Sequence[Sequence[int]]) -> np.ndarray:
        """Probabilities of all predictions (every id except each sentence's first), concatenated."""
        words, depth = _concatenate(sentences)
        ids, probability = np.zeros(len(words), np.int64), np.full(len(words), 1 / self.vocab_size)
        for k, level in enumerate(self.levels, 1):
            context = np.where(depth >= max(1, k - 1), np.r_[0, ids[:-1]], -1)
            ids = _find(self.keys[k - 1], *self._keys_at(k, words, depth, ids))
            total = np.where(context >= 0, level.total[context], 0.0)
            discounted = np.where(ids >= 0, level.discounted[ids], 0.0)
            seen = total > 0
            probability[seen] = (
                ((discounted + level.discount_mass[context] * probability)[seen]) / total[seen]
            )
        return probability[depth > 0]

    def perplexity(self, sentences: Sequence[Sequence[int]]) -> float:
        with np.errstate(divide="ignore"):  # with a discount of 0 it may be infinite
            return float(np.exp(-np.log(self.probabilities(sentences)).mean()))

    def _keys_at(
        self, k: int, words: np.ndarray, depth: np.ndarray, rest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the n-grams of length k that end at each word, and whether each one exists and its rest is known."""
        first = np.roll(words, k - 1)  # values that wrap around are invalid by their depth
        return first * self._size(k - 1) + rest, (depth >= k - 1) & (rest >= 0)

    def _size(self, k: int) -> int:
        """Number of n-grams of length k; 1 for length 0."""
        return len(self.keys[k - 1]) if k else 1


def estimated_discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """Discounts for counts of 1, 2, and 3 or more, from the numbers of n-grams with counts 1 to 4."""
    n1, n2, n3, n4 = (np.count_nonzero(counts == count) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    discounts = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return discounts if min(discounts) > 0 else FALLBACK_DISCOUNTS


def _concatenate(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All ids in one array, and each one's position in its sentence."""
    lengths = np.array([len(sentence) for sentence in sentences])
    words = np.concatenate([np.asarray(sentence, np.int64) for sentence in sentences])
    return words, np.arange(len(words)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _find(keys: np.ndarray, queries: np.ndarray, is_valid: np.ndarray) -> np.ndarray:
    """Indices of the valid queries in the sorted keys; -1 for all others."""
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(is_valid & (keys[index] == queries), index, -1)


def read_ids(corpus: Corpus, vocabulary: Vocabulary) -> list[np.ndarray]:
    """The ids of all sentences, with special tokens."""
    sentences = (words for path in corpus.paths for words in read_sentences(path) if words)
    return [vocabulary.ids([BOS, *words, EOS]) for words in sentences]
