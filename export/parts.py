"""Parts of exported networks. Each takes its weights from a layer of the trained network.

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
from elmo_tasks.classification import heads
from elmo_tasks.tagging.crf import LinearChainCRF
from export.inputs import Sentences
from export.paddle_graph import Array, PaddleGraph

nn = paddle.nn
IMPOSSIBLE = -1e30  # score


def linear(ops: PaddleGraph, x: Array, layer: nn.Linear) -> Array:
    x = ops.matmul(x, ops.operand(layer.weight.numpy()))
    return x if layer.bias is None else x + ops.weight(layer.bias.numpy())


def embedding(ops: PaddleGraph, ids: Array, layer: nn.Embedding) -> Array:
    return ops.lookup(ops.weight(layer.weight.numpy()), ids)


def scalar_mix(layers: Sequence[Array], mix: ScalarMix) -> Array:
    scalars = mix.scalars.numpy()
    powers = np.exp(scalars - scalars.max())
    weights = mix.gamma.numpy() * powers / powers.sum()
    return reduce(operator.add, [layer * float(weight) for layer, weight in zip(layers, weights, strict=True)])


def char_vectors(ops: PaddleGraph, ids: Array, cnn: CharCNN, padding: int, words: Sequence[Array] = ()) -> Array:
    """Vectors (N, P) of tokens with the characters ids (N, C). words: vectors to project together with the features."""
    config = cnn.config
    columns, widest = config.max_characters, max(width for width, _ in config.filters)
    is_character = ops.cast(ids < padding, "int64") + ops.cast(ids >= padding + 1, "int64")
    used = ops.max(ops.max(is_character * ops.weight(np.arange(1, columns + 1)), axis=1), axis=0)
    ids = ops.head(ids, used + widest, axis=1)  # one window of nothing but padding is enough
    x = ops.transpose(embedding(ops, ids, cnn.embedding), [0, 2, 1])
    features = []
    for (width, _), convolution in zip(config.filters, cnn.convolutions, strict=True):
        features.append(ops.max(windows(ops, x, convolution, width), axis=2))
    biases = [convolution.bias.numpy() for convolution in cnn.convolutions]
    x = ops.concat(features, axis=1) + ops.weight(np.concatenate(biases))
    x = ops.relu(x) if config.activation == "relu" else ops.tanh(x)
    for highway in cnn.highways:
        gate = ops.sigmoid(linear(ops, x, highway.carry))
        x = x + gate * (ops.relu(linear(ops, x, highway.transform)) - x)
    x = ops.concat([*words, x], axis=1) if words else x
    return linear(ops, x, cnn.projection) if isinstance(cnn.projection, nn.Linear) else x


def windows(ops: PaddleGraph, x: Array, layer: nn.Linear, width: int) -> Array:
    """Apply the layer, without its bias, to each `width` columns of x (N, D, C). (N, F, C - width + 1)"""
    weight = layer.weight.numpy()
    return ops.windows(x, ops.weight(weight.reshape(width, -1, weight.shape[1]).transpose(2, 1, 0)))


def recurrent(batch: Sentences, x: Array, layers: nn.GRU | nn.LSTM) -> Array:
    """Bidirectional layers over x (B, T, .). (B, T, 2H)"""
    for layer in range(layers.num_layers):
        x = _recurrent_layer(batch, x, layers, layer)
    return x


def _recurrent_layer(batch: Sentences, x: Array, layers: nn.GRU | nn.LSTM, layer: int) -> Array:
    ops, hidden = batch.ops, layers.hidden_size
    names = [f"{name}_l{layer}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    weights = [np.stack([getattr(layers, f"{name}{side}").numpy() for side in ("", "_reverse")]) for name in names]
    weight, recurrent, bias, recurrent_bias = weights[0].swapaxes(1, 2), weights[1].swapaxes(1, 2), *weights[2:]
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
    products, indices = input_products(batch, rows, np.concatenate([weight, bias[:, None]], axis=1), batch.input_index)
    states = [ops.zeros([2, batch.rows, hidden], "float32") for _ in range(2 if is_lstm else 1)]
    return batch.align_outputs(run(ops, lstm if is_lstm else gru, states, products, indices), hidden)


def input_products(batch: Sentences, x: Array, weight: np.ndarray, rows: Array) -> tuple[Array, Array]:
    """Products (., width) of x (n, P) with both directions' weights (D, P + 1, width), and the indices (D, T, B) of those
    for the given rows (D, T, B) of x. The last row of the weights is the bias: adding it would take as long as the product.
    """
    ops = batch.ops
    products = ops.matmul(append_ones(ops, x), ops.operand(np.concatenate(list(weight), axis=1)))
    return ops.reshape(products, [-1, weight.shape[2]]), rows * 2 + batch.direction


def append_ones(ops: PaddleGraph, x: Array) -> Array:
    """Append a column of ones to x (n, P), for the bias. (n, P + 1)"""
    return ops.concat([x, ops.zeros([ops.size(x, 0), 1], "float32") + 1.0], axis=1)


def run(ops: PaddleGraph, step: Callable, states: Sequence[Array], products: Array, indices: Array) -> Array:
    """Run `step(products (D, B, width), *states)` over the steps of indices (D, T, B). Returns the outputs (D, T, B, .)."""
    return ops.scan(lambda index, *before: step(ops.lookup(products, index), *before), states, indices)[0]


def text_vectors(batch: Sentences, x: Array, head: nn.Layer) -> Array:
    """Return the vector that a classifier's head computes from x (B, T, .), zero at padding; zeros without tokens. (B, H)"""
    ops, padding = batch.ops, batch.padding_scores(IMPOSSIBLE)
    if isinstance(head, heads.Attention):
        weights = ops.softmax(ops.reshape(linear(ops, x, head.score), [batch.rows, -1]) + padding)
        return ops.reshape(ops.product(ops.reshape(weights, [batch.rows, 1, -1]), x), [-1, head.dim])
    if isinstance(head, heads.LSTM):
        x = recurrent(batch, x, head.lstm)
    elif isinstance(head, heads.CNN):
        widths = zip(heads.CNN_WIDTHS, head.filters, strict=True)
        x = ops.concat([_text_windows(batch, x, layer, width) for width, layer in widths], axis=2)
    has_tokens = ops.cast(ops.max(batch.mask, axis=1), "float32")
    maxima = ops.max(x + ops.reshape(padding, [batch.rows, batch.steps, 1]), axis=1)
    return maxima * ops.reshape(has_tokens, [-1, 1])


def _text_windows(batch: Sentences, x: Array, layer: nn.Linear, width: int) -> Array:
    """Apply the layer, rectified, to the `width` tokens around each of x (B, T, .). (B, T, F)"""
    ops, dim = batch.ops, layer.weight.shape[0] // width
    before, after = (ops.zeros([batch.rows, n, dim], "float32") for n in (width // 2, width - 1 - width // 2))
    x = ops.transpose(ops.concat([before, x, after], axis=1), [0, 2, 1])
    x = ops.transpose(windows(ops, x, layer, width), [0, 2, 1])
    return ops.relu(x + ops.weight(layer.bias.numpy()))


def viterbi(batch: Sentences, emissions: Array, crf: LinearChainCRF) -> Array:
    """Decode the best labels (B, T) for emissions (B, T, K). Label K is that before the first token, and of no token."""
    ops, n = batch.ops, len(crf.stop) + 1
    scores = np.concatenate([crf.transitions.numpy(), crf.start.numpy()[None]]) + crf.penalty.numpy()
    transitions = np.full((n, n), IMPOSSIBLE, np.float32)
    transitions[:, :-1] = scores
    start, stop = np.full((2, n), IMPOSSIBLE, np.float32)
    start[-1], stop[:-1] = 0, crf.stop.numpy() + crf.last_penalty.numpy()
    transitions = ops.zeros([batch.rows, n, n], "float32") + ops.weight(transitions)
    same, row = ops.weight(np.arange(n)), ops.arange(batch.rows) * n

    def forward(x: Array, score: Array, left: Array) -> tuple[Array, list[Array]]:
        """Emissions x (B, K + 1), scores (B, K + 1) of the best path to each label, and number of tokens left (B, 1)."""
        sums = ops.reshape(score, [-1, n, 1]) + transitions
        mask = ops.cast(left >= 1, "int64")
        before = ops.argmax(sums, axis=1) * mask + (1 - mask) * same
        mask = ops.cast(mask, "float32")
        return before, [(ops.max(sums, axis=1) + x) * mask + score * (1.0 - mask), left - 1]

    def backward(before: Array, label: Array) -> tuple[Array, list[Array]]:
        return label, [ops.lookup(ops.reshape(before, [-1]), row + label)]

    score = ops.zeros([batch.rows, n], "float32") + ops.weight(start)
    x = ops.concat([emissions, ops.zeros([batch.rows, batch.steps, 1], "float32")], axis=2)
    before, (score, _) = ops.scan(forward, [score, ops.reshape(batch.lengths, [-1, 1])], x, dtype="int64")
    labels, _ = ops.scan(backward, [ops.argmax(score + ops.weight(stop), axis=1)], before, dtype="int64", reverse=True)
    return labels
