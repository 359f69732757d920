"""Models trained with the ELMo of PaddleNLP's examples: a `.pdparams` file and a vocabulary.

The network is a special case of ours: bilm-tf's character CNN; plain LSTMs, so H = P and the
projection is the identity, without clips, forget bias and skip connections. Its softmax predicts
UNK, <S>, </S>, <PAD> and then the file's words; the column of <PAD> is dropped. Its states were
carried from batch to batch; ours start from zero.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.array_file import ArrayFile
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights.layout import (
    Item,
    convolutions,
    gates,
    identity_projections,
    read_items,
    same,
)

TOKENS = "_token_embding_layer"  # PaddleNLP's own spelling
LSTM = "_elmobilm"
MARKER_COLUMNS = [1, 2, 0]  # <S>, </S> and UNK among its UNK, <S>, </S>, <PAD>


def read_paddlenlp(
    path: Path, arrays: dict[str, np.ndarray], vocabulary: Vocabulary
) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """Read the model in a file's arrays under our names, with a softmax if there is one."""
    source = ArrayFile(path, arrays)
    config = _config(source, vocabulary)
    weights = read_items(source, layout(config, source))
    weights.update(identity_projections(config))
    return config, weights


def layout(config: ELMoConfig, source: ArrayFile) -> Iterator[Item]:
    """List a model's arrays and the weights in them."""
    yield from _character_layout(config)
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            yield from _lstm_layout(config, source, direction, k)
    if config.vocab_size:
        n_words = config.vocab_size - len(SPECIAL_TOKENS)
        columns = MARKER_COLUMNS + list(range(4, 4 + n_words))
        yield Item(
            "_linear_layer.weight",
            (config.projection_dim, 4 + n_words),
            {"softmax.weight": lambda array: array.T[columns]},
        )
        yield Item(
            "_linear_layer.bias",
            (4 + n_words,),
            {"softmax.bias": lambda array: array[columns, None]},
        )


def _character_layout(config: ELMoConfig) -> Iterator[Item]:
    """List the arrays of the character CNN."""
    size = config.projection_dim
    n_filters = config.n_filters
    yield Item(
        f"{TOKENS}._char_embedding_layer.weight",
        (config.n_characters, config.character_dim),
        {"token_encoder.embedding.weight": same},
    )
    yield from convolutions(config, f"{TOKENS}.cnn_layer_", 1)
    for k in range(config.n_highway):
        for gate in ("carry", "transform"):
            theirs = f"{TOKENS}._highway_layer.{gate}_linear_{k}"
            ours = f"token_encoder.highways.{k}.{gate}"
            yield Item(f"{theirs}.weight", (n_filters, n_filters), {f"{ours}.weight": same})
            yield Item(f"{theirs}.bias", (n_filters,), {f"{ours}.bias": same})
    if n_filters != size:
        theirs = f"{TOKENS}._linear_layer"
        ours = "token_encoder.projection"
        yield Item(f"{theirs}.weight", (n_filters, size), {f"{ours}.weight": same})
        yield Item(f"{theirs}.bias", (size,), {f"{ours}.bias": same})


def _lstm_layout(config: ELMoConfig, source: ArrayFile, direction: str, k: int) -> Iterator[Item]:
    """List the arrays of a layer in one direction."""
    size = config.projection_dim
    theirs = f"{LSTM}.{direction}_lstm_layer_{k}"
    ours = f"{direction}_lstm.{k}"
    reordered = gates("ifgo")
    for name, weight in (("weight_ih", "input_weight"), ("weight_hh", "recurrent_weight")):
        matrix = {f"{ours}.{weight}": lambda array: reordered(array.T)}
        yield Item(_lstm_name(source, theirs, name), (4 * size, size), matrix)
    bias = {f"{ours}.bias": reordered}
    yield Item(_lstm_name(source, theirs, "bias_ih"), (4 * size,), bias)
    second_bias = _lstm_name(source, theirs, "bias_hh")
    if second_bias in source.arrays:  # which older models lack
        yield Item(second_bias, (4 * size,), bias)


def _config(source: ArrayFile, vocabulary: Vocabulary) -> ELMoConfig:
    """Infer the configuration from shapes, which are checked when the weights are read."""
    n_kernels = _n_layers(source, rf"{TOKENS}\.cnn_layer_(\d+)\.weight")
    kernels = [source.shape(f"{TOKENS}.cnn_layer_{k}.weight", 4) for k in range(n_kernels)]
    first_lstm = _lstm_name(source, f"{LSTM}.forward_lstm_layer_0", "weight_ih")
    size = source.shape(first_lstm, 2)[1]
    return ELMoConfig(
        vocab_size=len(vocabulary) if "_linear_layer.weight" in source.arrays else 0,
        character_dim=source.shape(f"{TOKENS}._char_embedding_layer.weight", 2)[1],
        filters=tuple((width, number) for number, _, _, width in kernels),
        n_highway=_n_layers(source, rf"{TOKENS}\._highway_layer\.carry_linear_(\d+)\.weight"),
        projection_dim=size,
        cell_dim=size,
        n_layers=_n_layers(source, rf"{LSTM}\.forward_lstm_layer_(\d+)\..*weight_ih.*"),
        use_skip_connections=False,
        cell_clip=0.0,
        proj_clip=0.0,
        forget_bias=0.0,
    )


def _n_layers(source: ArrayFile, pattern: str) -> int:
    """Count the layers whose numbers are the pattern's group in the arrays' names."""
    matches = [re.fullmatch(pattern, name) for name in source.arrays]
    return len({match[1] for match in matches if match})


def _lstm_name(source: ArrayFile, layer: str, name: str) -> str:
    """Return the name of a weight of paddle.nn.LSTM, which depends on Paddle's version."""
    names = (f"{layer}.{name}_l0", f"{layer}.0.cell.{name}")
    return next((key for key in names if key in source.arrays), names[0])
