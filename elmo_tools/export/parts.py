"""Parts of exported networks. Each takes its weights from a layer of the trained network.

Letters: B sentences, T tokens of the longest, C characters of a token, N distinct tokens, F numbers of an input vector, G
those of all gates, H size of a recurrent layer, P of its projection, K labels. D is the axis of the two directions.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from elmo import ScalarMix
from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import CharCNN
from elmo_tasks.classification import heads
from elmo_tasks.parsing.network import Biaffine
from elmo_tools.export.paddle_graph import Array, PaddleGraph
from elmo_tools.export.sentences import Sentences

nn = paddle.nn
IMPOSSIBLE = -1e30  # score


def linear(ops: PaddleGraph, x: Array, layer: nn.Linear) -> Array:
    x = ops.matmul(x, ops.operand(layer.weight.numpy()))
    return x if layer.bias is None else x + ops.weight(layer.bias.numpy())


def embedding(ops: PaddleGraph, ids: Array, layer: nn.Embedding) -> Array:
    return ops.lookup(ops.weight(layer.weight.numpy()), ids)


def standardised(ops: PaddleGraph, x: Array, statistics: nn.Layer, layer: int) -> Array:
    return (x - ops.weight(statistics.mean.numpy()[layer])) / ops.weight(
        statistics.deviation.numpy()[layer]
    )


def scalar_mix(layers: Sequence[Array], mix: ScalarMix) -> Array:
    scalars = mix.scalars.numpy()
    powers = np.exp(scalars - scalars.max())
    weights = mix.gamma.numpy() * powers / powers.sum()
    return reduce(
        operator.add, [layer * float(weight) for layer, weight in zip(layers, weights, strict=True)]
    )


def char_vectors(
    ops: PaddleGraph, ids: Array, cnn: CharCNN, padding: int, words: Sequence[Array] = ()
) -> Array:
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
    """Apply the layer, without its bias, to each `width` columns of x (N, F, C). (N, ., C - width + 1)"""
    weight = layer.weight.numpy()
    return ops.windows(x, ops.weight(weight.reshape(width, -1, weight.shape[1]).transpose(2, 1, 0)))


def recurrent(batch: Sentences, x: Array, layers: nn.GRU | nn.LSTM) -> Array:
    """Bidirectional layers over x (B, T, F). (B, T, 2H)"""
    hidden = layers.hidden_size
    for layer in range(layers.num_layers):
        names = [f"{name}_l{layer}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        weights = [
            np.stack([getattr(layers, f"{name}{side}").numpy() for side in ("", "_reverse")])
            for name in names
        ]
        weight, recurrent, bias, recurrent_bias = (
            *(w.swapaxes(1, 2) for w in weights[:2]),
            *weights[2:],
        )
        x, states = batch.both(x, weight.shape[1]), [np.zeros([2, hidden], np.float32)] * 2
        if isinstance(layers, nn.LSTM):  # gates in the order i, f, j, o
            order = np.arange(4 * hidden).reshape(4, hidden)[[0, 2, 1, 3]].ravel()
            x = lstm(
                batch,
                x,
                [w[..., order] for w in (weight, recurrent, bias + recurrent_bias)],
                states,
            )
        else:
            x = run(
                batch, gru_step(batch.ops, recurrent, recurrent_bias), x, weight, bias, states[:1]
            )
        x = batch.aligned(x, hidden)
    return x


def gru_step(ops: PaddleGraph, recurrent: np.ndarray, bias: np.ndarray) -> Callable:
    recurrent, bias = ops.operand(recurrent), ops.weight(bias[:, None])

    def step(x: Array, h: Array) -> tuple[Array, list[Array]]:  # (D, B, 3H), (D, B, H)
        x_r, x_z, x_c = ops.split(x, 3, axis=2)
        h_r, h_z, h_c = ops.split(ops.matmul(h, recurrent) + bias, 3, axis=2)
        z, c = ops.sigmoid(x_z + h_z), ops.tanh(x_c + ops.sigmoid(x_r + h_r) * h_c)
        h = (h - c) * z + c
        return h, [h]

    return step


def lstm(
    batch: Sentences,
    x: Array,
    weights: Sequence[np.ndarray],
    states: Sequence[np.ndarray],
    clips: Sequence[float] = (0, 0),
) -> Array:
    """Run a layer over x (D, B, T, F). (D, B, T, H) or, projected, (D, B, T, P)

    weights, gates in the order i, j, f, o: (D, F, 4H), recurrent (D, P, 4H), bias (D, 4H) and, if there is one, projection
    (D, H, P). states: the initial h (D, P) and c (D, H). clips: of the cell and the projection.
    """
    ops, (weight, recurrent, bias, *projection), (cell_clip, proj_clip) = batch.ops, weights, clips
    # sigmoid(x) is (tanh(x / 2) + 1) / 2, and Paddle's tanh is three times faster
    halves = np.repeat(np.array([0.5, 1, 0.5, 0.5], np.float32), bias.shape[1] // 4)
    recurrent, projection = ops.operand(recurrent * halves), list(map(ops.operand, projection))

    def step(
        x: Array, h: Array, c: Array
    ) -> tuple[Array, list[Array]]:  # (D, B, 4H), (D, B, P), (D, B, H)
        i, j, f, o = ops.split(ops.tanh(x + ops.matmul(h, recurrent)), 4, axis=2)
        c = ((f + 1.0) * c + (i + 1.0) * j) * 0.5
        c = ops.clip(c, -cell_clip, cell_clip) if cell_clip else c
        h = (o + 1.0) * ops.tanh(c) * 0.5
        h = ops.matmul(h, projection[0]) if projection else h
        h = ops.clip(h, -proj_clip, proj_clip) if proj_clip else h
        return h, [h, c]

    return run(batch, step, x, weight * halves, bias * halves, states)


def run(
    batch: Sentences,
    step: Callable,
    x: Array,
    weight: np.ndarray,
    bias: np.ndarray,
    states: Sequence,
) -> Array:
    """Run `step(products (D, B, G), *states)` over the steps of x (D, B, T, F). (D, B, T, H)

    weight (D, F, G), bias (D, G): of the products, which are computed for all steps at once. states: initial, (D, .).
    """
    ops, (_, width, gates) = batch.ops, weight.shape
    products = ops.matmul(ops.reshape(x, [2, -1, width]), ops.operand(weight)) + ops.weight(
        bias[:, None]
    )
    products = ops.reshape(products, [2, batch.rows, batch.steps, gates])
    states = [
        ops.zeros([2, batch.rows, state.shape[1]], "float32") + ops.weight(state[:, None])
        for state in states
    ]
    return ops.scan(step, states, products, axis=2)


def text_vectors(batch: Sentences, x: Array, head: nn.Layer) -> Array:
    """Return the vector that a classifier's head computes from x (B, T, F), zero at padding; zeros without tokens. (B, H)"""
    ops, padding = batch.ops, batch.padding_scores(IMPOSSIBLE)
    if isinstance(head, heads.Attention):
        weights = ops.softmax(ops.reshape(linear(ops, x, head.score), [batch.rows, -1]) + padding)
        return ops.reshape(
            ops.product(ops.reshape(weights, [batch.rows, 1, -1]), x), [-1, head.dim]
        )
    x = recurrent(batch, x, head.lstm)
    has_tokens = ops.cast(ops.max(batch.mask, axis=1), "float32")
    maxima = ops.max(x + ops.reshape(padding, [batch.rows, batch.steps, 1]), axis=1)
    return maxima * ops.reshape(has_tokens, [-1, 1])


def biaffine(batch: Sentences, x: Array, y: Array, layer: Biaffine) -> Array:
    """Scores (B, T, n, T + 1) of words x (B, T, F) with heads y (B, T + 1, F)."""
    ops, (n, width) = batch.ops, layer.shape
    y = ops.concat([y, ops.zeros([batch.rows, batch.steps + 1, 1], "float32") + 1.0], axis=2)
    x = ops.reshape(linear(ops, x, layer.map), [batch.rows, -1, width])
    return ops.reshape(
        ops.product(x, ops.transpose(y, [0, 2, 1])), [batch.rows, batch.steps, n, batch.steps + 1]
    )
