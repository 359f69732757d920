"""The biLM as a part of exported networks.

Letters: B sentences, T tokens of the longest, C characters of a token, N distinct tokens, P projection, H cell.
D is the axis of the two directions, forward first.

Each distinct token of a batch is encoded once, over no more columns of characters than the longest has, and the first
layer's input product is made for distinct tokens, too. The markers at a sentence's two ends are the same for all: what
the LSTMs make of them is computed at export, and is the state that they start from.
"""

import numpy as np

from elmo import BiLM, LayerChoice
from elmo_core.machine.runtime import paddle
from elmo_core.network.lstmp import LSTMP, Packing
from elmo_core.text.tokens import Vocabulary, token_batch
from export.inputs import BYTES, Sentences, characters_of, words_of
from export.paddle_graph import Array
from export.parts import char_vectors, embedding, products_of_both, run, with_one


class ELMoPart:
    """The chosen layers. inputs: what it reads of tokens; `prefix` begins the names of those that only it reads."""

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, choice: LayerChoice, prefix: str = ""):
        self.bilm, self.config, self.choice, self.inputs = bilm, bilm.config, choice, {}
        if self.config.reads_characters:
            ids = characters_of(self.config, vocabulary, f"{prefix}characters.json")
            self.inputs["characters" if ids == BYTES else f"{prefix}characters"] = ids
        if self.config.reads_words:
            self.inputs[f"{prefix}words"] = words_of(vocabulary, f"{prefix}words.txt")
        self.starts = _states_after_markers(bilm, vocabulary)

    def layers(self, batch: Sentences) -> list[Array]:
        """Each (B, T, 2P); not masked."""
        ops, width = batch.ops, self.config.projection_dim
        vectors, kind = self._token_vectors(batch)
        token = ops.lookup(vectors, ops.reshape(kind, [batch.rows, batch.steps]))
        layers, x = [ops.concat([token, token], axis=2)], None
        for number in range(self.choice.highest):
            pair = self.bilm.forward_lstm[number], self.bilm.backward_lstm[number]
            weight, recurrent, projection = _weights(pair, self.config.forget_bias)
            if x is None:  # (N, P): the products are made once for each distinct token
                products, places = products_of_both(batch, vectors, weight, ops.lookup(kind, batch.read))
            else:
                rows = ops.reshape(with_one(ops, ops.reshape(x, [-1, width])), [2, -1, width + 1])
                products = ops.reshape(ops.matmul(rows, ops.operand(weight)), [-1, weight.shape[2]])
                places = ops.reshape(ops.arange(batch.tokens * 2), [2, batch.steps, batch.rows])
            start = [ops.lookup(ops.weight(part), batch.both) for part in self.starts[number]]
            y = run(ops, self._step(ops, recurrent, projection), start, products, places)
            x = y + x if x is not None and self.config.use_skip_connections else y
            layers.append(batch.in_order(x, width))
        return self.choice.of(layers)

    def _token_vectors(self, batch: Sentences) -> tuple[Array, Array]:
        """The vectors (N, P) of the distinct tokens, and the number of each token's (B * T,)."""
        ops, encoder = batch.ops, self.bilm.token_encoder
        rows, kind = batch.distinct(*self.inputs)
        if not self.config.reads_characters:
            return embedding(ops, ops.reshape(rows[0], [-1]), encoder.embedding), kind
        words = [embedding(ops, ops.reshape(numbers, [-1]), encoder.words) for numbers in rows[1:]]
        padding = next(iter(self.inputs.values())).padding
        return char_vectors(ops, rows[0], encoder, padding, beside=words), kind

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
    """Both directions' weights of a layer: input (D, P + 1, 4H), recurrent (D, P, 4H), projection (D, H, P).

    The bias is the input's last row. sigmoid(x) is (tanh(x / 2) + 1) / 2, and Paddle's tanh three times faster than its
    sigmoid: so what goes into a sigmoid is halved here, as is the projection of what the output gate lets through.
    """
    both = zip(*(lstmp.weights() for lstmp in pair), strict=True)
    weight, recurrent, bias, projection = (np.stack([one.numpy() for one in weights]) for weights in both)
    size = bias.shape[1] // 4
    bias[:, 2 * size : 3 * size] += forget_bias
    halves = np.repeat(np.array([0.5, 1, 0.5, 0.5], np.float32), size)  # of the gates i, j, f, o
    return np.concatenate([weight, bias[:, None]], axis=1) * halves, recurrent * halves, projection / 2


def _states_after_markers(bilm: BiLM, vocabulary: Vocabulary | None) -> list[list[np.ndarray]]:
    """Every layer's h (D, P) and c (D, H) after `<S>` forward and `</S>` backward."""
    batch = token_batch([[]], bilm.config.input, vocabulary)
    with paddle.no_grad():
        vectors = bilm.token_encoder(batch.tokens)
        _, states = bilm.run(vectors, (batch.index[0, :1], batch.index[0, 1:]), Packing.from_lengths(np.array([1])))
    return [[np.concatenate([x.numpy() for x in both]) for both in zip(*pair, strict=True)] for pair in states]
