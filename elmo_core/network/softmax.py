"""The language model's head: one table for both directions, sampled softmax in training, the full one in evaluation.

Letters: M places in the text, P projection, V vocabulary, S candidates.

Training predicts each place's word among S candidates instead of V words (Jean et al. 2015). The candidates are drawn
without repetition from the log-uniform distribution over the frequency-sorted vocabulary, and every logit is corrected
by the log of the count with which its word was to be expected. With all V words as candidates this is the full softmax.
The gradient reaches only the rows that were read: the cost does not grow with V.

Differences from bilm-tf: both directions share the candidates of a step, which halves the rows to read and to update.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from elmo_core.machine.products import amp_matmul
from elmo_core.machine.runtime import paddle, run_in_parallel, to_tensor
from elmo_core.network import fused
from elmo_core.network.row_gradients import read_rows

LOGITS_AT_ONCE = 2**22  # elements: what a slice of the logits may hold, so that it stays near the processor
REMOVED = -1e30  # the logit of an accidental hit


@dataclass
class Candidates:
    """Words that a step's predictions are chosen among, in rising order."""

    ids: np.ndarray  # (S,) int64
    vocab_size: int
    tries: int  # draws that it took; 0 for the whole vocabulary

    def log_expected_of(self, words: np.ndarray) -> np.ndarray:
        """Log of the counts with which the words (n,) were to be expected: float64 (n,)."""
        if not self.tries:
            return np.zeros(len(words))
        chances = -np.expm1(self.tries * np.log1p(-log_uniform(words, self.vocab_size)))  # to be among so many draws
        return np.log(chances)

    def places_of(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the words are themselves candidates, and where: the accidental hits."""
        place = np.minimum(np.searchsorted(self.ids, words), len(self.ids) - 1)
        (hit,) = np.nonzero(self.ids[place] == words)
        return hit, place[hit]


def log_uniform(words: np.ndarray, vocab_size: int) -> np.ndarray:
    """Probability of each word: P(k) = log((k + 2) / (k + 1)) / log(V + 1)."""
    return np.log1p(1 / (np.asarray(words, dtype=np.float64) + 1)) / np.log(vocab_size + 1)


def is_sampled(vocab_size: int, n: int) -> bool:
    """Whether n candidates are drawn: not where n is 0 or nearly all words, of which the last would take long to draw."""
    return 0 < 5 * n < 4 * vocab_size


def draw_candidates(vocab_size: int, n: int, random: np.random.Generator) -> Candidates:
    """n different words, log-uniform; or all words."""
    if not is_sampled(vocab_size, n):
        return Candidates(np.arange(vocab_size), vocab_size, tries=0)
    draws = np.zeros(0, dtype=np.int64)
    while True:
        uniform = random.random(max(2 * n, len(draws)))
        new = np.minimum(np.exp(uniform * np.log(vocab_size + 1)).astype(np.int64) - 1, vocab_size - 1)
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
        self.weight = self.create_parameter([vocab_size, projection_dim], default_initializer=normal)
        self.bias = self.create_parameter([vocab_size, 1], is_bias=True)

    def losses(self, directions, targets, candidates: Candidates) -> list[paddle.Tensor]:
        """Mean loss of each direction's predictions, the softmax being over the candidates and the target.

        directions: tensors (M, P); targets: for each (M,) word ids on the host.
        """
        words, n = np.concatenate(targets), len(candidates.ids)
        hit, place = candidates.places_of(words)
        others = np.ones(len(words), bool)
        others[hit] = False
        own, places = np.unique(words[others], return_inverse=True)
        ids = np.concatenate([candidates.ids, own])
        rows = np.empty(len(words), np.int64)  # of the targets, in what is read
        rows[hit], rows[others] = place, n + places.ravel()
        weight, bias = (read_rows(table, ids, shared=n) for table in (self.weight, self.bias))  # (S + own, P or 1)
        return list(_SampledLoss.apply(weight, bias, candidates, targets, rows, *directions))

    def log_probabilities(self, h: paddle.Tensor, targets: np.ndarray) -> np.ndarray:
        """Log-probability of each target under the full softmax, in slices of the vocabulary. (M,) float64"""
        with paddle.no_grad():
            vocab_size, _ = self.weight.shape
            columns = max(1, min(vocab_size, _at_once(h) // max(1, len(h))))
            highest = paddle.full([len(h), 1], -np.inf, h.dtype)
            total = paddle.zeros([len(h), 1], "float64")
            for a in range(0, vocab_size, columns):
                logits = paddle.matmul(h, self.weight[a : a + columns], transpose_y=True)
                logits.add_(self.bias[a : a + columns].reshape([1, -1]))
                new_highest, sums = _exponentials(logits, highest)
                total = total * (highest - new_highest).astype("float64").exp() + sums.astype("float64")
                highest = new_highest
            ids = to_tensor(targets)
            true = (h * paddle.gather(self.weight, ids)).sum(axis=1, keepdim=True) + paddle.gather(self.bias, ids)
            return ((true - highest).astype("float64") - total.log()).squeeze(1).numpy()

    def distributions(self, h: paddle.Tensor) -> np.ndarray:
        """Log-probabilities of all words after each of a few places: float64 (M, V)."""
        logits = (paddle.matmul(h, self.weight, transpose_y=True) + self.bias.reshape([1, -1])).astype("float64")
        return paddle.nn.functional.log_softmax(logits, axis=1).numpy()


class _SampledLoss(paddle.autograd.PyLayer):
    """The loss with its gradient made on the way, slice by slice: no (M, S) logits are ever kept."""

    @staticmethod
    def forward(ctx, weight, bias, candidates, targets, rows, *directions):
        n = len(candidates.ids)
        ctx.wanted = [not tensor.stop_gradient for tensor in (weight, bias, *directions)]
        log_expected = to_tensor(candidates.log_expected_of(candidates.ids)).astype(weight.dtype)
        table, table_bias = (weight[:n] if n < len(weight) else weight), bias[:n, 0] - log_expected  # (S, P), (S,)
        ctx.n_own, ctx.rows = len(weight) - n, to_tensor(rows)
        ends = np.cumsum([0, *map(len, targets)])
        true = [(paddle.gather(weight, ctx.rows[a:b]), paddle.gather(bias, ctx.rows[a:b])) for a, b in pairwise(ends)]
        tasks = [
            lambda h=h, words=words, rows=rows: _direction_loss(h, *rows, table, table_bias, words, candidates)
            for h, words, rows in zip(directions, targets, true, strict=True)
        ]
        results = run_in_parallel(tasks)
        ctx.gradients = [result[1:] for result in results]
        return tuple(result[0] for result in results)

    @staticmethod
    def backward(ctx, *upstream):
        pairs = zip(upstream, ctx.gradients, strict=True)
        scaled = [[gradient * scale for gradient in gradients] for scale, gradients in pairs]
        d_h, d_true_rows, d_true, d_table, d_bias = zip(*scaled, strict=True)

        def over_rows(of_candidates, of_targets):
            own = paddle.zeros([ctx.n_own, of_candidates.shape[1]], of_candidates.dtype)
            return paddle.concat([of_candidates, own]).index_add_(ctx.rows, 0, paddle.concat(of_targets))

        d_weight = over_rows(sum(d_table[1:], d_table[0]), d_true_rows)
        d_bias = over_rows(sum(d_bias[1:], d_bias[0]).unsqueeze(1), d_true)
        return tuple(d if want else None for d, want in zip((d_weight, d_bias, *d_h), ctx.wanted, strict=True))


def _direction_loss(h, true_weight, true_bias, table, bias, words: np.ndarray, candidates: Candidates):
    """Mean loss of one direction, and its gradients by h (M, P), by the targets' weights (M, P) and biases (M, 1), and by
    the candidates' table (S, P) and bias (S,).
    """
    with paddle.no_grad():
        log_expected = to_tensor(candidates.log_expected_of(words)).astype(h.dtype).unsqueeze(1)
        true = (h * true_weight).sum(axis=1, keepdim=True) + true_bias - log_expected  # (M, 1)
        over_candidates = _fused_loss if fused.is_supported(h) else _sliced_loss
        loss, d_h, d_true, d_table, d_bias = over_candidates(h, true, table, bias, *candidates.places_of(words))
        return loss, d_h + true_weight * d_true, h * d_true, d_true, d_table, d_bias


def _sliced_loss(h, true, table, bias, hit: np.ndarray, place: np.ndarray):
    """Mean loss over the candidates and each place's target, whose logits `true` (M, 1) gives, without accidental hits.

    Returns also the gradients by h, as far as it goes through the candidates, by `true`, by the table and by the bias.
    """
    step = max(1, _at_once(h) // len(table))
    loss, d_h, d_true, d_table, d_bias = 0, [], [], 0, 0
    for a in range(0, len(h), step):
        b = min(a + step, len(h))
        logits = paddle.matmul(h[a:b], table, transpose_y=True).add_(bias)  # (m, S), never in half precision
        here = slice(*np.searchsorted(hit, [a, b]))
        if here.start < here.stop:
            where = (to_tensor(hit[here] - a), to_tensor(place[here]))
            logits.index_put_(where, paddle.to_tensor(REMOVED, dtype=logits.dtype))
        highest, sums = _exponentials(logits, true[a:b])
        true_chance = (true[a:b] - highest).exp()
        total = sums + true_chance
        loss = loss + (total.log() + highest - true[a:b]).sum()
        weight = 1 / (total * len(h))  # (m, 1) of a place's loss in the mean, over the softmax's sum
        chances = logits.multiply_(weight)
        d_h.append(amp_matmul(chances, table))
        d_table = amp_matmul(chances, h[a:b], transpose_x=True) + d_table
        d_bias = chances.sum(0) + d_bias
        d_true.append(true_chance * weight - 1 / len(h))
    return loss / len(h), paddle.concat(d_h), paddle.concat(d_true), d_table, d_bias


def _at_once(h) -> int:
    """Elements of a slice of the logits: on a GPU 256 MB, so that few operators are launched."""
    return LOGITS_AT_ONCE if h.place.is_cpu_place() else 16 * LOGITS_AT_ONCE


def _fused_loss(h, true, table, bias, hit: np.ndarray, place: np.ndarray):
    """`_sliced_loss` by the compiled loop."""
    made = [paddle.empty_like(x) for x in (h, true, table, bias)]
    loss, (d_h, d_true, d_table, d_bias) = paddle.empty([], h.dtype), made
    given = h.contiguous(), table, bias, true, len(hit), hit, place
    fused.kernel().softmax_loss(len(h), *table.shape, *given, loss, d_h, d_table, d_bias, d_true)
    return loss, d_h, d_true, d_table, d_bias


def _exponentials(logits, highest):
    """Turn logits (m, S) into exp(logit - highest), with the largest of each row and of what `highest` (m, 1) gives.

    Returns that highest (m, 1) and the sum of each row (m, 1).
    """
    if not fused.is_supported(logits):
        highest = paddle.maximum(logits.max(axis=1, keepdim=True), highest)
        precise = "float64" if logits.place.is_cpu_place() else None  # of many small ones, which a CPU adds one by one
        sums = logits.subtract_(highest).exp_().sum(axis=1, keepdim=True, dtype=precise)
        return highest, sums.astype(logits.dtype)
    highest, sums = highest.clone(), paddle.empty_like(highest)
    fused.kernel().exp_minus_max(*logits.shape, logits, highest, sums)
    return highest, sums
