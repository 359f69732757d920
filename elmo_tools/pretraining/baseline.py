"""N-grams of a run's text, with which its perplexity is compared.

They have the run's vocabulary and its held-out text, and take seconds: of a long text, they count
a sample.
"""

import math
from dataclasses import dataclass

import numpy as np

from elmo_core.text.corpus import Corpus, read_ids
from elmo_core.text.kneser_ney import KneserNey
from elmo_core.text.vocabulary import Vocabulary

HELD_OUT = 100_000  # tokens of the held-out text, at most about so many
DAMPING = 0.92  # of what twice the text brings, from one doubling to the next


@dataclass(frozen=True)
class Baseline:
    """The perplexity of held-out text under n-grams of the training text, in reading direction.

    order: the n of the n-grams. unigrams: the perplexity under single words. sample, tokens: the
    tokens that they have counted, and those of the training text. halved: the perplexity under
    n-grams of every other sentence of the sample.
    """

    order: int
    unigrams: float
    perplexity: float
    halved: float
    sample: int
    tokens: int

    def extrapolated(self, tokens: int) -> float:
        """The perplexity to expect of n-grams of so many tokens of the text.

        Twice the text brings DAMPING times as much, in logarithms, as the doubling before.
        """
        doublings = math.log2(tokens / self.sample)
        doubled = math.log(self.perplexity / self.halved)  # what the last doubling brought
        sum_of_factors = DAMPING * (1 - DAMPING**doublings) / (1 - DAMPING)
        return self.perplexity * math.exp(doubled * sum_of_factors)


def measure_baseline(
    corpus: Corpus, dev: Corpus, vocabulary: Vocabulary, tokens: int, order: int, limit: int
) -> Baseline:
    """Count n-grams of a text, and measure their perplexity of held-out text.

    tokens: those of the corpus. limit: of more tokens, sentences at equal distances are counted.
    """
    sentences = read_ids(corpus, vocabulary, every=math.ceil(tokens / limit))
    held_out = read_ids(dev, vocabulary)
    every = math.ceil(_n_tokens(held_out) / HELD_OUT)
    held_out = held_out[::every]
    unigrams = KneserNey(sentences, len(vocabulary), order=1)
    ngrams = KneserNey(sentences, len(vocabulary), order)
    ngrams_of_half = KneserNey(sentences[::2], len(vocabulary), order)
    return Baseline(
        order=order,
        unigrams=unigrams.perplexity(held_out),
        perplexity=ngrams.perplexity(held_out),
        halved=ngrams_of_half.perplexity(held_out),
        sample=_n_tokens(sentences),
        tokens=tokens,
    )


def _n_tokens(sentences: list[np.ndarray]) -> int:
    """The tokens of sentences of ids, which have two markers each."""
    return sum(len(sentence) - 2 for sentence in sentences)
