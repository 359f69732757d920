"""Weights of tokens in a mean: frequent words say little about a text.

Smooth inverse frequency, Arora et al. 2017: a / (a + p), where p is the word's share of the text.
"""

from collections.abc import Sequence

import numpy as np

from elmo_core.network.softmax import log_uniform

SIF = "sif"
SMOOTHING = 1e-3  # a


class SIFWeights:
    """Maps tokens to their weights (n,), float64, from 0 to 1.

    words: of a model, by decreasing frequency. A word's share is estimated from its rank, by Zipf's
    law; that of a capitalised one is that of its lower case, if this is more frequent. An unknown
    word is as rare as the last one.
    """

    def __init__(self, words: Sequence[str]):
        shares = log_uniform(np.arange(len(words) + 1), len(words) + 1)
        weights = (SMOOTHING / (SMOOTHING + shares)).tolist()
        self.unknown = weights[-1]
        self.of_words = dict(zip(words, weights, strict=False))

    def __call__(self, tokens: Sequence[str]) -> np.ndarray:
        return np.array([self._weight(token) for token in tokens], np.float64)

    def _weight(self, token: str) -> float:
        weight = self.of_words.get(token, self.unknown)
        return min(weight, self.of_words.get(token.lower(), self.unknown))
