"""Models trained with the ELMo of PaddleNLP's examples: a `.pdparams` file and a vocabulary.

The network is a special case of ours: bilm-tf's character CNN; plain LSTMs, so H = P and the projection is the identity,
without clips, forget bias and skip connections. Its softmax predicts UNK, <S>, </S>, <PAD> and then the file's words; the
column of <PAD> is dropped. Its states were carried from batch to batch; ours start from zero.
"""

import re
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint
from elmo_core.weights.arrays import ForeignWeights, reorder_gates

TOKENS, LSTM = "_token_embding_layer", "_elmobilm"  # PaddleNLP's own spelling
MARKER_COLUMNS = [1, 2, 0]  # <S>, </S> and UNK among its UNK, <S>, </S>, <PAD>


def read(prefix: Path, vocabulary: Vocabulary) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """Read the model under our names, with a softmax if the file has one."""
    source = ForeignWeights(checkpoint.load_params(prefix), Path(f"{checkpoint.resolve(prefix)}{checkpoint.PARAMS}"))
    config = _config(source, vocabulary)
    weights = _token_weights(source, config)
    size, no_bias = config.projection_dim, np.zeros(4 * config.projection_dim, np.float32)
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs, ours = f"{LSTM}.{direction}_lstm_layer_{k}", f"{direction}_lstm.{k}"
            input_weight, recurrent_weight, *biases = (
                _lstm_name(source, theirs, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            gates = {
                "input_weight": source.take(input_weight, 4 * size, size).T,
                "recurrent_weight": source.take(recurrent_weight, 4 * size, size).T,
                "bias": sum((source.take(bias, 4 * size) for bias in biases if bias in source.datasets), no_bias),
            }
            weights |= {f"{ours}.{name}": reorder_gates(array, "ifgo") for name, array in gates.items()}
            weights[f"{ours}.projection_weight"] = np.eye(size, dtype=np.float32)
    if config.vocab_size:
        n_words = len(vocabulary) - len(SPECIAL_TOKENS)
        columns = [*MARKER_COLUMNS, *range(4, 4 + n_words)]
        weights["softmax.weight"] = source.take("_linear_layer.weight", size, 4 + n_words).T[columns]
        weights["softmax.bias"] = source.take("_linear_layer.bias", 4 + n_words)[columns, None]
    return config, weights


def _config(source: ForeignWeights, vocabulary: Vocabulary) -> ELMoConfig:
    """Infer the configuration from shapes, which are checked when the weights are taken."""

    def count(pattern: str) -> int:
        return len({match[1] for name in source.datasets if (match := re.fullmatch(pattern, name))})

    n_kernels = count(rf"{TOKENS}\.cnn_layer_(\d+)\.weight")
    kernels = [source.shape(f"{TOKENS}.cnn_layer_{k}.weight", 4) for k in range(n_kernels)]
    size = source.shape(_lstm_name(source, f"{LSTM}.forward_lstm_layer_0", "weight_ih"), 2)[1]
    return ELMoConfig(
        vocab_size=len(vocabulary) if "_linear_layer.weight" in source.datasets else 0,
        character_dim=source.shape(f"{TOKENS}._char_embedding_layer.weight", 2)[1],
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


def _lstm_name(source: ForeignWeights, layer: str, name: str) -> str:
    """The name of a weight of paddle.nn.LSTM, which depends on Paddle's version."""
    names = (f"{layer}.{name}_l0", f"{layer}.0.cell.{name}")
    return next((key for key in names if key in source.datasets), names[0])


def _token_weights(source: ForeignWeights, config: ELMoConfig) -> dict[str, np.ndarray]:
    size, n_filters = config.projection_dim, config.n_filters
    embedding = source.take(f"{TOKENS}._char_embedding_layer.weight", config.n_characters, config.character_dim)
    weights = {"embedding.weight": embedding, **source.convolutions(f"{TOKENS}.cnn_layer_", config, 1)}
    for k in range(config.n_highway):
        for gate in ("carry", "transform"):
            theirs, ours = f"{TOKENS}._highway_layer.{gate}_linear_{k}", f"highways.{k}.{gate}"
            weights[f"{ours}.weight"] = source.take(f"{theirs}.weight", n_filters, n_filters)
            weights[f"{ours}.bias"] = source.take(f"{theirs}.bias", n_filters)
    if n_filters != size:
        weights["projection.weight"] = source.take(f"{TOKENS}._linear_layer.weight", n_filters, size)
        weights["projection.bias"] = source.take(f"{TOKENS}._linear_layer.bias", size)
    return {f"token_encoder.{key}": np.ascontiguousarray(array) for key, array in weights.items()}
