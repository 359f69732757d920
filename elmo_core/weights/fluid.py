"""The parameter folder of Paddle Fluid's ELMo, as the published Baike checkpoint unpacks: a file for each variable.

    embedding_para                        (V, P)
    fw_layer1_gate_w, bw_layer1_gate_w .. (P, 4H)                  the input's product, without a bias
    lstmp_k.w_0, lstmp_k.b_0, lstmp_k.w_1 (P, 4H) (1, 4H) (H, P)   k counts the forward layers, then the backward ones
    softmax_weight, softmax_bias          (V, P) (V,)              the head, where there is one

The network is that of PaddlePaddle's ELMo for Fluid 1.4 (its lm_model.py and LAC_demo/bilm.py): a word table; gates in the
order candidate, input, forget, output; no forget bias, no peepholes; cell and projection clipped at 3; the projection's
activation is the identity; from the second layer on, a layer's input is added to its output. Its LAC demo took the
layers before that addition, left those of the backward direction reversed, and ran sentences without <S> and </S>; here
the layers are those that predict words, aligned, and with the marks, as in training.

A variable's file, little-endian: uint32 0, the version; uint64 number of levels of detail, 0 for a parameter; uint32 0,
the tensor's version; int32 length of a protobuf message; the message, Paddle's VarType.TensorDesc; the numbers.
"""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.machine.hdf5_file import quoted
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import import_paddle
from elmo_core.text.tokens import Vocabulary

HEADER = struct.Struct("<IQIi")  # version, levels of detail, the tensor's version, length of the description
DESCRIPTION = 64  # bytes at most; two dimensions take 24
CLIP = 3.0
NETWORK = re.compile(r"(fw|bw)_layer\d+_gate_w|lstmp_\d+\.[bw]_\d+")


@dataclass(frozen=True)
class Parameter:
    """A variable, and which of our weights it is."""

    name: str
    shape: tuple[int, ...]
    weight: str
    ours: tuple[int, ...]
    gates: bool = False  # its columns are gates, in Fluid's order


def layout(config: ELMoConfig, head: bool) -> Iterator[Parameter]:
    words, size, cell, n_layers = config.vocab_size, config.projection_dim, config.cell_dim, config.n_layers
    matrix, bias = (size, 4 * cell), (4 * cell,)
    yield Parameter("embedding_para", (words, size), "token_encoder.embedding.weight", (words, size))
    for d, (direction, short) in enumerate((("forward_lstm", "fw"), ("backward_lstm", "bw"))):
        for k in range(n_layers):
            ours, theirs = f"{direction}.{k}", f"lstmp_{d * n_layers + k}"
            yield Parameter(f"{short}_layer{k + 1}_gate_w", matrix, f"{ours}.input_weight", matrix, gates=True)
            yield Parameter(f"{theirs}.w_0", matrix, f"{ours}.recurrent_weight", matrix, gates=True)
            yield Parameter(f"{theirs}.b_0", (1, *bias), f"{ours}.bias", bias, gates=True)
            yield Parameter(f"{theirs}.w_1", (cell, size), f"{ours}.projection_weight", (cell, size))
    if head:
        yield Parameter("softmax_weight", (words, size), "softmax.weight", (words, size))
        yield Parameter("softmax_bias", (words,), "softmax.bias", (words, 1))


def read(folder: Path, vocabulary: Vocabulary) -> tuple[ELMoConfig, dict[str, np.ndarray]]:
    """The model in a folder of Fluid's variables, under our names. It has a head where the folder has a softmax."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected the folder of Paddle Fluid's ELMo. Unpack an archive first, by tar xf.")
    there = {path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}
    table, projection = (Variable(_need(folder, there, name)) for name in ("embedding_para", "lstmp_0.w_1"))
    for variable in (table, projection):
        if len(variable.shape) != 2:
            raise UserError(f"{variable.path}: {variable.path.name} is {variable.shape}, expected 2 dimensions.")
    config = ELMoConfig(
        input="word",
        vocab_size=len(vocabulary),
        projection_dim=table.shape[1],
        cell_dim=projection.shape[0],
        n_layers=max(1, sum(f"fw_layer{k}_gate_w" in there for k in range(1, len(there) + 1))),
        cell_clip=CLIP,
        proj_clip=CLIP,
        forget_bias=0.0,
    )
    items = list(layout(config, head=bool(there & {"softmax_weight", "softmax_bias"})))
    variables = [Variable(_need(folder, there, item.name)) for item in items]
    for item, variable in zip(items, variables, strict=True):
        variable.check(item.shape, config)
    if parts := [name for name in sorted(there.difference(item.name for item in items)) if NETWORK.fullmatch(name)]:
        raise UserError(f"{folder}: beside {config.n_layers} whole layers there are {quoted(parts)}, parts of others.")
    if others := sorted(there.difference(item.name for item in items)):
        log.warning(f"{folder}: {len(others)} files are no part of the model and left out: {quoted(others)}.")
    weights = {}
    for item, variable in zip(items, variables, strict=True):
        array = variable.read()
        if item.gates:
            candidate, *others = np.split(array, 4, axis=-1)
            array = np.concatenate([others[0], candidate, *others[1:]], axis=-1)
        weights[item.weight] = array.reshape(item.ours)
    return config, weights


def _need(folder: Path, there: set[str], name: str) -> Path:
    if name not in there:
        found = f"It has {quoted(sorted(there))}." if there else "It is empty."
        raise UserError(f"{folder}: there is no {name}, which Paddle Fluid's ELMo has. {found}")
    return folder / name


class Variable:
    """A variable's file, of which all but the numbers was read and verified."""

    def __init__(self, path: Path):
        self.path, size = path, path.stat().st_size
        with path.open("rb") as file:
            begin = file.read(HEADER.size + DESCRIPTION)
        if len(begin) < HEADER.size:
            raise self._fault(f"it has {size} bytes")
        version, levels, tensor_version, length = HEADER.unpack_from(begin)
        if version or tensor_version or levels:
            raise self._fault(
                f"its header has versions {version}, {tensor_version} and {levels} levels of detail, not 0"
            )
        self.offset = HEADER.size + length
        if not 0 < length <= DESCRIPTION or len(begin) < self.offset:
            raise self._fault(f"its description has {length} bytes")
        self.shape = self._shape(begin[HEADER.size : self.offset])
        expected = self.offset + 4 * math.prod(self.shape)
        if size != expected:
            raise self._fault(f"{self.shape} makes {expected:,} bytes, it has {size:,}: truncated, or damaged")

    def _fault(self, what: str) -> UserError:
        return UserError(f"{self.path} is not what Paddle Fluid writes for a variable: {what}.")

    def _shape(self, description: bytes) -> tuple[int, ...]:
        """The dimensions in a description, which must be of float32 numbers."""
        import_paddle()
        from google.protobuf.message import DecodeError
        from paddle.base.proto.framework_pb2 import VarType

        try:
            found = VarType.TensorDesc.FromString(description)
        except DecodeError as error:
            raise self._fault(f"its description is damaged ({error})") from error
        if found.data_type != VarType.FP32:
            raise self._fault(f"its numbers are of type {found.data_type}, expected {VarType.FP32}, float32")
        if not found.dims or not all(0 < dimension < 2**31 for dimension in found.dims):
            raise self._fault(f"its dimensions are {list(found.dims)}")
        return tuple(found.dims)

    def check(self, shape: tuple[int, ...], config: ELMoConfig) -> None:
        """Refuse a variable of another shape than the rest of the folder and the vocabulary lead to expect."""
        if self.shape == shape:
            return
        reason = f"{config.vocab_size:,} words in the vocabulary, P {config.projection_dim}, H {config.cell_dim}"
        raise UserError(f"{self.path}: {self.path.name} is {self.shape}, expected {shape} ({reason}).")

    def read(self) -> np.ndarray:
        """The numbers, in their shape."""
        array = np.fromfile(self.path, dtype="<f4", offset=self.offset).reshape(self.shape)
        if not np.isfinite(array).all():
            raise UserError(f"{self.path}: {self.path.name} has values that are not finite.")
        return array.astype(np.float32, copy=False)
