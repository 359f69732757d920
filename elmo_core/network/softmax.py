"""The language model's output layer: one table for both directions, sampled softmax in training, full in evaluation.

Shapes: M predictions, P projection size, V vocabulary size, S candidates.

Training scores each target against S sampled words instead of all V (Jean et al. 2015). Candidates are drawn without
replacement from a log-uniform distribution over the frequency-sorted vocabulary, and the log of its expected count is
subtracted from every logit. With all V words this is the full softmax. Only rows that were read get a gradient: the cost
does not grow with V.

Difference from bilm-tf: both directions share the candidates of a step, which halves the rows to read and to update.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from elmo_core.kernels import fused
from elmo_core.kernels.matmul import amp_matmul
from elmo_core.kernels.row_gradients import gather_rows, row_index
from elmo_core.machine.runtime import paddle, run_in_parallel, to_tensor

LOGITS_PER_SLICE = 2**22  # elements per slice of logits, small enough for the cache
MASKED_LOGIT = -1e30  # the logit of an accidental hit


@dataclass
class Candidates:
    """The candidate words of a step, in ascending order."""

    ids: np.ndarray  # (S,) int64
    vocab_size: int
    tries: int  # draws it took to find them; 0: the whole vocabulary

    def log_expected_counts(self, words: np.ndarray, like: paddle.Tensor) -> paddle.Tensor:
        """Return the log of the expected counts of words (n,), in the dtype of another tensor."""
        if not self.tries:
            return paddle.zeros([len(words)], like.dtype)
        probabilities = -np.expm1(
            self.tries * np.log1p(-log_uniform(words, self.vocab_size))
        )  # drawn at least once
        return to_tensor(np.log(probabilities).astype(str(like.dtype).removeprefix("paddle.")))

    def accidental_hits(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return indices of the words that are also candidates, and of those candidates."""
        candidates = np.minimum(np.searchsorted(self.ids, words), len(self.ids) - 1)
        (hits,) = np.nonzero(self.ids[candidates] == words)
        return hits, candidates[hits]


def log_uniform(words: np.ndarray, vocab_size: int) -> np.ndarray:
    """Return the probability of each word: P(k) = log((k + 2) / (k + 1)) / log(V + 1)."""
    return np.log1p(1 / (np.asarray(words, dtype=np.float64) + 1)) / np.log(vocab_size + 1)


def is_sampled(vocab_size: int, n: int) -> bool:
    """Decide whether to sample n candidates: not if n is 0 or at least 80 % of the words: the last take long to draw."""
    return 0 < 5 * n < 4 * vocab_size


def draw_candidates(vocab_size: int, n: int, random: np.random.Generator) -> Candidates:
    """Draw n distinct words, log-uniform; or return all words if `is_sampled` is false."""
    if not is_sampled(vocab_size, n):
        return Candidates(np.arange(vocab_size), vocab_size, tries=0)
    draws = np.zeros(0, dtype=np.int64)
    while True:
        uniform = random.random(max(2 * n, len(draws)))
        new = np.minimum(
            np.exp(uniform * np.log(vocab_size + 1)).astype(np.int64) - 1, vocab_size - 1
        )
        draws = np.concatenate([draws, new])
        ids, first = np.unique(draws, return_index=True)
        if len(ids) >= n:
            break
    tries = int(np.partition(first, n - 1)[n - 1]) + 1
    return Candidates(ids[first < tries], vocab_size, tries)


class Softmax(paddle.nn.Layer):
    """Logits of the vocabulary's words: h W^T + b, with weight (V, P) and bias (V, 1)."""

    def __init__(self, vocab_size: int, projection_dim: int):
        super().__init__()
        normal = paddle.nn.initializer.Normal(std=projection_dim**-0.5)
        self.weight = self.create_parameter(
            [vocab_size, projection_dim], default_initializer=normal
        )
        self.bias = self.create_parameter([vocab_size, 1], is_bias=True)

    def losses(self, directions, targets, candidates: Candidates) -> list[paddle.Tensor]:
        """Return the mean loss per direction, with a softmax over the candidates and the target.

        directions: tensors (M, P); targets: NumPy word ids (M,) per direction.
        """
        ids, target_rows = _rows_to_read(candidates, np.concatenate(targets))
        rows = ids, row_index(ids), len(candidates.ids)
        weight, bias = (gather_rows(table, *rows) for table in (self.weight, self.bias))
        return list(SampledLoss.apply(weight, bias, candidates, targets, target_rows, *directions))

    def predictions(self, h: paddle.Tensor, targets: np.ndarray) -> np.ndarray:
        """Under the full softmax: surprisal of each target, entropy of its prediction, both in nats, rank from 1. (3, M)"""
        with paddle.no_grad():
            rows = max(16, _logits_per_slice(h) // len(self.weight))
            slices = [slice(a, a + rows) for a in range(0, len(h), rows)]
            return np.concatenate(
                [self._predictions(h[part], to_tensor(targets[part])) for part in slices], axis=1
            )

    def _predictions(self, h: paddle.Tensor, targets: paddle.Tensor) -> np.ndarray:
        logits = paddle.matmul(h, self.weight, transpose_y=True)  # (m, V)
        if fused.is_supported(logits):
            results = np.empty((3, len(logits)), np.float32)
            fused.kernel().score_predictions(*logits.shape, logits, self.bias, targets, *results)
            return results
        logits.add_(self.bias.reshape([1, -1]))
        logits.subtract_(logits.max(axis=1, keepdim=True))
        target = paddle.take_along_axis(logits, targets.unsqueeze(1), axis=1)
        rank = 1 + (logits > target).sum(axis=1)
        exponentials = logits.exp()
        total = exponentials.sum(axis=1, dtype="float64")
        mean_logit = exponentials.multiply_(logits).sum(axis=1, dtype="float64") / total
        target = target.squeeze(1).astype("float64")
        return paddle.stack(
            [total.log() - target, total.log() - mean_logit, rank.astype("float64")]
        ).numpy()

    def all_log_probabilities(self, h: paddle.Tensor) -> np.ndarray:
        """Return the log-probabilities of all words for a few hidden states h (M, P): float64 (M, V)."""
        logits = (
            paddle.matmul(h, self.weight, transpose_y=True) + self.bias.reshape([1, -1])
        ).astype("float64")
        return paddle.nn.functional.log_softmax(logits, axis=1).numpy()


def _rows_to_read(candidates: Candidates, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the ids (S + extra,) of the candidates, then of targets not among them; and each target's index there."""
    hit_rows, hit_candidates = candidates.accidental_hits(words)
    is_extra = np.ones(len(words), bool)
    is_extra[hit_rows] = False
    extra_ids, inverse = np.unique(words[is_extra], return_inverse=True)
    target_rows = np.empty(len(words), np.int64)
    target_rows[hit_rows], target_rows[is_extra] = (
        hit_candidates,
        len(candidates.ids) + inverse.ravel(),
    )
    return np.concatenate([candidates.ids, extra_ids]), target_rows


class SampledLoss(paddle.autograd.PyLayer):
    """Computes the loss and its gradient together, slice by slice: the (M, S) logits are never stored in full."""

    @staticmethod
    def forward(ctx, weight, bias, candidates, targets, target_rows, *directions):
        n = len(candidates.ids)
        ctx.needs_grad = [not tensor.stop_gradient for tensor in (weight, bias, *directions)]
        ctx.n_extra, ctx.target_rows = len(weight) - n, to_tensor(target_rows)
        log_expected = candidates.log_expected_counts(candidates.ids, weight)
        table, table_bias = (
            (weight[:n] if n < len(weight) else weight),
            bias[:n, 0] - log_expected,
        )  # (S, P), (S,)
        tasks = []
        for h, words, (a, b) in zip(
            directions, targets, pairwise(np.cumsum([0, *map(len, targets)])), strict=True
        ):
            rows = ctx.target_rows[a:b]
            target = paddle.gather(weight, rows), paddle.gather(bias, rows)
            tasks.append(partial(_direction_loss, h, *target, table, table_bias, words, candidates))
        results = run_in_parallel(tasks)
        ctx.gradients = [gradients for _, *gradients in results]
        return tuple(loss for loss, *_ in results)

    @staticmethod
    def backward(ctx, *d_losses):
        pairs = zip(d_losses, ctx.gradients, strict=True)
        scaled = [[gradient * scale for gradient in gradients] for scale, gradients in pairs]
        d_h, d_target_weight, d_target_bias, d_table, d_table_bias = zip(*scaled, strict=True)

        def scatter_rows(d_candidates, d_targets):
            extra = paddle.zeros([ctx.n_extra, d_candidates.shape[1]], d_candidates.dtype)
            return paddle.concat([d_candidates, extra]).index_add_(
                ctx.target_rows, 0, paddle.concat(d_targets)
            )

        d_weight = scatter_rows(sum(d_table[1:], d_table[0]), d_target_weight)
        d_bias = scatter_rows(sum(d_table_bias[1:], d_table_bias[0]).unsqueeze(1), d_target_bias)
        return tuple(
            d if needed else None
            for d, needed in zip((d_weight, d_bias, *d_h), ctx.needs_grad, strict=True)
        )


def _direction_loss(
    h, target_weight, target_bias, table, bias, words: np.ndarray, candidates: Candidates
):
    """Compute the mean loss of one direction, and its gradients with respect to h (M, P), the targets' weights (M, P) and
    biases (M, 1), and the candidates' table (S, P) and bias (S,).
    """
    with paddle.no_grad():
        log_expected = candidates.log_expected_counts(words, h).unsqueeze(1)
        target_logits = (
            (h * target_weight).sum(axis=1, keepdim=True) + target_bias - log_expected
        )  # (M, 1)
        compute = _fused_loss if fused.is_supported(h) else _sliced_loss
        hits = candidates.accidental_hits(words)
        loss, d_h, d_target, d_table, d_bias = compute(h, target_logits, table, bias, *hits)
        return loss, d_h + target_weight * d_target, h * d_target, d_target, d_table, d_bias


def _sliced_loss(h, target_logits, table, bias, hit_rows: np.ndarray, hit_candidates: np.ndarray):
    """Return the mean loss over the candidates and the targets, whose logits (M, 1) are given, with accidental hits masked.

    Also returns the gradients with respect to h (through the candidates only), target_logits, table and bias.
    """
    step = max(1, _logits_per_slice(h) // len(table))
    loss, d_h, d_target, d_table, d_bias = 0, [], [], 0, 0
    for a in range(0, len(h), step):
        b = min(a + step, len(h))
        logits = paddle.matmul(h[a:b], table, transpose_y=True).add_(
            bias
        )  # (m, S), never in half precision
        first, last = np.searchsorted(hit_rows, [a, b])
        if first < last:
            masked = to_tensor(hit_rows[first:last] - a), to_tensor(hit_candidates[first:last])
            logits.index_put_(masked, paddle.full([], MASKED_LOGIT, logits.dtype))
        row_max = paddle.maximum(logits.max(axis=1, keepdim=True), target_logits[a:b])
        dtype = "float64" if logits.place.is_cpu_place() else None  # a CPU adds one by one
        sums = (
            logits.subtract_(row_max)
            .exp_()
            .sum(axis=1, keepdim=True, dtype=dtype)
            .astype(logits.dtype)
        )
        target_exp = (target_logits[a:b] - row_max).exp()
        total = sums + target_exp
        loss = loss + (total.log() + row_max - target_logits[a:b]).sum()
        weight = 1 / (total * len(h))  # (m, 1) scales exponentials to the mean loss's gradient
        d_logits = logits.multiply_(weight)
        d_h.append(amp_matmul(d_logits, table))
        d_table = amp_matmul(d_logits, h[a:b], transpose_x=True) + d_table
        d_bias = d_logits.sum(0) + d_bias
        d_target.append(target_exp * weight - 1 / len(h))
    return loss / len(h), paddle.concat(d_h), paddle.concat(d_target), d_table, d_bias


def _logits_per_slice(h) -> int:
    """Return elements per slice of logits; 256 MB on a GPU, for fewer launches."""
    return LOGITS_PER_SLICE if h.place.is_cpu_place() else 16 * LOGITS_PER_SLICE


def _fused_loss(h, target_logits, table, bias, hit_rows: np.ndarray, hit_candidates: np.ndarray):
    """`_sliced_loss` by the compiled loop."""
    d_h, d_target, d_table, d_bias = (paddle.empty_like(x) for x in (h, target_logits, table, bias))
    loss = paddle.empty([], h.dtype)
    inputs = h.contiguous(), table, bias, target_logits, len(hit_rows), hit_rows, hit_candidates
    fused.kernel().softmax_loss(len(h), *table.shape, *inputs, loss, d_h, d_table, d_bias, d_target)
    return loss, d_h, d_target, d_table, d_bias
