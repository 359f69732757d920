"""The biLM as a part of exported networks.

Letters: B sentences, T tokens of the longest, N distinct tokens, P projection, H cell. D is the axis of the two directions.

Each distinct token of a batch is encoded once, over only as many character columns as the longest token needs. The special
tokens at a sentence's two ends are the same for all sentences: the LSTM states after them are computed at export, as
initial states.
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
from elmo_core.text.tokens import token_batch
from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_tools.export.paddle_graph import Array
from elmo_tools.export.parts import char_vectors, embedding, lstm
from elmo_tools.export.sentences import Sentences

CHARACTERS, WORDS = "characters", "words"  # names of its inputs


def byte_input(axes: Sequence[str], columns: int = MAX_CHARS) -> dict[str, Any]:
    """Return the entry in inputs.json of tokens as bytes."""
    return {
        "shape": [*axes, columns],
        "padding": 261,
        "meaning": "its bytes + 1 between 259 and 260, then 261",
    }


def word_input(table: str, axes: Sequence[str], unknown: int, **more: Any) -> dict[str, Any]:
    """Return the entry of tokens as line numbers in a table of words."""
    meaning = f"line in {table}, from 0; of unknown words {unknown}"
    return {
        "shape": [*axes],
        "padding": 0,
        "table": table,
        "unknown": unknown,
        "meaning": meaning,
        **more,
    }


class ELMoPart:
    """The chosen layers. axes: of its tokens. inputs: their entries in inputs.json. files: the tables of these."""

    def __init__(
        self, bilm: BiLM, vocabulary: Vocabulary | None, choice: LayerChoice, axes: Sequence[str]
    ):
        self.bilm, self.config, self.choice, self.inputs, self.files = (
            bilm,
            bilm.config,
            choice,
            {},
            {},
        )
        self.initial_states = _initial_states(bilm, vocabulary)
        has_code_points = self.config.alphabet != "bytes"
        if has_code_points and self.config.reads_characters:
            ids, table = vocabulary.alphabet.ids, f"{CHARACTERS}.json"
            self.files[table] = json.dumps(ids, ensure_ascii=False) + "\n"
            values = {
                "padding": ids[CodePoints.PAD],
                "table": table,
                "meaning": f"its characters by {table}",
            }
            self.inputs[CHARACTERS] = {"shape": [*axes, MAX_CHARS], **values}
        elif self.config.reads_characters:
            self.inputs[CHARACTERS] = byte_input(axes, self.config.max_characters)
        if self.config.reads_words:
            table, more = f"{WORDS}.txt", {"longest": MAX_BYTES} if has_code_points else {}
            self.inputs[WORDS] = word_input(table, axes, UNK_ID, **more)
            self.files[table] = "\n".join(vocabulary.tokens) + "\n"

    def layers(self, batch: Sentences) -> list[Array]:
        """Return the chosen layers, each (B, T, 2P), not masked."""
        ops, config, width = batch.ops, self.config, self.config.projection_dim
        token = batch.of_tokens(*self._token_vectors(batch), width)  # (B, T, P)
        layers, x = [ops.concat([token, token], axis=2)], batch.both(token, width)  # (D, B, T, P)
        for layer in range(self.choice.max_layer):
            directions = (
                lstms[layer].weights()
                for lstms in (self.bilm.forward_lstm, self.bilm.backward_lstm)
            )
            weights = [
                np.stack([x.numpy() for x in pair]) for pair in zip(*directions, strict=True)
            ]
            weights[2][:, 2 * config.cell_dim : 3 * config.cell_dim] += config.forget_bias
            y = lstm(
                batch, x, weights, self.initial_states[layer], (config.cell_clip, config.proj_clip)
            )
            x = y + x if layer and config.use_skip_connections else y
            layers.append(batch.aligned(x, width))
        return [
            layer for (layer,) in self.choice.select([(layer,) for layer in layers])
        ]  # both directions in one

    def _token_vectors(self, batch: Sentences) -> tuple[Array, Array]:
        """Compute vectors (N, P) of the distinct tokens, and each token's index among them (B * T,)."""
        ops, encoder = batch.ops, self.bilm.token_encoder
        ids, inverse = batch.distinct(*self.inputs)
        if not self.config.reads_characters:
            return embedding(ops, ops.reshape(ids[0], [-1]), encoder.embedding), inverse
        words = [embedding(ops, ops.reshape(word_ids, [-1]), encoder.words) for word_ids in ids[1:]]
        return char_vectors(
            ops, ids[0], encoder, self.inputs[CHARACTERS]["padding"], words
        ), inverse


def _initial_states(bilm: BiLM, vocabulary: Vocabulary | None) -> list[list[np.ndarray]]:
    """Compute h (D, P) and c (D, H) of each layer after `<S>` forward and `</S>` backward."""
    batch, packing = (
        token_batch([[]], bilm.config.input, vocabulary),
        Packing.from_lengths(np.array([1])),
    )
    with paddle.no_grad():
        vectors = bilm.token_encoder(batch.tokens)
        _, states = bilm.lstm_layers(vectors, (batch.index[0, :1], batch.index[0, 1:]), packing)
    return [
        [np.concatenate([x.numpy() for x in both]) for both in zip(*pair, strict=True)]
        for pair in states
    ]
