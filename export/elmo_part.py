"""The biLM as a part of exported networks.

Letters: B sentences, T tokens of the longest, C characters of a token, N distinct tokens, P projection, H cell.
D is the axis of the two directions, forward first.

Each distinct token of a batch is encoded once, over only as many character columns as the longest token needs; the first
layer's input products, too, are computed once per distinct token. The special tokens at a sentence's two ends are the same
for all sentences: the LSTM states after them are computed at export, as initial states.
"""

from dataclasses import replace

import numpy as np

from elmo import BiLM
from elmo_core.machine.runtime import paddle
from elmo_core.network.layers import LayerChoice
from elmo_core.network.lstmp import LSTMP, Packing
from elmo_core.text.tokens import Vocabulary, token_batch
from export.inputs import BYTES, TOKENS, Sentences, character_input, word_input
from export.paddle_graph import Array
from export.parts import append_ones, char_vectors, embedding, input_products, run


class ELMoPart:
    """The chosen layers. inputs: of its tokens, with `axes`; `prefix` begins the names of those that only it reads."""

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, choice: LayerChoice, prefix: str = "", axes=TOKENS):
        self.bilm, self.config, self.choice, self.inputs = bilm, bilm.config, choice, {}
        if self.config.reads_characters:
            ids = replace(character_input(self.config, vocabulary, f"{prefix}characters.json"), axes=axes)
            self.inputs["characters" if ids == BYTES else f"{prefix}characters"] = ids
        if self.config.reads_words:
            self.inputs[f"{prefix}words"] = word_input(vocabulary, f"{prefix}words.txt", axes)
        self.initial_states = _initial_states(bilm, vocabulary)

    def layers(self, batch: Sentences) -> list[Array]:
        """Return the chosen layers, each (B, T, 2P), not masked."""
        ops, width = batch.ops, self.config.projection_dim
        vectors, inverse = self._token_vectors(batch)
        token = ops.lookup(vectors, ops.reshape(inverse, [batch.rows, batch.steps]))
        layers, x = [ops.concat([token, token], axis=2)], None
        for layer in range(self.choice.max_layer):
            pair = self.bilm.forward_lstm[layer], self.bilm.backward_lstm[layer]
            weight, recurrent, projection = _weights(pair, self.config.forget_bias)
            if x is None:  # (N, P): one product per distinct token
                products, indices = input_products(batch, vectors, weight, ops.lookup(inverse, batch.input_index))
            else:
                rows = ops.reshape(append_ones(ops, ops.reshape(x, [-1, width])), [2, -1, width + 1])
                products = ops.reshape(ops.matmul(rows, ops.operand(weight)), [-1, weight.shape[2]])
                indices = ops.reshape(ops.arange(batch.tokens * 2), [2, batch.steps, batch.rows])
            states = [ops.lookup(ops.weight(state), batch.direction_index) for state in self.initial_states[layer]]
            y = run(ops, self._step(ops, recurrent, projection), states, products, indices)
            x = y + x if x is not None and self.config.use_skip_connections else y
            layers.append(batch.align_outputs(x, width))
        return [layer for (layer,) in self.choice.select([(layer,) for layer in layers])]  # both directions in one

    def _token_vectors(self, batch: Sentences) -> tuple[Array, Array]:
        """Compute vectors (N, P) of the distinct tokens, and each token's index among them (B * T,)."""
        ops, encoder = batch.ops, self.bilm.token_encoder
        ids, inverse = batch.distinct(*self.inputs)
        if not self.config.reads_characters:
            return embedding(ops, ops.reshape(ids[0], [-1]), encoder.embedding), inverse
        words = [embedding(ops, ops.reshape(word_ids, [-1]), encoder.words) for word_ids in ids[1:]]
        padding = next(iter(self.inputs.values())).padding
        return char_vectors(ops, ids[0], encoder, padding, words), inverse

    def _step(self, ops, recurrent: np.ndarray, projection: np.ndarray):
        config, recurrent, projection = self.config, ops.operand(recurrent), ops.operand(projection)

        def step(x: Array, h: Array, c: Array) -> tuple[Array, list[Array]]:  # (D, B, 4H), (D, B, P), (D, B, H)
            i, j, f, o = ops.split(ops.tanh(x + ops.matmul(h, recurrent)), 4, axis=2)
            c = ((f + 1.0) * c + (i + 1.0) * j) * 0.5
            c = ops.clip(c, -config.cell_clip, config.cell_clip) if config.cell_clip else c
            h = ops.matmul((o + 1.0) * ops.tanh(c), projection)
            h = ops.clip(h, -config.proj_clip, config.proj_clip) if config.proj_clip else h
            return h, [h, c]

        return step


def _weights(pair: tuple[LSTMP, LSTMP], forget_bias: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both directions' weights of a layer: input (D, P + 1, 4H), recurrent (D, P, 4H), projection (D, H, P).

    The input weights' last row is the bias. sigmoid(x) equals (tanh(x / 2) + 1) / 2, and Paddle's tanh is three times
    faster than its sigmoid. So the gates' weights are halved at export, and so is the projection, for the output gate.
    """
    directions = zip(*(lstmp.weights() for lstmp in pair), strict=True)
    weight, recurrent, bias, projection = (np.stack([x.numpy() for x in weights]) for weights in directions)
    size = bias.shape[1] // 4
    bias[:, 2 * size : 3 * size] += forget_bias
    halves = np.repeat(np.array([0.5, 1, 0.5, 0.5], np.float32), size)  # of the gates i, j, f, o
    return np.concatenate([weight, bias[:, None]], axis=1) * halves, recurrent * halves, projection / 2


def _initial_states(bilm: BiLM, vocabulary: Vocabulary | None) -> list[list[np.ndarray]]:
    """Compute h (D, P) and c (D, H) of each layer after `<S>` forward and `</S>` backward."""
    batch = token_batch([[]], bilm.config.input, vocabulary)
    with paddle.no_grad():
        vectors = bilm.token_encoder(batch.tokens)
        _, states = bilm.lstm_layers(
            vectors, (batch.index[0, :1], batch.index[0, 1:]), Packing.from_lengths(np.array([1]))
        )
    return [[np.concatenate([x.numpy() for x in both]) for both in zip(*pair, strict=True)] for pair in states]
