"""A trained biLM, built in the graph of an exported network with its weights.

Letters: B sentences, T tokens of the longest, N distinct tokens, P projection, H cell.
D is the axis of the two directions.

Each distinct token of a batch is encoded once, over only as many character columns as the longest
token needs. The special tokens at a sentence's two ends are the same for all sentences: the LSTM
states after them are computed at export, as initial states.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmo import BiLM
from elmo_core.config import MAX_CHARS
from elmo_core.encoding.layers import LayerChoice
from elmo_core.machine.runtime import paddle
from elmo_core.network.lstmp import Packing
from elmo_core.text.characters import MAX_BYTES, CodePoints
from elmo_core.text.lexicon import token_batch
from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_tools.export.paddle_graph import Array
from elmo_tools.export.sentences import Sentences
from elmo_tools.export.trained_layers import LSTMWeights, char_vectors, embedding, lstm

# The names of its inputs.
CHARACTERS = "characters"
WORDS = "words"


def byte_input(axes: Sequence[str], columns: int = MAX_CHARS) -> dict[str, Any]:
    """Return the entry in inputs.json of tokens as bytes."""
    return {
        "type": "int64",
        "shape": [*axes, columns],
        "padding": 261,
        "meaning": "its bytes + 1 between 259 and 260, then 261",
    }


def word_input(table: str, axes: Sequence[str], unknown: int) -> dict[str, Any]:
    """Return the entry in inputs.json of tokens as line numbers in a table of words."""
    return {
        "type": "int64",
        "shape": list(axes),
        "padding": 0,
        "table": table,
        "unknown": unknown,
        "meaning": f"line in {table}, from 0; of unknown words {unknown}",
    }


class TrainedBiLM:
    """The chosen layers.

    axes: of its tokens. inputs: their entries in inputs.json. files: the tables of these.
    """

    def __init__(
        self, bilm: BiLM, vocabulary: Vocabulary | None, choice: LayerChoice, axes: Sequence[str]
    ):
        self.bilm = bilm
        self.config = bilm.config
        self.choice = choice
        self.initial_states = _initial_states(bilm, vocabulary)
        self.inputs: dict[str, dict[str, Any]] = {}
        self.files: dict[str, str] = {}
        has_code_points = self.config.alphabet != "bytes"
        if self.config.reads_characters and has_code_points:
            ids = vocabulary.alphabet.ids
            table = f"{CHARACTERS}.json"
            self.files[table] = json.dumps(ids, ensure_ascii=False) + "\n"
            self.inputs[CHARACTERS] = {
                "type": "int64",
                "shape": [*axes, MAX_CHARS],
                "padding": ids[CodePoints.PAD],
                "table": table,
                "meaning": f"its characters by {table}",
            }
        elif self.config.reads_characters:
            self.inputs[CHARACTERS] = byte_input(axes, self.config.max_characters)
        if self.config.reads_words:
            table = f"{WORDS}.txt"
            self.files[table] = "\n".join(vocabulary.tokens) + "\n"
            self.inputs[WORDS] = word_input(table, axes, UNK_ID)
            if has_code_points:
                self.inputs[WORDS]["longest"] = MAX_BYTES

    def layers(self, batch: Sentences) -> list[Array]:
        """Build the chosen layers, each (B, T, 2P), not masked."""
        ops = batch.ops
        width = self.config.projection_dim
        vectors, index = self._token_vectors(batch)
        token = batch.of_tokens(vectors, index, width)  # (B, T, P)
        layers = [ops.concat([token, token], axis=2)]
        x = batch.both(token, width)  # (D, B, T, P)
        for layer in range(self.choice.max_layer):
            outputs = lstm(batch, x, self._lstm_weights(layer), self.initial_states[layer])
            if layer and self.config.use_skip_connections:
                outputs = outputs + x
            layers.append(batch.aligned(outputs, width))
            x = outputs
        # A layer's directions are already one array.
        chosen = self.choice.select([[layer] for layer in layers])
        return [directions[0] for directions in chosen]

    def _lstm_weights(self, layer: int) -> LSTMWeights:
        """Stack the weights of both directions, and add the forget bias to that of the gate f."""
        config = self.config
        forward = self.bilm.forward_lstm[layer]
        backward = self.bilm.backward_lstm[layer]
        bias = _stack(forward.bias, backward.bias)
        bias[:, 2 * config.cell_dim : 3 * config.cell_dim] += config.forget_bias
        return LSTMWeights(
            input=_stack(forward.input_weight, backward.input_weight),
            recurrent=_stack(forward.recurrent_weight, backward.recurrent_weight),
            bias=bias,
            projection=_stack(forward.projection_weight, backward.projection_weight),
            cell_clip=config.cell_clip,
            proj_clip=config.proj_clip,
        )

    def _token_vectors(self, batch: Sentences) -> tuple[Array, Array]:
        """Build vectors (N, P) of the distinct tokens, and each token's index in them (B * T,)."""
        ops = batch.ops
        encoder = self.bilm.token_encoder
        ids, index = batch.distinct(list(self.inputs))
        if not self.config.reads_characters:
            word_ids = ops.reshape(ids[0], [-1])
            return embedding(ops, word_ids, encoder.embedding), index
        words = []
        if self.config.reads_words:
            word_ids = ops.reshape(ids[1], [-1])
            words.append(embedding(ops, word_ids, encoder.words))
        padding = self.inputs[CHARACTERS]["padding"]
        vectors = char_vectors(ops=ops, ids=ids[0], cnn=encoder, padding=padding, words=words)
        return vectors, index


def _stack(forward: paddle.Tensor, backward: paddle.Tensor) -> np.ndarray:
    """Return a weight of both directions, (D, ...)."""
    return np.stack([forward.numpy(), backward.numpy()])


def _initial_states(bilm: BiLM, vocabulary: Vocabulary | None) -> list[list[np.ndarray]]:
    """Compute h (D, P) and c (D, H) of each layer after `<S>` forward and `</S>` backward."""
    batch = token_batch([[]], bilm.config.input, vocabulary)
    indices = (batch.index[0, :1], batch.index[0, 1:])
    packing = Packing.from_lengths(np.array([1]))
    with paddle.no_grad():
        vectors = bilm.token_encoder(batch.tokens)
        _, states = bilm.lstm_layers(vectors, indices, packing)
    initial_states = []
    for (forward_h, forward_c), (backward_h, backward_c) in states:
        h = np.concatenate([forward_h.numpy(), backward_h.numpy()])
        c = np.concatenate([forward_c.numpy(), backward_c.numpy()])
        initial_states.append([h, c])
    return initial_states
