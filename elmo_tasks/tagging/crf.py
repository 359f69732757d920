"""The linear-chain CRF: exact loss in log space, decoding, and probabilities of spans."""

from collections.abc import Sequence

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_tasks.tagging.viterbi import best_paths

nn = paddle.nn

FORBIDDEN_SCORE = -1e4  # of a forbidden transition
LEARNING_RATE = 0.2  # as a share of the network's


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
        self.register_buffer("penalty", _penalty(forbidden), persistable=False)
        self.register_buffer("last_penalty", _penalty(forbidden_last), persistable=False)

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
        transitions = self.transitions + self.penalty[:-1]
        start = self.start + self.penalty[-1]
        stop = self.stop + self.last_penalty
        return transitions.numpy(), start.numpy(), stop.numpy()

    def span_probabilities(
        self, emissions: np.ndarray, path: np.ndarray, spans: Sequence[tuple[int, int]]
    ) -> list[float]:
        """The probability of each span (begin, end) that its tokens have the labels of the path.

        Only label sequences that are not forbidden count.
        emissions (T, K) and path (T,) of one sentence.
        """
        x = emissions.astype(np.float64)
        in_float64 = [scores.astype(np.float64) for scores in self.decoding_scores()]
        transitions, start, stop = in_float64
        # Each step's sums are products with these, scaled to at most 1.
        top = transitions.max(axis=0)  # of the transitions to each label, (K,)
        forward = np.exp(transitions - top)
        top_from = transitions.max(axis=1)  # of those from each label, (K,)
        backward = np.exp(transitions.T - top_from)
        # The log of the sum over all prefixes that end with a label at each token, each (K,).
        before = [x[0] + start]
        for emitted in x[1:]:
            before.append(_log_product(before[-1], forward) + top + emitted)
        # The same over all that can follow a label, from the last token to the first.
        after = [stop]
        for emitted in x[:0:-1]:
            after.append(_log_product(emitted + after[-1], backward) + top_from)
        total = np.logaddexp.reduce(before[-1] + stop)
        steps = transitions[path[:-1], path[1:]] + x[np.arange(1, len(path)), path[1:]]
        score = np.concatenate([[0], np.cumsum(steps)])  # of the path up to each token
        logs = []
        for begin, end in spans:
            to_first = before[begin][path[begin]]
            from_last = after[-end][path[end - 1]]
            logs.append(to_first + score[end - 1] - score[begin] + from_last - total)
        return np.exp(np.minimum(logs, 0)).tolist()


def _log_product(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the product of exp(logs) (K,) and weights (K, K)."""
    largest = logs.max()
    with np.errstate(divide="ignore"):  # log 0: no label leads to this one
        return np.log(np.exp(logs - largest) @ weights) + largest


def _penalty(is_forbidden: np.ndarray) -> paddle.Tensor:
    return to_tensor(np.where(is_forbidden, FORBIDDEN_SCORE, 0).astype(np.float32))
