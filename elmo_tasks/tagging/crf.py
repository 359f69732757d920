"""The linear-chain CRF: exact loss in log space, decoding, and probabilities of spans."""

import math
from collections.abc import Sequence

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_tasks.tagging.viterbi import best_paths

nn = paddle.nn

FORBIDDEN_SCORE = -1e4  # of a forbidden transition
LEARNING_RATE = 0.2  # as a share of the network's
SMALLEST = 1e-300  # instead of sums that are 0


class LinearChainCRF(nn.Layer):
    """Scores label sequences by emissions, transitions, and start and stop scores.

    Letters: B sentences, T steps, K labels. Emissions beyond a sentence's length are ignored.

    forbidden: (K + 1, K) bool, whether label j cannot follow label i or, in the last row, be first.
    forbidden_last: (K,) bool, whether a label cannot be last. Both are for decoding only.
    """

    def __init__(self, forbidden: np.ndarray, forbidden_last: np.ndarray):
        super().__init__()
        n_labels = len(forbidden_last)
        attribute = paddle.ParamAttr(
            initializer=nn.initializer.Uniform(-0.1, 0.1), learning_rate=LEARNING_RATE
        )
        self.transitions = self.create_parameter([n_labels, n_labels], attr=attribute)  # (from, to)
        self.start = self.create_parameter([n_labels], attr=attribute)
        self.stop = self.create_parameter([n_labels], attr=attribute)
        self.penalty = _penalty(forbidden)
        self.last_penalty = _penalty(forbidden_last)

    def forward(
        self, emissions: paddle.Tensor, labels: np.ndarray, lengths: np.ndarray
    ) -> paddle.Tensor:
        """Negative log-likelihood (B,) of the sentences' labels, in float64.

        emissions (B, T, K), labels (B, T), lengths (B,).
        """
        emissions = emissions.astype("float64")
        return self.log_partition(emissions, lengths) - self.scores(emissions, labels, lengths)

    def scores(
        self, emissions: paddle.Tensor, labels: np.ndarray, lengths: np.ndarray
    ) -> paddle.Tensor:
        """The scores (B,) of the sentences' labels."""
        n_rows, n_steps, n_labels = emissions.shape
        # What precedes each label; the first has the number K, whose row are the start scores.
        previous = np.concatenate([np.full((n_rows, 1), n_labels), labels[:, :-1]], axis=1)
        table = paddle.concat([self.transitions, self.start.unsqueeze(0)])  # (K + 1, K)
        places = to_tensor((previous * n_labels + labels).ravel())  # in the flat table
        transition_scores = paddle.gather(table.reshape([-1]), places).reshape([n_rows, n_steps])
        emission_scores = paddle.take_along_axis(emissions, to_tensor(labels).unsqueeze(-1), axis=2)
        score = emission_scores.squeeze(-1) + transition_scores.astype(emissions.dtype)  # (B, T)
        mask = to_tensor(np.arange(n_steps) < lengths[:, None])
        last = to_tensor(labels[np.arange(n_rows), lengths - 1])
        score = paddle.where(mask, score, paddle.zeros_like(score)).sum(axis=1)
        return score + paddle.gather(self.stop, last).astype(emissions.dtype)

    def log_partition(self, emissions: paddle.Tensor, lengths: np.ndarray) -> paddle.Tensor:
        """The log (B,) of the sum of exp(score) over all label sequences.

        Each step sums exp(a_i + w_ij) over i for all j. After subtracting each row's largest a and
        each column's largest w, this is a matrix product.
        """
        transitions = self.transitions.astype(emissions.dtype)
        top = transitions.max(axis=0).detach()  # (K,)
        weights = paddle.exp(transitions - top)
        first, *others = paddle.unstack(emissions, axis=1)  # each (B, K)
        # The log of the sum over all prefixes that end with a label, (B, K).
        a = first + self.start.astype(emissions.dtype)
        is_longer = np.arange(1, len(others) + 1)[:, None] < lengths  # (T - 1, B)
        continues = to_tensor(is_longer[..., None])
        for k, emitted in enumerate(others):
            largest = a.max(axis=1, keepdim=True).detach()
            sums = paddle.log(paddle.matmul(paddle.exp(a - largest), weights)) + largest + top
            a = paddle.where(continues[k], sums + emitted, a)
        return paddle.logsumexp(a + self.stop.astype(emissions.dtype), axis=1)

    def decode(self, emissions: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
        """The best label ids of each sentence (length,), by the Viterbi algorithm."""
        transitions, start, stop = self.decoding_scores()
        return best_paths(
            emissions,
            transitions=transitions,
            start=start,
            stop=stop,
            lengths=lengths,
        )

    def decoding_scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Transitions (K, K), start and stop (K,), with the scores of what is forbidden."""
        transitions = self.transitions.numpy() + self.penalty[:-1]
        start = self.start.numpy() + self.penalty[-1]
        stop = self.stop.numpy() + self.last_penalty
        return transitions, start, stop

    def span_probabilities(
        self, emissions: np.ndarray, path: np.ndarray, spans: Sequence[tuple[int, int]]
    ) -> list[float]:
        """The probability of each span (begin, end) that its tokens have the labels of the path.

        Only label sequences that are not forbidden count.
        emissions (T, K) and path (T,) of one sentence.
        """
        in_float64 = [scores.astype(np.float64) for scores in self.decoding_scores()]
        transitions, start, stop = in_float64
        x = emissions.astype(np.float64)
        x[0] += start
        x[-1] += stop
        before = prefix_sums(x, transitions)
        after = prefix_sums(x[::-1], transitions.T)[::-1] - x
        total = np.logaddexp.reduce(before[-1])
        steps = transitions[path[:-1], path[1:]] + x[np.arange(1, len(path)), path[1:]]
        score = np.concatenate([[0], np.cumsum(steps)])  # of the path up to each token
        logs = []
        for begin, end in spans:
            to_first = before[begin, path[begin]]
            from_last = after[end - 1, path[end - 1]]
            logs.append(to_first + score[end - 1] - score[begin] + from_last - total)
        return np.exp(np.minimum(logs, 0)).tolist()


def prefix_sums(x: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """The logs (T, K) of the sums of exp(score) over all prefixes that end with a label at a token.

    x (T, K), transitions (K, K). The sums of each token are scaled to 1: products, not logs, of
    matrices are fast.
    """
    top = transitions.max(axis=0)  # (K,)
    weights = np.exp(transitions - top)
    gains = x + top
    gains[0] = x[0]
    scales = gains.max(axis=1)  # logs (T,)
    factors = np.exp(gains - scales[:, None])
    sums = np.empty_like(x)
    sums[0] = factors[0]
    for t in range(1, len(x)):
        row = (sums[t - 1] @ weights) * factors[t]
        total = row.sum() + SMALLEST
        sums[t] = row / total
        scales[t] += math.log(total)
    return np.log(np.maximum(sums, SMALLEST)) + np.cumsum(scales)[:, None]


def _penalty(is_forbidden: np.ndarray) -> np.ndarray:
    return np.where(is_forbidden, FORBIDDEN_SCORE, 0).astype(np.float32)
