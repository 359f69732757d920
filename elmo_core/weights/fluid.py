"""Paddle Fluid's ELMo, such as the published Baike checkpoint: a folder with one file per variable.

    embedding_para                        (V, P)
    fw_layer1_gate_w, bw_layer1_gate_w .. (P, 4H)                  input weights, without a bias
    lstmp_k.w_0, lstmp_k.b_0, lstmp_k.w_1 (P, 4H) (1, 4H) (H, P)   k: forward layers, then backward layers
    softmax_weight, softmax_bias          (V, P) (V,)              if there is one

The network is PaddlePaddle's ELMo for Fluid 1.4 (its lm_model.py and LAC_demo/bilm.py): a word table; gates in the order
candidate, input, forget, output; no forget bias, no peepholes; cell and projection clipped at 3; no activation after the
projection; skip connections from the second layer on. Its LAC demo took the layers before the skip connections, did not
reverse the backward direction again, and omitted <S> and </S>. Here the layers are those that predict words, aligned,
with <S> and </S>, as in training.

A variable's file is little-endian: uint32 version, 0; uint64 number of levels of detail, 0 for a parameter; uint32 version
of the tensor, 0; int32 length of a protobuf message; the message, Paddle's VarType.TensorDesc; the values.
"""

import math
import re
import struct
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.hdf5_file import quoted
from elmo_core.files.streams import damage_named
from elmo_core.machine.runtime import import_paddle
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights.arrays import ForeignWeights, reorder_gates

HEADER = struct.Struct("<IQIi")  # version, levels of detail, the tensor's version, length of the description
DESCRIPTION = 64  # maximum bytes; two dimensions take 24
CLIP = 3.0
NETWORK = re.compile(r"embedding_para|(fw|bw)_layer\d+_gate_w|lstmp_\d+\.[bw]_\d+|softmax_(weight|bias)")


def read(folder: Path, vocabulary: Vocabulary) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """Read a folder of Fluid's variables under our names, with a softmax if it contains one."""
    files = {path.name: path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}
    source = ForeignWeights({name: _variable(path) for name, path in files.items() if NETWORK.fullmatch(name)}, folder)
    config = ELMoConfig(
        input="word",
        vocab_size=len(vocabulary),
        projection_dim=source.shape("embedding_para", 2)[1],
        cell_dim=source.shape("lstmp_0.w_1", 2)[0],
        n_layers=max(1, sum(f"fw_layer{k}_gate_w" in files for k in range(1, len(files) + 1))),
        cell_clip=CLIP,
        proj_clip=CLIP,
        forget_bias=0.0,
    )
    log.info(f"assumed       cell and projection clip {CLIP:g}, which the folder does not record; see config.json")
    size, cell = config.projection_dim, config.cell_dim
    weights = {"token_encoder.embedding.weight": source.take("embedding_para", len(vocabulary), size)}
    for d, (direction, short) in enumerate((("forward_lstm", "fw"), ("backward_lstm", "bw"))):
        for k in range(config.n_layers):
            ours, theirs = f"{direction}.{k}", f"lstmp_{d * config.n_layers + k}"
            gates = {
                "input_weight": source.take(f"{short}_layer{k + 1}_gate_w", size, 4 * cell),
                "recurrent_weight": source.take(f"{theirs}.w_0", size, 4 * cell),
                "bias": source.take(f"{theirs}.b_0", 1, 4 * cell)[0],
            }
            weights |= {f"{ours}.{name}": reorder_gates(array, "gifo") for name, array in gates.items()}
            weights[f"{ours}.projection_weight"] = source.take(f"{theirs}.w_1", cell, size)
    if not source.unused.isdisjoint({"softmax_weight", "softmax_bias"}):
        weights["softmax.weight"] = source.take("softmax_weight", len(vocabulary), size)
        weights["softmax.bias"] = source.take("softmax_bias", len(vocabulary))[:, None]
    if unused := sorted(source.unused):
        complete = format_count(config.n_layers, "complete layers")
        raise UserError(f"{folder}: besides {complete} it has {quoted(unused)}, parts of others.")
    if others := sorted(files.keys() - source.datasets.keys()):
        log.warning(f"{folder}: ignoring {format_count(len(others), 'files')} outside the model: {quoted(others)}.")
    return config, weights


def _variable(path: Path) -> np.ndarray:
    """Map the values in a variable's file into memory, after checking everything else in it."""
    import_paddle()
    from paddle.base.proto.framework_pb2 import VarType

    with path.open("rb") as file, damage_named(path, "Expected a variable of Paddle Fluid."):
        begin, size = file.read(HEADER.size + DESCRIPTION), path.stat().st_size
        version, levels, tensor_version, length = HEADER.unpack_from(begin)
        offset = HEADER.size + length
        description = VarType.TensorDesc.FromString(begin[HEADER.size : offset])
        if version or tensor_version or levels:
            raise ValueError(
                f"its header has versions {version}, {tensor_version} and {levels} levels of detail, not 0"
            )
        if description.data_type != VarType.FP32:
            raise ValueError(f"its values have type {description.data_type}, expected {VarType.FP32}, float32")
        shape = tuple(description.dims)
        if not shape or min(shape) < 1 or size != offset + 4 * math.prod(shape):
            raise ValueError(f"its dimensions {shape} do not match its {size:,} bytes")
        return np.memmap(path, "<f4", "r", offset, shape)
