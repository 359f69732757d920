"""Exact perplexity of held-out text under a biLM, with nothing dropped and bounded memory.

In a sentence of n words each direction makes n + 1 predictions: the words and the marker at the end.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

import dataset
from elmo import BiLM
from elmo_core.text.tokens import LMBatch, Vocabulary, restore_order, sentence_batches


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
        return Score(*map(sum, zip(astuple(self), astuple(other), strict=True)))

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

    @property
    def of_mean_loss(self) -> float:
        """Perplexity of the mean loss: the geometric mean of the two perplexities."""
        return self._perplexity((self.forward_sum + self.backward_sum) / 2)

    def _perplexity(self, log_probability: float) -> float:
        return perplexity(-log_probability / max(1, self.predictions))


def evaluate(bilm: BiLM, batches: Iterable[LMBatch]) -> Score:
    """Score an evaluation stream, or the same rows of all its batches, carrying the state as in training."""
    total, state = Score(), None
    for batch in batches:
        if not batch.lengths.any():  # only other ranks' rows are left
            continue
        state = state or bilm.zero_state(len(batch.lengths))
        forward, backward, state = bilm.log_probabilities(batch, state)
        total += Score(float(forward.sum()), float(backward.sum()), int(batch.lengths.sum()))
    return total


def score_sentences(
    bilm: BiLM, sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, batch_size: int
) -> Iterator[Score]:
    """Yield the score of each sentence, in order, each from the zero state."""

    def scores() -> Iterator[tuple]:
        for positions, group in sentence_batches(sentences, batch_size, 64 * batch_size):
            batch = dataset.lm_batch(group, vocabulary, bilm.config.input)
            forward, backward, _ = bilm.log_probabilities(batch)
            sums = forward.sum(axis=1).tolist(), backward.sum(axis=1).tolist(), batch.lengths.tolist()
            yield positions, itertools.starmap(Score, zip(*sums, strict=True))

    yield from restore_order(scores())
