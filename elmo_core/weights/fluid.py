"""Paddle Fluid's ELMo, such as the published Baike checkpoint: a folder, a file per variable.

    embedding_para                        (V, P)
    fw_layer1_gate_w, bw_layer1_gate_w .. (P, 4H)                  input weights, without a bias
    lstmp_k.w_0, lstmp_k.b_0, lstmp_k.w_1 (P, 4H) (1, 4H) (H, P)   k: forward, then backward layers
    softmax_weight, softmax_bias          (V, P) (V,)              if there is one

The network is PaddlePaddle's ELMo for Fluid 1.4 (its lm_model.py and LAC_demo/bilm.py): a word
table; gates in the order candidate, input, forget, output; no forget bias, no peepholes; cell and
projection clipped at 3; no activation after the projection; skip connections from the second layer
on. Its LAC demo took the layers before the skip connections, did not reverse the backward direction
again, and omitted <S> and </S>. Here the layers are those that predict words, aligned, with <S> and
</S>, as in training.

A variable's file is little-endian: uint32 version, 0; uint64 number of levels of detail, 0 for a
parameter; uint32 version of the tensor, 0; int32 length of a protobuf message; the message,
Paddle's VarType.TensorDesc; the values.
"""

import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.array_file import ArrayFile, quoted
from elmo_core.files.foreign_files import damage_named
from elmo_core.machine.runtime import import_paddle
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights.layout import Item, gates, read_items, same

# version, levels of detail, the tensor's version, length of the description
HEADER = struct.Struct("<IQIi")
DESCRIPTION = 64  # maximum bytes; two dimensions take 24
CLIP = 3.0
NETWORK = re.compile(
    r"embedding_para|(fw|bw)_layer\d+_gate_w|lstmp_\d+\.[bw]_\d+|softmax_(weight|bias)"
)


def read_fluid(folder: Path, vocabulary: Vocabulary) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """Read a folder of Fluid's variables under our names, with a softmax if it contains one."""
    paths = [path for path in folder.iterdir() if path.is_file()]
    names = {path.name for path in paths if NETWORK.fullmatch(path.name)}
    source = ArrayFile(folder, {name: _variable(folder / name) for name in names})
    first_layers = [name for name in names if re.fullmatch(r"fw_layer[1-9]\d*_gate_w", name)]
    config = ELMoConfig(
        input="word",
        vocab_size=len(vocabulary),
        projection_dim=source.shape("embedding_para", 2)[1],
        cell_dim=source.shape("lstmp_0.w_1", 2)[0],
        n_layers=max(1, len(first_layers)),
        cell_clip=CLIP,
        proj_clip=CLIP,
        forget_bias=0.0,
    )
    log.info(
        f"assumed       cell and projection clip {CLIP:g}, "
        "which the folder does not record; see config.json"
    )
    has_softmax = "softmax_weight" in names or "softmax_bias" in names
    weights = read_items(source, layout(config, has_softmax))
    if source.unused:
        complete = format_count(config.n_layers, "complete layers")
        raise UserError(
            f"{folder}: besides {complete} it has {quoted(sorted(source.unused))}, parts of others."
        )
    return config, weights


def layout(config: ELMoConfig, softmax: bool) -> Iterator[Item]:
    """List a model's variables and the weights in them."""
    words = config.vocab_size
    size = config.projection_dim
    cell = config.cell_dim
    reordered = gates("gifo")
    yield Item("embedding_para", (words, size), {"token_encoder.embedding.weight": same})
    number = 0  # of an LSTM
    for direction, short in (("forward_lstm", "fw"), ("backward_lstm", "bw")):
        for k in range(config.n_layers):
            ours = f"{direction}.{k}"
            inputs = f"{short}_layer{k + 1}_gate_w"
            theirs = f"lstmp_{number}"
            number += 1
            bias = {f"{ours}.bias": lambda array: reordered(array[0])}
            yield Item(inputs, (size, 4 * cell), {f"{ours}.input_weight": reordered})
            yield Item(f"{theirs}.w_0", (size, 4 * cell), {f"{ours}.recurrent_weight": reordered})
            yield Item(f"{theirs}.b_0", (1, 4 * cell), bias)
            yield Item(f"{theirs}.w_1", (cell, size), {f"{ours}.projection_weight": same})
    if softmax:
        yield Item("softmax_weight", (words, size), {"softmax.weight": same})
        yield Item("softmax_bias", (words,), {"softmax.bias": lambda array: array[:, None]})


def _variable(path: Path) -> np.ndarray:
    """Map the values in a variable's file into memory, after checking everything else in it."""
    import_paddle()
    from paddle.base.proto.framework_pb2 import VarType

    with path.open("rb") as file, damage_named(path, "Expected a variable of Paddle Fluid."):
        size = path.stat().st_size
        begin = file.read(HEADER.size + DESCRIPTION)
        version, levels, tensor_version, length = HEADER.unpack_from(begin)
        offset = HEADER.size + length
        description = VarType.TensorDesc.FromString(begin[HEADER.size : offset])
        if version or tensor_version or levels or description.data_type != VarType.FP32:
            raise ValueError(
                f"versions {version} and {tensor_version}, {levels} levels, "
                f"type {description.data_type}"
            )
        shape = tuple(description.dims)
        if not shape or min(shape) < 1 or size != offset + 4 * math.prod(shape):
            raise ValueError(f"its dimensions {shape} do not match its {size:,} bytes")
        return np.memmap(path, "<f4", "r", offset, shape)
