"""The parts that exported networks share. Each takes its weights from the layer of the trained network that it stands for.

Letters: B sentences, T tokens of the longest, C characters of a token, N distinct tokens, F filters, H size of a recurrent
layer, K labels. D is the axis of the two directions, forward first.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from elmo import ScalarMix
from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import CharCNN
from elmo_tasks.tagging.crf import LinearChainCRF
from export.inputs import Sentences
from export.paddle_graph import Array, PaddleGraph

nn = paddle.nn
NEVER = -1e30  # the score of what cannot be


def linear(ops: PaddleGraph, x: Array, layer: nn.Linear) -> Array:
    return ops.matmul(x, ops.operand(layer.weight.numpy())) + ops.weight(layer.bias.numpy())


def embedding(ops: PaddleGraph, ids: Array, layer: nn.Embedding) -> Array:
    return ops.lookup(ops.weight(layer.weight.numpy()), ids)


def scalar_mix(layers: Sequence[Array], mix: ScalarMix) -> Array:
    scalars = mix.scalars.numpy()
    powers = np.exp(scalars - scalars.max())
    weights = mix.gamma.numpy() * powers / powers.sum()
    return reduce(operator.add, [layer * float(weight) for layer, weight in zip(layers, weights, strict=True)])


def char_vectors(ops: PaddleGraph, ids: Array, cnn: CharCNN, padding: int, beside: Sequence[Array] = ()) -> Array:
    """The vectors (N, P) of tokens whose characters are (N, C). beside: what is projected together with the features."""
    config = cnn.config
    columns, widest = config.max_characters, max(width for width, _ in config.filters)
    used = ops.cast(ids < padding, "int64") + ops.cast(ids >= padding + 1, "int64")
    used = ops.max(ops.max(used * ops.weight(np.arange(1, columns + 1)), axis=1), axis=0)
    ids = ops.head(ids, used + widest, axis=1)  # windows beyond it see padding alone: one is enough
    x = ops.transpose(embedding(ops, ids, cnn.embedding), [0, 2, 1])
    found = []
    for (width, number), convolution in zip(config.filters, cnn.convolutions, strict=True):
        filters = convolution.weight.numpy().reshape(width, -1, number).transpose(2, 1, 0)
        found.append(ops.max(ops.windows(x, ops.weight(filters)), axis=2))
    biases = [convolution.bias.numpy() for convolution in cnn.convolutions]
    x = ops.concat(found, axis=1) + ops.weight(np.concatenate(biases))
    x = ops.relu(x) if config.activation == "relu" else ops.tanh(x)
    for highway in cnn.highways:
        gate = ops.sigmoid(linear(ops, x, highway.carry))
        x = x + gate * (ops.relu(linear(ops, x, highway.transform)) - x)
    x = ops.concat([*beside, x], axis=1) if beside else x
    return linear(ops, x, cnn.projection) if isinstance(cnn.projection, nn.Linear) else x


def recurrent(batch: Sentences, x: Array, layers: nn.GRU | nn.LSTM) -> Array:
    """Bidirectional layers over x (B, T, .). (B, T, 2H)"""
    for number in range(layers.num_layers):
        x = _recurrent_layer(batch, x, layers, number)
    return x


def _recurrent_layer(batch: Sentences, x: Array, layers: nn.GRU | nn.LSTM, number: int) -> Array:
    ops, hidden = batch.ops, layers.hidden_size
    names = [f"{name}_l{number}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    both = [np.stack([getattr(layers, f"{name}{way}").numpy() for way in ("", "_reverse")]) for name in names]
    weight, recurrent, bias, recurrent_bias = both[0].swapaxes(1, 2), both[1].swapaxes(1, 2), *both[2:]
    recurrent = ops.operand(recurrent)
    if is_lstm := isinstance(layers, nn.LSTM):
        bias = bias + recurrent_bias
    else:
        recurrent_bias = ops.weight(recurrent_bias[:, None])

    def lstm(x: Array, h: Array, c: Array) -> tuple[Array, list[Array]]:
        i, f, j, o = ops.split(x + ops.matmul(h, recurrent), 4, axis=2)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(j)
        h = ops.sigmoid(o) * ops.tanh(c)
        return h, [h, c]

    def gru(x: Array, h: Array) -> tuple[Array, list[Array]]:
        x_r, x_z, x_c = ops.split(x, 3, axis=2)
        h_r, h_z, h_c = ops.split(ops.matmul(h, recurrent) + recurrent_bias, 3, axis=2)
        z, c = ops.sigmoid(x_z + h_z), ops.tanh(x_c + ops.sigmoid(x_r + h_r) * h_c)
        h = (h - c) * z + c
        return h, [h]

    rows = ops.reshape(x, [-1, weight.shape[1]])
    products, places = products_of_both(batch, rows, np.concatenate([weight, bias[:, None]], axis=1), batch.read)
    states = [ops.zeros([2, batch.rows, hidden], "float32") for _ in range(2 if is_lstm else 1)]
    return batch.in_order(run(ops, lstm if is_lstm else gru, states, products, places), hidden)


def products_of_both(batch: Sentences, x: Array, weight: np.ndarray, read: Array) -> tuple[Array, Array]:
    """The products (., width) of rows x (n, P) with both directions' weights (D, P + 1, width), and the places (D, T, B) of
    those whose rows are `read` (D, T, B). The last weights are the bias: a sum would take as long as the product.
    """
    ops = batch.ops
    products = ops.matmul(with_one(ops, x), ops.operand(np.concatenate(list(weight), axis=1)))
    return ops.reshape(products, [-1, weight.shape[2]]), read * 2 + batch.direction


def with_one(ops: PaddleGraph, x: Array) -> Array:
    """x (n, P) with a one behind each row, which the bias is multiplied by. (n, P + 1)"""
    return ops.concat([x, ops.zeros([ops.size(x, 0), 1], "float32") + 1.0], axis=1)


def run(ops: PaddleGraph, step: Callable, states: Sequence[Array], products: Array, places: Array) -> Array:
    """The outputs (D, T, B, .) of `step`, which takes the products (D, B, width) at the places (D, B), and states."""
    return ops.scan(lambda place, *before: step(ops.lookup(products, place), *before), states, places)[0]


def best_labels(batch: Sentences, emissions: Array, crf: LinearChainCRF) -> Array:
    """Viterbi's labels (B, T) for emissions (B, T, K): first the best label before each, then back from the last. Label K
    stands before the first token, and nowhere else.
    """
    ops, n = batch.ops, len(crf.stop) + 1
    scores = np.concatenate([crf.transitions.numpy(), crf.start.numpy()[None]]) + crf.penalty.numpy()
    transitions = np.full((n, n), NEVER, np.float32)
    transitions[:, :-1] = scores
    start, stop = np.full((2, n), NEVER, np.float32)
    start[-1], stop[:-1] = 0, crf.stop.numpy() + crf.last_penalty.numpy()
    transitions = ops.zeros([batch.rows, n, n], "float32") + ops.weight(transitions)
    each, row = ops.weight(np.arange(n)), ops.arange(batch.rows) * n

    def forward(x: Array, score: Array, left: Array) -> tuple[Array, list[Array]]:
        """x (B, K + 1), score (B, K + 1) of the best beginning that ends in each label, left (B, 1) tokens to come."""
        sums = ops.reshape(score, [-1, n, 1]) + transitions
        there = ops.cast(left >= 1, "int64")
        before = ops.argmax(sums, axis=1) * there + (1 - there) * each
        there = ops.cast(there, "float32")
        return before, [(ops.max(sums, axis=1) + x) * there + score * (1.0 - there), left - 1]

    def backward(before: Array, label: Array) -> tuple[Array, list[Array]]:
        return label, [ops.lookup(ops.reshape(before, [-1]), row + label)]

    score = ops.zeros([batch.rows, n], "float32") + ops.weight(start)
    x = ops.concat([emissions, ops.zeros([batch.rows, batch.steps, 1], "float32")], axis=2)
    before, (score, _) = ops.scan(forward, [score, ops.reshape(batch.lengths, [-1, 1])], x, dtype="int64")
    labels, _ = ops.scan(backward, [ops.argmax(score + ops.weight(stop), axis=1)], before, dtype="int64", reverse=True)
    return labels
