"""Trained layers, built in the graph of an exported network with their weights.

Letters: B sentences, T tokens of the longest, C characters of a token, N distinct tokens,
F numbers of an input vector, G those of all gates, H size of a recurrent layer, P of its
projection, K labels. D is the axis of the two directions.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from elmo import ScalarMix
from elmo_core.config import ELMoConfig
from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import CharCNN
from elmo_tasks.classification import heads
from elmo_tasks.parsing.network import Biaffine
from elmo_tools.export.paddle_graph import Array, PaddleGraph, Step
from elmo_tools.export.sentences import Sentences

nn = paddle.nn


def linear(ops: PaddleGraph, x: Array, layer: nn.Linear) -> Array:
    """Apply a linear layer, with or without bias, to the last axis of x."""
    product = ops.matmul(x, ops.operand(layer.weight.numpy()))
    if layer.bias is None:
        return product
    return product + ops.weight(layer.bias.numpy())


def leaky_relu(ops: PaddleGraph, x: Array) -> Array:
    """Multiply negative numbers by 0.1."""
    return ops.relu(x) * 0.9 + x * 0.1


def embedding(ops: PaddleGraph, ids: Array, layer: nn.Embedding) -> Array:
    """Look up the vectors of ids. (..., F)"""
    return ops.lookup(ops.weight(layer.weight.numpy()), ids)


def standardised(ops: PaddleGraph, x: Array, statistics: nn.Layer, layer: int) -> Array:
    """Standardise x by the mean and the deviation of this layer of ELMo."""
    centred = x - ops.weight(statistics.mean.numpy()[layer])
    return centred / ops.weight(statistics.deviation.numpy()[layer])


def scalar_mix(layers: Sequence[Array], mix: ScalarMix) -> Array:
    """Add the layers, with the softmax of the mix's scalars as weights, times its gamma."""
    scalars = mix.scalars.numpy()
    powers = np.exp(scalars - scalars.max())
    weights = mix.gamma.numpy() * powers / powers.sum()
    terms = [layer * float(weight) for layer, weight in zip(layers, weights, strict=True)]
    return reduce(operator.add, terms)


def char_vectors(
    ops: PaddleGraph, ids: Array, cnn: CharCNN, padding: int, words: Sequence[Array] = ()
) -> Array:
    """Compute vectors (N, P) of tokens from the ids (N, C) of their characters.

    words: vectors (N, .) that are projected together with the character CNN's features.
    """
    config = cnn.config
    ids = _used_columns(ops, ids, config, padding)
    characters = ops.transpose(embedding(ops, ids, cnn.embedding), [0, 2, 1])  # (N, F, C)
    maxima = []
    for (width, _), convolution in zip(config.filters, cnn.convolutions, strict=True):
        maxima.append(ops.max(windows(ops, characters, convolution, width), axis=2))
    biases = [convolution.bias.numpy() for convolution in cnn.convolutions]
    features = ops.concat(maxima, axis=1) + ops.weight(np.concatenate(biases))
    x = ops.relu(features) if config.activation == "relu" else ops.tanh(features)
    for highway in cnn.highways:
        gate = ops.sigmoid(linear(ops, x, highway.carry))
        x = x + gate * (ops.relu(linear(ops, x, highway.transform)) - x)
    if words:
        x = ops.concat([*words, x], axis=1)
    if isinstance(cnn.projection, nn.Linear):
        x = linear(ops, x, cnn.projection)
    return x


def _used_columns(ops: PaddleGraph, ids: Array, config: ELMoConfig, padding: int) -> Array:
    """Return the columns of ids (N, C) up to the longest token's last, and enough of padding.

    Enough is one window of nothing but padding: further ones would not change a maximum.
    """
    widest = max(width for width, _ in config.filters)
    is_character = ops.cast(ids < padding, "int64") + ops.cast(ids >= padding + 1, "int64")
    numbers = ops.weight(np.arange(1, config.max_characters + 1))
    lengths = ops.max(is_character * numbers, axis=1)  # (N,)
    longest = ops.max(lengths, axis=0)
    return ops.head(ids, longest + widest, axis=1)


def windows(ops: PaddleGraph, x: Array, layer: nn.Linear, width: int) -> Array:
    """Apply the layer, without its bias, to each `width` columns of x (N, F, C).

    Returns (N, ., C - width + 1).
    """
    weight = layer.weight.numpy()  # (width * F, .)
    filters = weight.reshape(width, -1, weight.shape[1]).transpose(2, 1, 0)
    return ops.windows(x, ops.weight(filters))


@dataclass
class LSTMWeights:
    """Weights of an LSTM's layer in both directions, with gates in the order i, j, f, o."""

    input: np.ndarray  # (D, F, 4H)
    recurrent: np.ndarray  # (D, P, 4H); without a projection, P is H
    bias: np.ndarray  # (D, 4H)
    projection: np.ndarray | None = None  # (D, H, P)
    cell_clip: float = 0.0  # 0: none
    proj_clip: float = 0.0


def recurrent(batch: Sentences, x: Array, layers: nn.GRU | nn.LSTM) -> Array:
    """Run bidirectional layers over x (B, T, F). (B, T, 2H)"""
    hidden = layers.hidden_size
    zero_state = np.zeros([2, hidden], np.float32)
    for layer in range(layers.num_layers):
        weight = _both_directions(layers, f"weight_ih_l{layer}").swapaxes(1, 2)
        recurrent_weight = _both_directions(layers, f"weight_hh_l{layer}").swapaxes(1, 2)
        bias = _both_directions(layers, f"bias_ih_l{layer}")
        recurrent_bias = _both_directions(layers, f"bias_hh_l{layer}")
        x = batch.both(x, weight.shape[1])
        if isinstance(layers, nn.LSTM):
            # Paddle's gates are in the order i, f, j, o.
            order = np.arange(4 * hidden).reshape(4, hidden)[[0, 2, 1, 3]].ravel()
            weights = LSTMWeights(
                input=weight[..., order],
                recurrent=recurrent_weight[..., order],
                bias=(bias + recurrent_bias)[..., order],
            )
            outputs = lstm(batch, x, weights, [zero_state, zero_state])
        else:
            step = _GRUStep(batch.ops, recurrent_weight, recurrent_bias)
            outputs = scan(
                batch=batch, step=step, x=x, weight=weight, bias=bias, states=[zero_state]
            )
        x = batch.aligned(outputs, hidden)
    return x


def _both_directions(layers: nn.GRU | nn.LSTM, name: str) -> np.ndarray:
    """Stack a weight of the forward layer and the same one of the backward layer."""
    forward = getattr(layers, name).numpy()
    backward = getattr(layers, f"{name}_reverse").numpy()
    return np.stack([forward, backward])


class _GRUStep:
    """One step of a GRU in both directions. recurrent: (D, H, 3H), bias: (D, 3H)."""

    def __init__(self, ops: PaddleGraph, recurrent: np.ndarray, bias: np.ndarray):
        self.ops = ops
        self.recurrent = ops.operand(recurrent)
        self.bias = ops.weight(bias[:, None])

    def __call__(self, x: Array, h: Array) -> tuple[Array, list[Array]]:
        """Map products (D, B, 3H) of the input and h (D, B, H) to the next h, and to the states."""
        ops = self.ops
        x_r, x_z, x_c = ops.split(x, 3, axis=2)
        h_r, h_z, h_c = ops.split(ops.matmul(h, self.recurrent) + self.bias, 3, axis=2)
        z = ops.sigmoid(x_z + h_z)
        c = ops.tanh(x_c + ops.sigmoid(x_r + h_r) * h_c)
        h = (h - c) * z + c
        return h, [h]


class _LSTMStep:
    """One step of an LSTM in both directions.

    Products of the gates i, f and o are expected as halves: sigmoid(x) is (tanh(x / 2) + 1) / 2,
    and Paddle's tanh is three times faster.
    """

    def __init__(self, ops: PaddleGraph, weights: LSTMWeights, halves: np.ndarray):
        self.ops = ops
        self.recurrent = ops.operand(weights.recurrent * halves)
        self.projection = None
        if weights.projection is not None:
            self.projection = ops.operand(weights.projection)
        self.cell_clip = weights.cell_clip
        self.proj_clip = weights.proj_clip

    def __call__(self, x: Array, h: Array, c: Array) -> tuple[Array, list[Array]]:
        """Map products (D, B, 4H), h (D, B, P) and c (D, B, H) to the next h, and to the states."""
        ops = self.ops
        i, j, f, o = ops.split(ops.tanh(x + ops.matmul(h, self.recurrent)), 4, axis=2)
        c = ((f + 1.0) * c + (i + 1.0) * j) * 0.5
        if self.cell_clip:
            c = ops.clip(c, -self.cell_clip, self.cell_clip)
        h = (o + 1.0) * ops.tanh(c) * 0.5
        if self.projection is not None:
            h = ops.matmul(h, self.projection)
        if self.proj_clip:
            h = ops.clip(h, -self.proj_clip, self.proj_clip)
        return h, [h, c]


def lstm(batch: Sentences, x: Array, weights: LSTMWeights, states: Sequence[np.ndarray]) -> Array:
    """Run a layer over x (D, B, T, F). (D, B, T, H) or, projected, (D, B, T, P)

    states: the initial h (D, P) and c (D, H).
    """
    cell_dim = weights.bias.shape[1] // 4
    halves = np.repeat(np.array([0.5, 1, 0.5, 0.5], np.float32), cell_dim)  # see _LSTMStep
    return scan(
        batch=batch,
        step=_LSTMStep(batch.ops, weights, halves),
        x=x,
        weight=weights.input * halves,
        bias=weights.bias * halves,
        states=states,
    )


def scan(
    batch: Sentences,
    step: Step,
    x: Array,
    weight: np.ndarray,
    bias: np.ndarray,
    states: Sequence[np.ndarray],
) -> Array:
    """Run `step(products (D, B, G), *states)` over the steps of x (D, B, T, F). (D, B, T, H)

    weight (D, F, G), bias (D, G): of the products, which are computed for all steps at once.
    states: initial, (D, .).
    """
    ops = batch.ops
    _, width, gates = weight.shape
    flat = ops.reshape(x, [2, -1, width])
    products = ops.matmul(flat, ops.operand(weight)) + ops.weight(bias[:, None])
    products = ops.reshape(products, [2, batch.rows, batch.steps, gates])
    initial_states = []
    for state in states:
        zeros = ops.zeros([2, batch.rows, state.shape[1]], "float32")
        initial_states.append(zeros + ops.weight(state[:, None]))
    return ops.scan(step, initial_states, products, axis=2)


def text_vectors(batch: Sentences, x: Array, head: nn.Layer) -> Array:
    """Compute the vectors (B, H) that a classifier's head makes of x (B, T, F).

    x is zero at padding. A text without tokens gets zeros.
    """
    ops = batch.ops
    if isinstance(head, heads.Attention):
        padding_scores = batch.padding_scores()
        scores = ops.reshape(linear(ops, x, head.score), [batch.rows, -1])
        weights = ops.softmax(scores + padding_scores)
        sums = ops.product(ops.reshape(weights, [batch.rows, 1, -1]), x)  # (B, 1, H)
        return ops.reshape(sums, [-1, head.dim])
    outputs = recurrent(batch, x, head.lstm)
    return batch.maximum(outputs)


def biaffine(batch: Sentences, x: Array, y: Array, layer: Biaffine) -> Array:
    """Compute scores (B, T, n, T + 1) of words x (B, T, F) with heads y (B, T + 1, F)."""
    ops = batch.ops
    n, width = layer.shape
    ones = ops.zeros([batch.rows, batch.steps + 1, 1], "float32") + 1.0
    y = ops.concat([y, ones], axis=2)
    x = ops.reshape(linear(ops, x, layer.map), [batch.rows, -1, width])
    scores = ops.product(x, ops.transpose(y, [0, 2, 1]))  # (B, T * n, T + 1)
    return ops.reshape(scores, [batch.rows, batch.steps, n, batch.steps + 1])
