"""Exact perplexity of held-out text under a biLM, with nothing dropped and bounded memory.

In a sentence of n words each direction makes n + 1 predictions: the words and the marker at the
end.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from elmo import BiLM
from elmo_core.network.lstmp import BiLMState
from elmo_core.text.lexicon import LMBatch
from elmo_core.training.ranks import Ranks


def perplexity(loss: float) -> float:
    """Perplexity of a mean loss in nats, limited to the range of a float."""
    return math.exp(min(loss, 700.0))


@dataclass
class Score:
    """Sums of log-probabilities over predictions, and the perplexities that follow."""

    forward_sum: float = 0.0
    backward_sum: float = 0.0
    predictions: int = 0  # in each direction

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.forward_sum + other.forward_sum,
            self.backward_sum + other.backward_sum,
            self.predictions + other.predictions,
        )

    @property
    def forward(self) -> float:
        return self._perplexity(self.forward_sum)

    @property
    def backward(self) -> float:
        return self._perplexity(self.backward_sum)

    @property
    def mean(self) -> float:
        """Arithmetic mean of the two perplexities, like the paper's 39.7."""
        return (self.forward + self.backward) / 2

    def _perplexity(self, log_probability: float) -> float:
        return perplexity(-log_probability / max(1, self.predictions))


def evaluate(bilm: BiLM, batches: Iterable[LMBatch], ranks: Ranks) -> Score:
    """Score the batches of an `EvalStream`, each from the state after the one before.

    Every rank scores its share of the rows.
    """

    def score_own_rows() -> Score:
        total = Score()
        state: BiLMState | None = None
        for batch in batches:
            own = batch.take(slice(ranks.rank, None, ranks.size))
            if own.lengths.any():
                initial = state or bilm.zero_state(len(own.lengths))
                forward, backward, state = bilm.log_probabilities(own, initial)
                predictions = int(own.lengths.sum()) if own.scored else 0
                total += Score(float(forward.sum()), float(backward.sum()), predictions)
        return total

    return sum(ranks.run_on_all(score_own_rows), Score())
