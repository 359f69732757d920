"""The language model's output layer: one table for both directions.

Sampled softmax in training, full in evaluation.

Shapes: M predictions, P projection size, V vocabulary size, S candidates.

Training scores each target against S sampled words instead of all V (Jean et al. 2015). Candidates
are drawn without replacement from a log-uniform distribution over the frequency-sorted vocabulary,
and the log of its expected count is subtracted from every logit. With all V words this is the full
softmax. Only rows that were read get a gradient: the cost does not grow with V.

Difference from bilm-tf: both directions share the candidates of a step, which halves the rows to
read and to update.

On a CPU, the compiled loops compute the same faster (elmo_core/kernels/cpu_softmax.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from elmo_core.kernels import cpu_softmax, fused
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
        # the expected count is the probability that a word is drawn at least once
        probabilities = -np.expm1(self.tries * np.log1p(-log_uniform(words, self.vocab_size)))
        dtype = str(like.dtype).removeprefix("paddle.")
        return to_tensor(np.log(probabilities).astype(dtype))

    def accidental_hits(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return indices of the words that are also candidates, and of those candidates."""
        candidates = np.minimum(np.searchsorted(self.ids, words), len(self.ids) - 1)
        (hits,) = np.nonzero(self.ids[candidates] == words)
        return hits, candidates[hits]


def log_uniform(words: np.ndarray, vocab_size: int) -> np.ndarray:
    """Return the probability of each word: P(k) = log((k + 2) / (k + 1)) / log(V + 1)."""
    return np.log1p(1 / (np.asarray(words, dtype=np.float64) + 1)) / np.log(vocab_size + 1)


def is_sampled(vocab_size: int, n: int) -> bool:
    """Decide whether to sample n candidates.

    Not if n is 0, or at least 80 % of the words: the last of them would take long to draw.
    """
    return 0 < 5 * n < 4 * vocab_size


def draw_candidates(vocab_size: int, n: int, random: np.random.Generator) -> Candidates:
    """Draw n distinct words, log-uniform; or return all words if `is_sampled` is false."""
    if not is_sampled(vocab_size, n):
        return Candidates(np.arange(vocab_size), vocab_size, tries=0)
    is_candidate = np.zeros(vocab_size, bool)
    number = np.empty(vocab_size, np.int32)  # of each word, where it was first among the last draws
    numbers = np.arange(n, dtype=np.int32)
    n_left = n
    tries = 0
    while n_left:
        draws = np.exp(random.random(n) * np.log(vocab_size + 1)).astype(np.int64) - 1
        draws = np.minimum(draws, vocab_size - 1)
        number[draws[::-1]] = numbers[::-1]  # the last assignment counts
        is_first = number[draws] == numbers
        found = np.flatnonzero(is_first & ~is_candidate[draws])[:n_left]
        is_candidate[draws[found]] = True
        n_left -= len(found)
        # the last turn ends with the draw that found the n-th distinct word
        tries += n if n_left else int(found[-1]) + 1
    return Candidates(np.flatnonzero(is_candidate), vocab_size, tries)


class Softmax(paddle.nn.Layer):
    """Logits of the vocabulary's words: h W^T + b, with weight (V, P) and bias (V, 1)."""

    def __init__(self, vocab_size: int, projection_dim: int):
        super().__init__()
        normal = paddle.nn.initializer.Normal(std=projection_dim**-0.5)
        self.weight = self.create_parameter(
            [vocab_size, projection_dim], default_initializer=normal
        )
        self.bias = self.create_parameter([vocab_size, 1], is_bias=True)

    def losses(
        self,
        directions: Sequence[paddle.Tensor],
        targets: Sequence[np.ndarray],
        candidates: Candidates,
    ) -> list[paddle.Tensor]:
        """Return the mean loss per direction, with a softmax over the candidates and the target.

        directions: hidden states (M, P); targets: NumPy word ids (M,) per direction.
        """
        ids, target_rows = _rows_to_read(candidates, np.concatenate(targets))
        index = row_index(ids)
        n_shared = len(candidates.ids)
        weight = gather_rows(self.weight, ids, index, shared=n_shared)
        bias = gather_rows(self.bias, ids, index, shared=n_shared)
        losses = SampledLoss.apply(weight, bias, candidates, targets, target_rows, *directions)
        return list(losses)

    def predictions(self, h: paddle.Tensor, targets: np.ndarray) -> np.ndarray:
        """Score the prediction of each target (M,) from h (M, P) under the full softmax.

        Returns the surprisal of the target, the entropy of the prediction, both in nats, and the
        target's rank, from 1: (3, M).
        """
        results = []
        with paddle.no_grad():
            rows = max(16, _logits_per_slice(h) // len(self.weight))
            for a in range(0, len(h), rows):
                part = targets[a : a + rows]
                results.append(self._predictions(h[a : a + rows], to_tensor(part)))
        return np.concatenate(results, axis=1)

    def _predictions(self, h: paddle.Tensor, targets: paddle.Tensor) -> np.ndarray:
        logits = paddle.matmul(h, self.weight, transpose_y=True)  # (m, V)
        if fused.is_supported(logits):
            return cpu_softmax.score_predictions(logits, self.bias, targets)
        logits.add_(self.bias.reshape([1, -1]))
        logits.subtract_(logits.max(axis=1, keepdim=True))
        target = paddle.take_along_axis(logits, targets.unsqueeze(1), axis=1)
        rank = 1 + (logits > target).sum(axis=1)
        exponentials = logits.exp()
        total = exponentials.sum(axis=1, dtype="float64")
        mean_logit = exponentials.multiply_(logits).sum(axis=1, dtype="float64") / total
        surprisal = total.log() - target.squeeze(1).astype("float64")
        entropy = total.log() - mean_logit
        return paddle.stack([surprisal, entropy, rank.astype("float64")]).numpy()

    def all_log_probabilities(self, h: paddle.Tensor) -> np.ndarray:
        """Return the log-probabilities of all words, float64 (M, V), for a few states h (M, P)."""
        logits = paddle.matmul(h, self.weight, transpose_y=True) + self.bias.reshape([1, -1])
        logits = logits.numpy().astype(np.float64)  # Paddle's log_softmax takes a second per row
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _rows_to_read(candidates: Candidates, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the ids of the candidates, then of the targets that are not among them: (S + extra,).

    Returns also the index of each target in this list (len(words),).
    """
    hit_rows, hit_candidates = candidates.accidental_hits(words)
    is_extra = np.ones(len(words), bool)
    is_extra[hit_rows] = False
    extra_ids, inverse = np.unique(words[is_extra], return_inverse=True)
    target_rows = np.empty(len(words), np.int64)
    target_rows[hit_rows] = hit_candidates
    target_rows[is_extra] = len(candidates.ids) + inverse.ravel()
    return np.concatenate([candidates.ids, extra_ids]), target_rows


class DirectionGradients(NamedTuple):
    """The gradients of one direction's mean loss."""

    h: paddle.Tensor  # (M, P)
    target_weight: paddle.Tensor  # (M, P), of each target's row of the table
    target_bias: paddle.Tensor  # (M, 1)
    table: paddle.Tensor  # (S, P), of the candidates' rows
    table_bias: paddle.Tensor  # (S,)

    def scaled(self, factor: paddle.Tensor) -> "DirectionGradients":
        return DirectionGradients(*[gradient * factor for gradient in self])


class SampledLoss(paddle.autograd.PyLayer):
    """The mean loss of each direction, from the rows of the table that `_rows_to_read` lists.

    Computes the loss and its gradient together, slice by slice: the (M, S) logits are never stored
    in full.
    """

    @staticmethod
    def forward(ctx, weight, bias, candidates, targets, target_rows, *directions):
        n = len(candidates.ids)
        ctx.needs_grad = [not tensor.stop_gradient for tensor in (weight, bias, *directions)]
        ctx.n_extra = len(weight) - n
        ctx.target_rows = to_tensor(target_rows)
        log_expected = candidates.log_expected_counts(candidates.ids, weight)
        table = weight[:n] if n < len(weight) else weight  # (S, P)
        table_bias = bias[:n, 0] - log_expected  # (S,)
        tasks = []
        begin = 0
        for h, words in zip(directions, targets, strict=True):
            rows = ctx.target_rows[begin : begin + len(words)]
            begin += len(words)
            task = partial(
                _direction_loss,
                h,
                target_weight=paddle.gather(weight, rows),
                target_bias=paddle.gather(bias, rows),
                table=table,
                table_bias=table_bias,
                words=words,
                candidates=candidates,
            )
            tasks.append(task)
        results = run_in_parallel(tasks)
        ctx.gradients = [gradients for _, gradients in results]
        return tuple(loss for loss, _ in results)

    @staticmethod
    def backward(ctx, *d_losses):
        directions = [
            gradients.scaled(d_loss)
            for gradients, d_loss in zip(ctx.gradients, d_losses, strict=True)
        ]
        d_table = _sum([d.table for d in directions])
        d_table_bias = _sum([d.table_bias for d in directions]).unsqueeze(1)
        d_weight = _all_rows(ctx, d_table, [d.target_weight for d in directions])
        d_bias = _all_rows(ctx, d_table_bias, [d.target_bias for d in directions])
        gradients = [d_weight, d_bias, *[d.h for d in directions]]
        return tuple(
            gradient if needed else None
            for gradient, needed in zip(gradients, ctx.needs_grad, strict=True)
        )


def _sum(tensors: list[paddle.Tensor]) -> paddle.Tensor:
    return sum(tensors[1:], tensors[0])


def _all_rows(ctx, d_candidates: paddle.Tensor, d_targets: list[paddle.Tensor]) -> paddle.Tensor:
    """Return the gradient of all rows that were read (S + extra, width).

    It is that of the candidates (S, width) plus those of the targets (M, width) per direction,
    added at their rows.
    """
    extra = paddle.zeros([ctx.n_extra, d_candidates.shape[1]], d_candidates.dtype)
    rows = paddle.concat([d_candidates, extra])
    return rows.index_add_(ctx.target_rows, 0, paddle.concat(d_targets))


def _direction_loss(
    h: paddle.Tensor,
    target_weight: paddle.Tensor,
    target_bias: paddle.Tensor,
    table: paddle.Tensor,
    table_bias: paddle.Tensor,
    words: np.ndarray,
    candidates: Candidates,
) -> tuple[paddle.Tensor, DirectionGradients]:
    """Compute the mean loss of one direction, and its gradients.

    The shapes are those of DirectionGradients; words: the targets (M,).
    """
    with paddle.no_grad():
        log_expected = candidates.log_expected_counts(words, h).unsqueeze(1)
        target_products = (h * target_weight).sum(axis=1, keepdim=True)
        target_logits = target_products + target_bias - log_expected  # (M, 1)
        hit_rows, hit_candidates = candidates.accidental_hits(words)
        on_cpu = fused.is_supported(h)
        compute = cpu_softmax.candidate_loss if on_cpu else candidate_loss
        loss, d_h, d_target_logits, d_table, d_bias = compute(
            h,
            target_logits=target_logits,
            table=table,
            bias=table_bias,
            hit_rows=hit_rows,
            hit_candidates=hit_candidates,
        )
        gradients = DirectionGradients(
            h=d_h + target_weight * d_target_logits,
            target_weight=h * d_target_logits,
            target_bias=d_target_logits,
            table=d_table,
            table_bias=d_bias,
        )
        return loss, gradients


def candidate_loss(
    h: paddle.Tensor,
    target_logits: paddle.Tensor,
    table: paddle.Tensor,
    bias: paddle.Tensor,
    hit_rows: np.ndarray,
    hit_candidates: np.ndarray,
) -> tuple[paddle.Tensor, ...]:
    """Return the mean loss over the candidates and the targets, whose logits (M, 1) are given.

    h: (M, P). table, bias: of the candidates, (S, P) and (S,). Accidental hits, the predictions
    `hit_rows` of the words `hit_candidates`, are masked.
    Also returns the gradients with respect to h (through the candidates only), target_logits, table
    and bias.
    """
    step = max(1, _logits_per_slice(h) // len(table))
    loss = 0
    d_h = []
    d_target_logits = []
    d_table = 0
    d_bias = 0
    for a in range(0, len(h), step):
        b = min(a + step, len(h))
        logits = paddle.matmul(h[a:b], table, transpose_y=True)  # (m, S), never in half precision
        logits.add_(bias)
        first, last = np.searchsorted(hit_rows, [a, b])
        if first < last:
            masked_rows = to_tensor(hit_rows[first:last] - a)
            masked_candidates = to_tensor(hit_candidates[first:last])
            value = paddle.full([], MASKED_LOGIT, logits.dtype)
            logits.index_put_((masked_rows, masked_candidates), value)
        row_max = paddle.maximum(logits.max(axis=1, keepdim=True), target_logits[a:b])
        exponentials = logits.subtract_(row_max).exp_()
        # in float64 on a CPU, which adds one by one
        dtype = "float64" if logits.place.is_cpu_place() else None
        sums = exponentials.sum(axis=1, keepdim=True, dtype=dtype).astype(logits.dtype)
        target_exp = (target_logits[a:b] - row_max).exp()
        total = sums + target_exp
        loss = loss + (total.log() + row_max - target_logits[a:b]).sum()
        weight = 1 / (total * len(h))  # (m, 1) scales exponentials to the mean loss's gradient
        d_logits = exponentials.multiply_(weight)
        d_h.append(amp_matmul(d_logits, table))
        d_table = amp_matmul(d_logits, h[a:b], transpose_x=True) + d_table
        d_bias = d_logits.sum(0) + d_bias
        d_target_logits.append(target_exp * weight - 1 / len(h))
    return loss / len(h), paddle.concat(d_h), paddle.concat(d_target_logits), d_table, d_bias


def _logits_per_slice(h: paddle.Tensor) -> int:
    """Return the elements per slice of logits; 256 MB on a GPU, for fewer launches."""
    return LOGITS_PER_SLICE if h.place.is_cpu_place() else 16 * LOGITS_PER_SLICE
