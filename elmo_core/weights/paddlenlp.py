"""The ELMo of PaddleNLP's examples, as its users have trained it: a `.pdparams` of its network, and a vocabulary.

Its network is a case of ours: the character CNN of bilm-tf; plain LSTMs, so that H = P and the projection is the identity,
without clips, forget bias and skip connections. Its softmax predicts UNK, <S>, </S>, <PAD> and then the file's words; we
have no <PAD>, whose column is left out. Its states went on from batch to batch for ever; ours start from zero.
"""

import re
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights.arrays import Arrays, reorder_gates

TOKENS, LSTM = "_token_embding_layer", "_elmobilm"  # PaddleNLP's own spelling
MARKER_COLUMNS = [1, 2, 0]  # <S>, </S> and UNK among its UNK, <S>, </S>, <PAD>


def read(prefix: Path, vocabulary: Vocabulary) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """The model under our names, with its language-model head where the file has one."""
    found = Arrays(checkpoint.load_params(prefix), Path(f"{checkpoint.resolve(prefix)}{checkpoint.PARAMS}"))
    config = _config(found, vocabulary)
    weights = _token_weights(found, config)
    size = config.projection_dim
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs, ours = f"{LSTM}.{direction}_lstm_layer_{k}", f"{direction}_lstm.{k}"
            input_weight, recurrent_weight, *biases = (
                _part(found, theirs, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            parts = {
                "input_weight": found.take(input_weight, 4 * size, size).T,
                "recurrent_weight": found.take(recurrent_weight, 4 * size, size).T,
                "bias": sum(
                    (found.take(b, 4 * size) for b in biases if b in found.arrays), np.zeros(4 * size, np.float32)
                ),
            }
            weights |= {f"{ours}.{name}": reorder_gates(array, "ifgo") for name, array in parts.items()}
            weights[f"{ours}.projection_weight"] = np.eye(size, dtype=np.float32)
    if config.vocab_size:
        n_words = len(vocabulary) - len(SPECIAL_TOKENS)
        columns = [*MARKER_COLUMNS, *range(4, 4 + n_words)]
        weights["softmax.weight"] = found.take("_linear_layer.weight", size, 4 + n_words).T[columns]
        weights["softmax.bias"] = found.take("_linear_layer.bias", 4 + n_words)[columns, None]
    return config, weights


def _config(found: Arrays, vocabulary: Vocabulary) -> ELMoConfig:
    """What the shapes say. They are checked when the weights are taken."""

    def count(pattern: str) -> int:
        return len({match[1] for name in found.arrays if (match := re.fullmatch(pattern, name))})

    def shape(name: str, axes: int) -> tuple[int, ...]:
        if name not in found.arrays or found.arrays[name].ndim != axes:
            raise UserError(f"{found.path}: there is no {name} with {axes} axes: this is no ELMo of PaddleNLP.")
        return found.arrays[name].shape

    kernels = [shape(f"{TOKENS}.cnn_layer_{k}.weight", 4) for k in range(count(rf"{TOKENS}\.cnn_layer_(\d+)\.weight"))]
    size = shape(_part(found, f"{LSTM}.forward_lstm_layer_0", "weight_ih"), 2)[1]
    return ELMoConfig(
        vocab_size=len(vocabulary) if "_linear_layer.weight" in found.arrays else 0,
        character_dim=shape(f"{TOKENS}._char_embedding_layer.weight", 2)[1],
        filters=tuple((kernel[3], kernel[0]) for kernel in kernels),
        n_highway=count(rf"{TOKENS}\._highway_layer\.carry_linear_(\d+)\.weight"),
        projection_dim=size,
        cell_dim=size,
        n_layers=count(rf"{LSTM}\.forward_lstm_layer_(\d+)\..*weight_ih.*"),
        use_skip_connections=False,
        cell_clip=0.0,
        proj_clip=0.0,
        forget_bias=0.0,
    )


def _part(found: Arrays, layer: str, name: str) -> str:
    """The key of a weight of paddle.nn.LSTM, by any of the names that its versions have given it."""
    names = (f"{layer}.{name}_l0", f"{layer}.0.cell.{name}")
    return next((key for key in names if key in found.arrays), names[0])


def _token_weights(found: Arrays, config: ELMoConfig) -> dict[str, np.ndarray]:
    size, n_filters = config.projection_dim, config.n_filters
    embedding = found.take(f"{TOKENS}._char_embedding_layer.weight", config.n_characters, config.character_dim)
    weights = {"embedding.weight": embedding, **found.convolutions(f"{TOKENS}.cnn_layer_", config, 1)}
    for k in range(config.n_highway):
        for gate in ("carry", "transform"):
            theirs, ours = f"{TOKENS}._highway_layer.{gate}_linear_{k}", f"highways.{k}.{gate}"
            weights[f"{ours}.weight"] = found.take(f"{theirs}.weight", n_filters, n_filters)
            weights[f"{ours}.bias"] = found.take(f"{theirs}.bias", n_filters)
    if n_filters != size:
        weights["projection.weight"] = found.take(f"{TOKENS}._linear_layer.weight", n_filters, size)
        weights["projection.bias"] = found.take(f"{TOKENS}._linear_layer.bias", size)
    return {f"token_encoder.{key}": np.ascontiguousarray(array) for key, array in weights.items()}
