"""The held-out perplexity that a run is expected to reach, by that of n-grams of its text.

Unigrams and bigrams with the same vocabulary and held-out text make up for the language, the kind
of text and the tokens. On the way from the logarithm of the unigrams' perplexity to that of the
bigrams', and beyond, a run covers a share that depends on its training:

    share = sum of COEFFICIENTS * features

The constants were fitted to runs on several texts by `benchmarks/forecast_fit.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmo_core.messages import format_count
from elmo_tools.pretraining.baseline import Baseline

COEFFICIENTS = (0.996, 0.329, -0.241, 0.240)
SPREAD = 0.2  # of the logarithm of the perplexity, to either side
MORE_TOKENS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000, 1_000_000_000)


@dataclass(frozen=True)
class Training:
    """What the share depends on, besides the text: the steps, and the model's P.

    tokens: of the training text.
    """

    steps: int
    tokens: int
    projection_dim: int


@dataclass(frozen=True)
class Expectation:
    """A held-out perplexity, with what bounds it, and that of more text.

    more_tokens, of_more: a number of tokens, and the perplexity with so many and as many epochs.
    """

    low: float
    perplexity: float
    high: float
    more_tokens: int
    of_more: float

    def text(self) -> str:
        """The expectation as a line of a log."""
        return (
            f"held-out perplexity between {_rounded(self.low)} and {_rounded(self.high)}; "
            f"with {format_count(self.more_tokens, 'tokens')}, about {_rounded(self.of_more)}"
        )

    def values(self) -> dict[str, Any]:
        """The expectation as fields of a record of log.jsonl."""
        return {
            "perplexity_low": self.low,
            "perplexity": self.perplexity,
            "perplexity_high": self.high,
        }


def _rounded(perplexity: float) -> str:
    """A perplexity with two digits: 3.2, 90, 150, 1,200."""
    digits = 1 - math.floor(math.log10(perplexity))
    return f"{round(perplexity, digits):,.{max(0, digits)}f}"


def features(training: Training, unigrams: float) -> np.ndarray:
    """The numbers (4,) that the share depends on. unigrams: their perplexity."""
    return np.array(
        [
            1.0,
            math.log(training.steps / 1000),
            math.log(unigrams / 500),
            math.log(training.projection_dim / 128),
        ]
    )


def expected_perplexity(training: Training, bigrams: Baseline) -> Expectation | None:
    """The held-out perplexity to expect at the end of a run from random weights.

    bigrams: of its text. None: the run is too short to say.
    """
    if _share(training, bigrams.unigrams) <= 0:
        return None
    perplexity = _expected(training, bigrams)
    more_tokens = next(n for n in MORE_TOKENS if n >= 2 * training.tokens or n == MORE_TOKENS[-1])
    more_steps = round(training.steps * more_tokens / training.tokens)
    of_more = _expected(replace(training, tokens=more_tokens, steps=more_steps), bigrams)
    return Expectation(
        low=perplexity / math.exp(SPREAD),
        perplexity=perplexity,
        high=perplexity * math.exp(SPREAD),
        more_tokens=more_tokens,
        of_more=of_more,
    )


def _expected(training: Training, bigrams: Baseline) -> float:
    """The perplexity on the way from that of the unigrams to that of the bigrams, and beyond."""
    share = _share(training, bigrams.unigrams)
    logarithm = (1 - share) * math.log(bigrams.unigrams)
    logarithm += share * math.log(bigrams.extrapolated(training.tokens))
    return math.exp(logarithm)


def _share(training: Training, unigrams: float) -> float:
    """The share of the way that a run covers."""
    return float(features(training, unigrams) @ np.array(COEFFICIENTS))
