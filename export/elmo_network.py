"""The biLM as a static graph.

Letters: B sentences, T tokens of the longest, C characters of a token, N distinct tokens, P projection, H cell, F filters.
D is the axis of the two directions, forward first.

Each distinct token of a batch is encoded once, over no more columns of characters than the longest has, and the first
layer's input product is made for distinct tokens, too. The markers at a sentence's two ends are the same for all: what
the LSTMs make of them is computed at export, and is the state that they start from.
"""

import json
from dataclasses import replace

import numpy as np

from elmo import BiLM
from elmo_core.config import MAX_CHARS, ELMoConfig
from elmo_core.machine.checks import LayerChoice
from elmo_core.machine.runtime import paddle
from elmo_core.network.lstmp import Packing
from elmo_core.text.characters import MAX_BYTES, CodePoints
from elmo_core.text.tokens import UNK_ID, Vocabulary, token_batch
from export.operators import Array, Operators, Output
from export.sentences import Ids, Sentences, with_one

BYTES = Ids("its bytes + 1 between 259 and 260, then 261", end=262, columns=MAX_CHARS, first=1, padding=261)


class ELMoNetwork:
    """characters, words: the names of its inputs, as far as it has them."""

    def __init__(
        self,
        bilm: BiLM,
        vocabulary: Vocabulary | None,
        characters: str = "characters",
        words: str = "words",
    ):
        self.config, self.vocabulary = bilm.config, vocabulary
        self.weights = {name: weight.numpy() for name, weight in bilm.state_dict().items()}
        self.starts = _states_after_markers(bilm, vocabulary)
        self.characters, self.words = characters, words
        self.inputs: dict[str, Ids] = {}
        self.tables: dict[str, str] = {}
        code_points = vocabulary.alphabet if self.config.alphabet != "bytes" else None
        if self.config.reads_characters and code_points:
            self.inputs[characters] = replace(
                BYTES, meaning="its characters", end=self.config.n_characters, first=0, table=f"{characters}.json",
                padding=code_points.ids[CodePoints.PAD],
            )  # fmt: skip
            self.tables[f"{characters}.json"] = json.dumps(code_points.ids, ensure_ascii=False) + "\n"
        elif self.config.reads_characters:
            self.inputs[characters] = replace(BYTES, columns=self.config.max_characters)
        if self.config.reads_words:
            self.inputs[words], table = word_ids(vocabulary, f"{words}.txt")
            self.tables |= table

    def layers(self, ops: Operators, sentences: Sentences, highest: int) -> list[Array]:
        """Layers 0 .. highest, each (B, T, 2P); not masked."""
        vectors, kind = self._token_vectors(ops, sentences)
        token = ops.lookup(vectors, ops.reshape(kind, [sentences.rows, sentences.steps]))
        layers, x = [ops.concat([token, token], axis=2)], None
        read = ops.lookup(kind, sentences.read)  # (D, T, B)
        for number in range(highest):
            weights = LSTMPWeights(self.weights, number, self.config.forget_bias)
            if x is None:  # (N, P): the products are made once for each distinct token
                products, places = sentences.both_products(vectors, weights.input, read)
            else:
                rows = with_one(ops, ops.reshape(x, [-1, self.config.projection_dim]))
                rows = ops.reshape(rows, [2, -1, weights.input.shape[1]])
                products = ops.reshape(ops.matmul(rows, ops.operand(weights.input)), [-1, weights.width])
                places = ops.reshape(ops.arange(sentences.tokens * 2), [2, sentences.steps, sentences.rows])
            y = self._run(ops, products, places, weights, self.starts[number], sentences)
            if x is not None and self.config.use_skip_connections:
                y = y + x
            layers.append(sentences.in_order(y, self.config.projection_dim))
            x = y
        return layers

    def _run(
        self, ops: Operators, products: Array, places: Array, weights: "LSTMPWeights", start, sentences: Sentences
    ) -> Array:
        """Both directions over the input products (., 4H) at places (D, T, B). (D, T, B, P)"""
        recurrent, projection = ops.operand(weights.recurrent), ops.operand(weights.projection)
        start = [ops.lookup(ops.weight(part[:, 0]), sentences.both) for part in start]

        def step(place: Array, h: Array, c: Array) -> tuple[Array, list[Array]]:  # (D, B), (D, B, P), (D, B, H)
            i, j, f, o = ops.split(ops.tanh(ops.lookup(products, place) + ops.matmul(h, recurrent)), 4, axis=2)
            c = ((f + 1.0) * c + (i + 1.0) * j) * 0.5
            c = ops.clip(c, self.config.cell_clip) if self.config.cell_clip else c
            h = ops.matmul((o + 1.0) * ops.tanh(c), projection)
            h = ops.clip(h, self.config.proj_clip) if self.config.proj_clip else h
            return h, [h, c]

        return ops.scan(step, start, places, axis=1)[0]

    def _token_vectors(self, ops: Operators, sentences: Sentences) -> tuple[Array, Array]:
        """The vectors (N, P) of the distinct tokens, and the number of each token's (B * T,)."""
        flat = {name: ops.reshape(sentences.ids[name], [-1, max(1, ids.columns)]) for name, ids in self.inputs.items()}
        first, kind = ops.distinct_rows(ops.concat(list(flat.values()), axis=1))
        rows = {name: ops.lookup(x, first) for name, x in flat.items()}
        found = []
        if self.config.reads_words:
            table = "words" if self.config.reads_characters else "embedding"
            words = ops.lookup(ops.weight(self.weights[f"token_encoder.{table}.weight"]), rows[self.words])
            found.append(ops.reshape(words, [-1, self.weights[f"token_encoder.{table}.weight"].shape[1]]))
        if self.config.reads_characters:
            padding = self.inputs[self.characters].padding
            encoder = CharCNNNetwork(self.weights, "token_encoder.", self.config, padding)
            found.append(encoder.highway_features(ops, rows[self.characters]))
            return encoder.projected(ops, ops.concat(found, axis=1)), kind
        return found[0], kind


class CharCNNNetwork:
    """A character CNN, whose weights' names begin with `prefix`."""

    def __init__(self, weights: dict[str, np.ndarray], prefix: str, config: ELMoConfig, padding: int):
        self.weights = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
        self.config, self.padding = config, padding

    def highway_features(self, ops: Operators, ids: Array) -> Array:
        """Of tokens' characters (N, C). (N, F)"""
        columns, widest = self.config.max_characters, max(width for width, _ in self.config.filters)
        used = (1 - ops.cast(ops.equal(ids, self.padding), "int64")) * ops.weight(np.arange(1, columns + 1))
        used = ops.max(ops.max(used, axis=1), axis=0)  # windows beyond it see padding alone: one is enough
        ids = ops.head(ids, ops.minimum(used + widest, columns), axis=1)
        x = ops.transpose(ops.lookup(ops.weight(self.weights["embedding.weight"]), ids), [0, 2, 1])
        found = []
        for k, (width, number) in enumerate(self.config.filters):
            filters = self.weights[f"convolutions.{k}.weight"].reshape(width, -1, number).transpose(2, 1, 0)
            found.append(ops.max(ops.windows(x, ops.weight(filters)), axis=2))
        biases = [self.weights[f"convolutions.{k}.bias"] for k in range(len(self.config.filters))]
        x = ops.concat(found, axis=1) + ops.weight(np.concatenate(biases))
        x = ops.relu(x) if self.config.activation == "relu" else ops.tanh(x)
        for k in range(self.config.n_highway):
            g = ops.sigmoid(self._linear(ops, x, f"highways.{k}.carry"))
            x = x + g * (ops.relu(self._linear(ops, x, f"highways.{k}.transform")) - x)
        return x

    def projected(self, ops: Operators, x: Array) -> Array:
        return self._linear(ops, x, "projection") if "projection.weight" in self.weights else x

    def _linear(self, ops: Operators, x: Array, name: str) -> Array:
        return linear(ops, x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])


class LSTMPWeights:
    """Both directions' weights of a layer: input (D, P + 1, 4H), recurrent (D, P, 4H), projection (D, H, P).

    The bias is the input's last row. sigmoid(x) is (tanh(x / 2) + 1) / 2, and Paddle's tanh three times faster than its
    sigmoid: so what goes into a sigmoid is halved here, as is the projection of what the output gate lets through.
    """

    def __init__(self, weights: dict[str, np.ndarray], layer: int, forget_bias: float):
        def both(name: str) -> np.ndarray:
            return np.stack([weights[f"{direction}_lstm.{layer}.{name}"] for direction in ("forward", "backward")])

        self.recurrent, self.projection, bias = map(both, ("recurrent_weight", "projection_weight", "bias"))
        self.width = bias.shape[1]
        bias[:, self.width // 2 : self.width * 3 // 4] += forget_bias
        self.input = np.concatenate([both("input_weight"), bias[:, None]], axis=1)
        halves = np.repeat(np.array([0.5, 1, 0.5, 0.5], np.float32), self.width // 4)  # of the gates i, j, f, o
        self.input, self.recurrent, self.projection = self.input * halves, self.recurrent * halves, self.projection / 2


def linear(ops: Operators, x: Array, weight: np.ndarray, bias: np.ndarray) -> Array:
    return ops.matmul(x, ops.operand(weight)) + ops.weight(bias)


def word_ids(vocabulary: Vocabulary, table: str) -> tuple[Ids, dict[str, str]]:
    """The input of a vocabulary's words, and the file that gives their numbers."""
    longest = MAX_BYTES if isinstance(vocabulary.alphabet, CodePoints) else 0
    ids = Ids(f"line in {table}, from 0", len(vocabulary), table=table, unknown=UNK_ID, longest=longest)
    return ids, {table: "\n".join(vocabulary.tokens) + "\n"}


def _states_after_markers(bilm: BiLM, vocabulary: Vocabulary | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of every layer h (D, 1, P) and c (D, 1, H) after `<S>` forward and `</S>` backward."""
    batch = token_batch([[]], bilm.config.input, vocabulary)
    with paddle.no_grad():
        vectors = bilm.token_encoder(batch.tokens)
        _, states = bilm.run(vectors, (batch.index[0, :1], batch.index[0, 1:]), Packing.of(np.array([1])))
    return [tuple(np.stack([part.numpy() for part in parts]) for parts in zip(*pair, strict=True)) for pair in states]


class Embedder:
    """ELMo's vectors as the output, as an `ELMoEmbedder` gives them. pool: the mean over a sentence's tokens."""

    nothing = "zeros"

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, layers: LayerChoice, pool: bool = False):
        self.network, self.layers, self.pool = ELMoNetwork(bilm, vocabulary), layers, pool
        self.inputs, self.tables = self.network.inputs, self.network.tables
        several = [len(layers.numbers)] if layers.weights is None else []
        shape = (*several, "B", *([] if pool else ["T"]), 2 * bilm.config.projection_dim)
        which = f"layers {', '.join(map(str, layers.numbers))}" if several else "vectors"
        meaning = "means over the tokens" if pool else "forward and backward; zero beyond a sentence's end"
        self.output = Output("vectors", shape, "float32", f"{which}: {meaning}")

    def build(self, ops: Operators) -> None:
        sentences = Sentences(ops, self.inputs)
        layers = self.network.layers(ops, sentences, self.layers.highest)
        chosen = [layers[number] for number in self.layers.numbers] or [layers[0] * 0.0]
        if self.layers.weights is not None:
            chosen = [mixed(chosen, self.layers.weights or [1.0])]
        chosen = [sentences.mean(x) if self.pool else sentences.masked(x) for x in chosen]
        several = int(self.layers.weights is None)
        x = ops.stack(chosen, axis=0) if several else chosen[0]
        axes = [several] if self.pool else [several, several + 1]
        ops.output(self.output.name, sentences.trimmed(x, axes), self.output.shape)


def mixed(layers: list[Array], weights: list[float]) -> Array:
    total, *others = [layer * float(weight) for layer, weight in zip(layers, weights, strict=True)]
    for layer in others:
        total = total + layer
    return total


def mix_weights(weights: dict[str, np.ndarray], prefix: str) -> list[float]:
    """gamma * softmax(s) of a ScalarMix."""
    scalars = weights[f"{prefix}scalars"]
    powers = np.exp(scalars - scalars.max())
    return (weights[f"{prefix}gamma"] * powers / powers.sum()).tolist()
