"""The linear-chain CRF: exact loss in log space, and decoding."""

from collections.abc import Callable

import numpy as np

from elmo_core.machine.runtime import paddle

nn = paddle.nn

IMPOSSIBLE = -1e4  # the score of an impossible transition
TINY = 1e-250  # a float64 sum below it may have lost digits


class LinearChainCRF(nn.Layer):
    """Scores a labelling by its emissions, its transitions, and the labels it starts and stops with.

    Letters: B sentences, T steps, K labels. Emissions beyond a sentence's length are not used.
    impossible: (K + 1, K), whether label j cannot follow label i, or, in the last row, come first; for decoding only.
    impossible_last: (K,), whether it cannot come last.
    learning_rate: of the scores, times the optimizer's.
    """

    def __init__(self, impossible: np.ndarray, impossible_last: np.ndarray, learning_rate: float = 1.0):
        super().__init__()
        n_labels = len(impossible_last)
        attribute = paddle.ParamAttr(initializer=nn.initializer.Uniform(-0.1, 0.1), learning_rate=learning_rate)
        self.transitions = self.create_parameter([n_labels, n_labels], attr=attribute)  # from row to column
        self.start = self.create_parameter([n_labels], attr=attribute)
        self.stop = self.create_parameter([n_labels], attr=attribute)
        for name, where in (("penalty", impossible), ("last_penalty", impossible_last)):
            penalty = paddle.to_tensor(np.where(where, IMPOSSIBLE, 0).astype(np.float32))
            self.register_buffer(name, penalty, persistable=False)

    def forward(self, emissions: paddle.Tensor, labels: np.ndarray, lengths: np.ndarray) -> paddle.Tensor:
        """Minus the log-probability of every sentence's labels, (B,). emissions (B, T, K), labels (B, T), lengths (B,)."""
        emissions = emissions.astype("float64")
        return self.log_partition(emissions, lengths) - self.scores(emissions, labels, lengths)

    def scores(self, emissions: paddle.Tensor, labels: np.ndarray, lengths: np.ndarray) -> paddle.Tensor:
        """The score of every sentence's labels, (B,)."""
        n_rows, n_steps, n_labels = emissions.shape
        before = np.concatenate([np.full((n_rows, 1), n_labels), labels[:, :-1]], axis=1)
        table = paddle.concat([self.transitions, self.start.unsqueeze(0)])  # (K + 1, K)
        passed = paddle.gather(table.reshape([-1]), paddle.to_tensor((before * n_labels + labels).ravel()))
        emitted = paddle.take_along_axis(emissions, paddle.to_tensor(labels).unsqueeze(-1), axis=2)
        score = emitted.squeeze(-1) + passed.reshape([n_rows, n_steps]).astype(emissions.dtype)  # (B, T)
        there = paddle.to_tensor(np.arange(n_steps) < lengths[:, None])
        last = paddle.to_tensor(labels[np.arange(n_rows), lengths - 1])
        score = paddle.where(there, score, paddle.zeros_like(score)).sum(axis=1)
        return score + paddle.gather(self.stop, last).astype(emissions.dtype)

    def log_partition(self, emissions: paddle.Tensor, lengths: np.ndarray) -> paddle.Tensor:
        """The log of the sum of exp(score) over all labellings, (B,).

        A step adds up exp(a_i + w_ij) over i for all j. With each row's largest a and each column's largest w subtracted,
        that is a product of matrices. Where even float64 is too narrow for what remains, logsumexp over i takes over.
        """
        transitions = self.transitions.astype(emissions.dtype)
        top = transitions.max(axis=0).detach()  # (K,)
        weights = paddle.exp(transitions - top)
        fits = []  # whether float64 was wide enough at each step; read once at the end: a GPU would wait each time

        def by_product(a: paddle.Tensor) -> paddle.Tensor:
            largest = a.max(axis=1, keepdim=True).detach()
            sums = paddle.matmul(paddle.exp(a - largest), weights)
            fits.append((sums > TINY).all())
            return paddle.log(sums) + largest + top

        total = self._forward_pass(emissions, lengths, by_product)
        if fits and not bool(paddle.stack(fits).all()):
            total = self._forward_pass(
                emissions, lengths, lambda a: paddle.logsumexp(a.unsqueeze(2) + transitions, axis=1)
            )
        return total

    def _forward_pass(self, emissions: paddle.Tensor, lengths: np.ndarray, step: Callable) -> paddle.Tensor:
        """`log_partition`; `step` sums over the previous labels, (B, K) logarithms from (B, K) logarithms."""
        first, *others = paddle.unstack(emissions, axis=1)
        a = first + self.start.astype(emissions.dtype)  # (B, K) log of the sum over beginnings that end in a label
        goes_on = paddle.to_tensor((np.arange(1, len(others) + 1)[:, None] < lengths)[..., None])  # (T - 1, B, 1)
        for k, emitted in enumerate(others):
            a = paddle.where(goes_on[k], step(a) + emitted, a)
        return paddle.logsumexp(a + self.stop.astype(emissions.dtype), axis=1)

    def decode(self, emissions: paddle.Tensor, lengths: np.ndarray) -> list[np.ndarray]:
        """The best labels of every sentence, each of its own length, by Viterbi's algorithm on the host."""
        x = emissions.detach().numpy()
        transitions = (self.transitions + self.penalty[:-1]).numpy()
        start, stop = (self.start + self.penalty[-1]).numpy(), (self.stop + self.last_penalty).numpy()
        scores, before = x[:, 0] + start, []  # (B, K): of the best beginning that ends in each label
        ends = [scores + stop]
        for t in range(1, x.shape[1]):
            sums = scores[:, None] + transitions.T  # (B, K, K): to each label, from each
            before.append(sums.argmax(axis=2))
            scores = sums.max(axis=2) + x[:, t]
            ends.append(scores + stop)
        paths = []
        for row, length in enumerate(lengths.tolist()):
            path = [int(ends[length - 1][row].argmax())]
            for step in reversed(before[: length - 1]):
                path.append(step[row, path[-1]])
            paths.append(np.array(path[::-1], np.int64))
        return paths
