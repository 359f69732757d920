"""Models trained with the ELMo of PaddleNLP's examples: a `.pdparams` file and a vocabulary.

The network is a special case of ours: bilm-tf's character CNN; plain LSTMs, so H = P and the projection is the identity,
without clips, forget bias and skip connections. Its softmax predicts UNK, <S>, </S>, <PAD> and then the file's words; the
column of <PAD> is dropped. Its states were carried from batch to batch; ours start from zero.
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

TOKENS, LSTM = "_token_embding_layer", "_elmobilm"  # PaddleNLP's own spelling
MARKER_COLUMNS = [1, 2, 0]  # <S>, </S> and UNK among its UNK, <S>, </S>, <PAD>


def read_paddlenlp(
    path: Path, arrays: dict[str, np.ndarray], vocabulary: Vocabulary
) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """Read the model in a file's arrays under our names, with a softmax if there is one."""
    source = ArrayFile(path, arrays)
    config = _config(source, vocabulary)
    return config, read_items(source, layout(config, source)) | identity_projections(config)


def layout(config: ELMoConfig, source: ArrayFile) -> Iterator[Item]:
    """List a model's arrays and the weights in them."""
    size, n_filters, encoder = config.projection_dim, config.n_filters, "token_encoder"
    table = f"{TOKENS}._char_embedding_layer.weight"
    yield Item(
        table, (config.n_characters, config.character_dim), {f"{encoder}.embedding.weight": same}
    )
    yield from convolutions(config, f"{TOKENS}.cnn_layer_", 1)
    for k in range(config.n_highway):
        for gate in ("carry", "transform"):
            theirs, ours = (
                f"{TOKENS}._highway_layer.{gate}_linear_{k}",
                f"{encoder}.highways.{k}.{gate}",
            )
            yield Item(f"{theirs}.weight", (n_filters, n_filters), {f"{ours}.weight": same})
            yield Item(f"{theirs}.bias", (n_filters,), {f"{ours}.bias": same})
    if n_filters != size:
        yield Item(
            f"{TOKENS}._linear_layer.weight",
            (n_filters, size),
            {f"{encoder}.projection.weight": same},
        )
        yield Item(f"{TOKENS}._linear_layer.bias", (size,), {f"{encoder}.projection.bias": same})
    reordered = gates("ifgo")
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs, ours = f"{LSTM}.{direction}_lstm_layer_{k}", f"{direction}_lstm.{k}"
            for name, weight in (("weight_ih", "input_weight"), ("weight_hh", "recurrent_weight")):
                matrix = {f"{ours}.{weight}": lambda array: reordered(array.T)}
                yield Item(_lstm_name(source, theirs, name), (4 * size, size), matrix)
            yield Item(
                _lstm_name(source, theirs, "bias_ih"), (4 * size,), {f"{ours}.bias": reordered}
            )
            if (
                second := _lstm_name(source, theirs, "bias_hh")
            ) in source.arrays:  # which older models lack
                yield Item(second, (4 * size,), {f"{ours}.bias": reordered})
    if config.vocab_size:
        n_words = config.vocab_size - len(SPECIAL_TOKENS)
        columns = [*MARKER_COLUMNS, *range(4, 4 + n_words)]
        yield Item(
            "_linear_layer.weight",
            (size, 4 + n_words),
            {"softmax.weight": lambda array: array.T[columns]},
        )
        yield Item(
            "_linear_layer.bias",
            (4 + n_words,),
            {"softmax.bias": lambda array: array[columns, None]},
        )


def _config(source: ArrayFile, vocabulary: Vocabulary) -> ELMoConfig:
    """Infer the configuration from shapes, which are checked when the weights are read."""

    def count(pattern: str) -> int:
        return len({match[1] for name in source.arrays if (match := re.fullmatch(pattern, name))})

    n_kernels = count(rf"{TOKENS}\.cnn_layer_(\d+)\.weight")
    kernels = [source.shape(f"{TOKENS}.cnn_layer_{k}.weight", 4) for k in range(n_kernels)]
    size = source.shape(_lstm_name(source, f"{LSTM}.forward_lstm_layer_0", "weight_ih"), 2)[1]
    return ELMoConfig(
        vocab_size=len(vocabulary) if "_linear_layer.weight" in source.arrays else 0,
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


def _lstm_name(source: ArrayFile, layer: str, name: str) -> str:
    """Return the name of a weight of paddle.nn.LSTM, which depends on Paddle's version."""
    names = (f"{layer}.{name}_l0", f"{layer}.0.cell.{name}")
    return next((key for key in names if key in source.arrays), names[0])
