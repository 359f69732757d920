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
from elmo_core.text.tokens import MARKERS, Vocabulary
from elmo_core.weights.arrays import gates, take

TOKENS, LSTM = "_token_embding_layer", "_elmobilm"  # PaddleNLP's own spelling
MARKER_COLUMNS = [1, 2, 0]  # <S>, </S> and UNK among its UNK, <S>, </S>, <PAD>


def read(prefix: Path, vocabulary: Vocabulary) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """The model under our names, with its language-model head where the file has one."""
    found = checkpoint.load_params(prefix)
    path = checkpoint.resolve(prefix).with_name(checkpoint.resolve(prefix).name + checkpoint.PARAMS)
    config = _config(found, vocabulary, path)
    weights = _token_weights(found, config, path)
    size = config.projection_dim
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs, ours = f"{LSTM}.{direction}_lstm_layer_{k}", f"{direction}_lstm.{k}"
            parts = {name: _part(found, theirs, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
            weights[f"{ours}.input_weight"] = gates(take(found, parts["weight_ih"], (4 * size, size), path))
            weights[f"{ours}.recurrent_weight"] = gates(take(found, parts["weight_hh"], (4 * size, size), path))
            biases = [take(found, parts[n], (4 * size,), path) for n in ("bias_ih", "bias_hh") if parts[n] in found]
            weights[f"{ours}.bias"] = gates(sum(biases, np.zeros(4 * size, np.float32)))
            weights[f"{ours}.projection_weight"] = np.eye(size, dtype=np.float32)
    if config.vocab_size:
        n_words = len(vocabulary) - len(MARKERS)
        columns = [*MARKER_COLUMNS, *range(4, 4 + n_words)]
        weights["softmax.weight"] = take(found, "_linear_layer.weight", (size, 4 + n_words), path).T[columns]
        weights["softmax.bias"] = take(found, "_linear_layer.bias", (4 + n_words,), path)[columns, None]
    return config, weights


def _config(found: dict[str, np.ndarray], vocabulary: Vocabulary, path: Path) -> ELMoConfig:
    """What the shapes say. They are checked when the weights are taken."""

    def count(pattern: str) -> int:
        return len({match[1] for name in found if (match := re.fullmatch(pattern, name))})

    def shape(name: str, axes: int) -> tuple[int, ...]:
        if name not in found or found[name].ndim != axes:
            raise UserError(f"{path}: there is no {name} with {axes} axes: this is no ELMo of PaddleNLP.")
        return found[name].shape

    kernels = [shape(f"{TOKENS}.cnn_layer_{k}.weight", 4) for k in range(count(rf"{TOKENS}\.cnn_layer_(\d+)\.weight"))]
    first = _part(found, f"{LSTM}.forward_lstm_layer_0", "weight_ih")
    return ELMoConfig(
        vocab_size=len(vocabulary) if "_linear_layer.weight" in found else 0,
        character_dim=shape(f"{TOKENS}._char_embedding_layer.weight", 2)[1],
        filters=tuple((kernel[3], kernel[0]) for kernel in kernels),
        n_highway=count(rf"{TOKENS}\._highway_layer\.carry_linear_(\d+)\.weight"),
        projection_dim=shape(first, 2)[1],
        cell_dim=shape(first, 2)[1],
        n_layers=count(rf"{LSTM}\.forward_lstm_layer_(\d+)\..*weight_ih.*"),
        use_skip_connections=False,
        cell_clip=0.0,
        proj_clip=0.0,
        forget_bias=0.0,
    )


def _part(found: dict[str, np.ndarray], layer: str, name: str) -> str:
    """The key of a weight of paddle.nn.LSTM, by any of the names that its versions have given it."""
    names = (f"{layer}.{name}_l0", f"{layer}.0.cell.{name}")
    return next((key for key in names if key in found), names[0])


def _token_weights(found: dict[str, np.ndarray], config: ELMoConfig, path: Path) -> dict[str, np.ndarray]:
    name, dim = f"{TOKENS}._char_embedding_layer.weight", config.character_dim
    n_filters = sum(number for _, number in config.filters)
    weights = {"embedding.weight": take(found, name, (config.n_characters, dim), path)}
    for k, (width, number) in enumerate(config.filters):
        kernel = take(found, f"{TOKENS}.cnn_layer_{k}.weight", (number, dim, 1, width), path)
        weights[f"convolutions.{k}.weight"] = kernel[:, :, 0].transpose(2, 1, 0).reshape(width * dim, number)
        weights[f"convolutions.{k}.bias"] = take(found, f"{TOKENS}.cnn_layer_{k}.bias", (number,), path)
    for k in range(config.n_highway):
        for gate in ("carry", "transform"):
            theirs, ours = f"{TOKENS}._highway_layer.{gate}_linear_{k}", f"highways.{k}.{gate}"
            weights[f"{ours}.weight"] = take(found, f"{theirs}.weight", (n_filters, n_filters), path)
            weights[f"{ours}.bias"] = take(found, f"{theirs}.bias", (n_filters,), path)
    if n_filters != config.projection_dim:
        theirs = f"{TOKENS}._linear_layer"
        weights["projection.weight"] = take(found, f"{theirs}.weight", (n_filters, config.projection_dim), path)
        weights["projection.bias"] = take(found, f"{theirs}.bias", (config.projection_dim,), path)
    return {f"token_encoder.{key}": np.ascontiguousarray(array) for key, array in weights.items()}
