"""The language model's head: one table for both directions, sampled softmax in training, the full one in evaluation.

Letters: M places in the text, P projection, V vocabulary, S candidates.

Training predicts each place's word among S candidates instead of V words (Jean et al. 2015). The candidates are drawn
without repetition from the log-uniform distribution over the frequency-sorted vocabulary, and every logit is corrected
by the log of the count with which its word was to be expected. With all V words as candidates this is the full softmax.
The gradient reaches only the rows that were read: the cost does not grow with V.

Differences from bilm-tf: both directions share the candidates of a step, which halves the rows to read and to update.
"""

from dataclasses import dataclass

import numpy as np

from runtime import in_parallel, paddle, product

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
        return log_expected_count(words, self.tries, self.vocab_size) if self.tries else np.zeros(len(words))

    def places_of(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the words are themselves candidates, and where: the accidental hits."""
        place = np.minimum(np.searchsorted(self.ids, words), len(self.ids) - 1)
        (hit,) = np.nonzero(self.ids[place] == words)
        return hit, place[hit]


def log_uniform(words: np.ndarray, vocab_size: int) -> np.ndarray:
    """Probability of each word: P(k) = log((k + 2) / (k + 1)) / log(V + 1)."""
    return np.log1p(1 / (np.asarray(words, dtype=np.float64) + 1)) / np.log(vocab_size + 1)


def log_expected_count(words: np.ndarray, tries: int, vocab_size: int) -> np.ndarray:
    """Log of the chance that a word is among the distinct ones of so many draws."""
    return np.log(-np.expm1(tries * np.log1p(-log_uniform(words, vocab_size))))


def draw_candidates(vocab_size: int, n: int, random: np.random.Generator) -> Candidates:
    """n different words, log-uniform; all words where n is 0 or nearly all (to draw the last ones would take long)."""
    if n <= 0 or 5 * n >= 4 * vocab_size:
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
        embedding = paddle.nn.functional.embedding
        ids = paddle.to_tensor(np.concatenate([candidates.ids, *targets]))
        weight = embedding(ids, self.weight, sparse=True)  # (S + directions * M, P)
        bias = embedding(ids, self.bias, sparse=True)
        rows = paddle.concat([weight, bias], axis=1)  # the bias as one more column: it rides along in every product
        return list(_SampledLoss.apply(rows, candidates, targets, *directions))

    def log_probabilities(self, h: paddle.Tensor, targets: np.ndarray) -> np.ndarray:
        """Log-probability of each target under the full softmax, in slices of the vocabulary. (M,) float64"""
        with paddle.no_grad():
            vocab_size, _ = self.weight.shape
            columns = max(1, min(vocab_size, LOGITS_AT_ONCE // max(1, len(h))))
            highest = paddle.full([len(h), 1], -np.inf, h.dtype)
            total = paddle.zeros([len(h), 1], h.dtype)
            for a in range(0, vocab_size, columns):
                logits = product(h, self.weight[a : a + columns], transpose_y=True)
                logits.add_(self.bias[a : a + columns].reshape([1, -1]))
                new_highest = paddle.maximum(highest, logits.max(axis=1, keepdim=True))
                total = total * (highest - new_highest).exp() + logits.subtract_(new_highest).exp_().sum(
                    axis=1, keepdim=True
                )
                highest = new_highest
            ids = paddle.to_tensor(targets)
            true = (h * paddle.gather(self.weight, ids)).sum(axis=1, keepdim=True) + paddle.gather(self.bias, ids)
            return (true - highest - total.log()).squeeze(1).numpy().astype(np.float64)


class _SampledLoss(paddle.autograd.PyLayer):
    """The loss with its gradient made on the way, slice by slice: no (M, S) logits are ever kept."""

    @staticmethod
    def forward(ctx, rows, candidates, targets, *directions):
        n_candidates = len(candidates.ids)
        log_expected = paddle.to_tensor(candidates.log_expected_of(candidates.ids)).astype(rows.dtype)
        table = rows[:n_candidates].clone()  # (S, P + 1)
        table[:, -1] = table[:, -1] - log_expected
        ends = n_candidates + np.cumsum([0, *map(len, targets)])
        tasks = [
            lambda h=h, words=words, a=a, b=b: _direction_loss(h, rows[a:b], table, words, candidates)
            for h, words, a, b in zip(directions, targets, ends[:-1], ends[1:], strict=True)
        ]
        results = in_parallel(tasks)
        ctx.gradients = [result[1:] for result in results]
        return tuple(result[0] for result in results)

    @staticmethod
    def backward(ctx, *upstream):
        d_table, d_true, d_h = 0, [], []
        for scale, (h, true, table) in zip(upstream, ctx.gradients, strict=True):
            d_h.append(h * scale)
            d_true.append(true * scale)
            d_table = table * scale + d_table
        return paddle.concat([d_table, *d_true]), *d_h


def _direction_loss(h, true_rows, table, words: np.ndarray, candidates: Candidates):
    """Mean loss of one direction, and its gradients by h (M, P), the targets' rows (M, P + 1), the table (S, P + 1)."""
    with paddle.no_grad():
        one = paddle.ones([len(h), 1], h.dtype)
        h = paddle.concat([h, one], axis=1)  # (M, P + 1)
        log_expected = paddle.to_tensor(candidates.log_expected_of(words)).astype(h.dtype).unsqueeze(1)
        true = (h * true_rows).sum(axis=1, keepdim=True) - log_expected  # (M, 1)
        hit, place = candidates.places_of(words)
        step = max(1, LOGITS_AT_ONCE // len(table))
        loss, d_h, true_weights, d_table = 0, [], [], 0
        for a in range(0, len(h), step):
            b = min(a + step, len(h))
            logits = product(h[a:b], table, transpose_y=True)  # (m, S)
            here = slice(*np.searchsorted(hit, [a, b]))
            if here.start < here.stop:
                where = (paddle.to_tensor(hit[here] - a), paddle.to_tensor(place[here]))
                logits.index_put_(where, paddle.to_tensor(REMOVED, dtype=logits.dtype))
            highest = paddle.maximum(logits.max(axis=1, keepdim=True), true[a:b])
            chances = logits.subtract_(highest).exp_()
            true_chance = (true[a:b] - highest).exp()
            total = chances.sum(axis=1, keepdim=True) + true_chance
            loss = loss + (total.log() + highest - true[a:b]).sum()
            weight = 1 / (total * len(h))  # (m, 1) of a place's loss in the mean, over the softmax's sum
            d_h.append(product(chances, table).multiply_(weight))
            d_table = product(chances, h[a:b] * weight, transpose_x=True) + d_table
            true_weights.append(true_chance * weight - 1 / len(h))
        true_weights = paddle.concat(true_weights)  # (M, 1) gradient of the targets' logits
        d_h = paddle.concat(d_h) + true_rows * true_weights
        return loss / len(h), d_h[:, :-1], h * true_weights, d_table
