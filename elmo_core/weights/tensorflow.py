"""Checkpoints of TensorFlow (format V2), read without TensorFlow.

    PREFIX.index                  a table of LevelDB: the type, shape, shard, offset, size and checksum of each variable
    PREFIX.data-00000-of-00001    the values of a shard, little-endian

The table ends with a footer of 48 bytes: offset and size of the metaindex and of the block index, as varints; padding;
MAGIC. A block is a sequence of entries; the offsets of those that share nothing with the one before, and their number, each
uint32; a byte 0 (not compressed); the checksum of all that. An entry has three varints (bytes of the key that it shares
with the one before, its other bytes, bytes of the value), key and value. The values in the block index are the offsets and
sizes of the other blocks. There the key "" is the header, and the others are variables; the values are protobuf messages.

Checksums are CRC-32C (Castagnoli), rotated by 15 bits and increased by MASK. A CRC is linear: that of a sequence of bits is
the exclusive or of those of its bits. So LANES interleaved sequences of 32-bit words are computed at once, each step with
two lookups per lane, and then combined by halves.
"""

import itertools
import math
import re
import struct
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.hdf5_file import ArrayFile
from elmo_core.files.streams import damage_named

INDEX, MAGIC, MASK = ".index", 0xDB4775248B80FB57, 0xA282EAD8
MAX_INDEX, MAX_VARIABLES, MAX_NAME, MAX_AXES = 1 << 20, 10_000, 500, 8  # bytes, number, bytes, number
TYPES, OTHER = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}, "V1"  # OTHER stands for all others
POLYNOMIAL, LANES = 0x82F63B78, 1 << 13
START = np.array([0x641F6454], "<u4").view(np.uint8)  # leads from a state of zeros to the CRC's initial state of ones


class Variable(NamedTuple):
    """Where the values of a variable are."""

    shape: tuple[int, ...]
    dtype: np.dtype
    shard: Path
    offset: int
    size: int  # bytes
    checksum: int


class TensorFlowCheckpoint(ArrayFile):
    """The variables of a checkpoint. path: its file PREFIX.index."""

    def __init__(self, path: Path):
        check_input(path, "the index of a TensorFlow checkpoint")
        with damage_named(path):
            super().__init__(path, _read_index(path))

    def values(self, name: str) -> np.ndarray:
        """Read a variable. Verifies its checksum."""
        variable = self.datasets[name]
        values = np.memmap(variable.shard, np.uint8, "r", variable.offset, (variable.size,))
        if masked_crc32c(values) != variable.checksum:
            raise ValueError(f"wrong checksum in {variable.shard.name}")
        return values.view(variable.dtype).reshape(variable.shape)


def last_checkpoint(folder: Path) -> str:
    """The name of the folder's last checkpoint, from TensorFlow's file `checkpoint`; empty without one."""
    path = folder / "checkpoint"
    text = path.open("rb").read(MAX_INDEX).decode("utf-8", "replace") if path.is_file() else ""
    named = re.search(r'^model_checkpoint_path: "(?:.*[/\\])?(.+)"', text, re.M)
    return named[1] if named else ""


def _read_index(path: Path) -> dict[str, Variable]:
    """Read the table. The variables together are not larger than the files."""
    if path.stat().st_size > MAX_INDEX:
        raise ValueError(f"{path.stat().st_size:,} bytes, more than the index of any ELMo")
    data, entries = path.read_bytes(), {b"": b""}
    if int.from_bytes(data[-8:], "little") != MAGIC:
        raise ValueError("it does not end like TensorFlow's format V2")
    bytes_left, handles = len(data), BytesIO(data[-48:])
    _, _, *block_index = (_varint(handles) for _ in range(4))
    for _, value in _block(data, *block_index):
        offset, size = map(_varint, itertools.repeat(BytesIO(value), 2))
        bytes_left -= size
        entries.update(_block(data, offset, size))
        if bytes_left < 0 or len(entries) > MAX_VARIABLES:
            raise ValueError(f"its blocks overlap, or there are more than {MAX_VARIABLES:,} variables")
    header, sizes, variables = dict(_fields(entries.pop(b""))), {}, {}
    for key, message in entries.items():
        fields, name = {3: 0, 4: 0, 5: 0, 6: 0, **dict(_fields(message))}, key.decode()
        shard = path.with_name(f"{path.stem}.data-{fields[3]:05d}-of-{header.get(1, 0):05d}")
        check_input(shard, "a part of this checkpoint")
        sizes[shard] = shard.stat().st_size
        shape = tuple(dict(_fields(axis)).get(1, 0) for number, axis in _fields(fields.get(2, b"")) if number == 2)
        variable = Variable(shape, np.dtype(TYPES.get(fields[1], OTHER)), shard, fields[4], fields[5], fields[6])
        expected = math.prod(shape[:MAX_AXES]) * variable.dtype.itemsize
        if 2 in header or 7 in fields:
            raise ValueError("it is big-endian, or in slices, which no ELMo is")
        if variable.offset + variable.size > sizes[shard] or (variable.dtype != OTHER and variable.size != expected):
            raise ValueError(f"{name} does not fit its {variable.size:,} bytes in {shard.name}")
        variables[name] = variable
    if sum(variable.size for variable in variables.values()) > sum(sizes.values()):
        raise ValueError("its variables share bytes")
    return variables


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block, which has `size` bytes besides the type and the checksum."""
    kind, checksum = struct.unpack_from("<BI", data, offset + size)
    if kind or checksum != masked_crc32c(data[offset : offset + size + 1]):
        raise ValueError(f"the block at {offset:,} is {'compressed' if kind else 'damaged: wrong checksum'}")
    (n_restarts,) = struct.unpack_from("<I", data, offset + size - 4)
    block, key = BytesIO(data[offset : max(offset, offset + size - 4 * (n_restarts + 1))]), b""
    while block.tell() < len(block.getbuffer()):
        shared, own, length = (_varint(block) for _ in range(3))
        if shared > len(key) or shared + own > MAX_NAME:
            raise ValueError("it has an impossible name")
        key = key[:shared] + block.read(own)
        yield key, block.read(length)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of a protobuf message's fields."""
    file = BytesIO(message)
    while file.tell() < len(message):
        number, kind = divmod(_varint(file), 8)
        value = _varint(file) if kind in (0, 2) else int.from_bytes(file.read({1: 8, 5: 4}[kind]), "little")
        yield number, file.read(value) if kind == 2 else value


def _varint(file: BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        (byte,) = file.read(1)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("it has a number of more than 10 bytes")


def masked_crc32c(data: bytes | np.ndarray) -> int:
    """The masked CRC-32C of a sequence of bytes."""
    values, row = np.frombuffer(data, np.uint8), 4 * LANES
    n_first = len(values) % row  # fill one row or two from the right, after START: zeros before it change nothing
    first = np.zeros(row * (1 + (n_first + 4 > row)), np.uint8)
    first[len(first) - n_first - 4 :] = np.concatenate([START, values[:n_first]])
    state = np.zeros(LANES, np.uint32)
    for words in itertools.chain(*(part.view("<u4").reshape(-1, LANES) for part in (first, values[n_first:]))):
        state = _advance(state, LANES) ^ words
    while len(state) > 1:
        left, right = np.split(state, 2)
        state = _advance(left, len(left)) ^ right
    crc = ~int(_advance(state, 1)[0]) & 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def _advance(states: np.ndarray, words: int) -> np.ndarray:
    """The CRC's states after a number of words of zeros."""
    low, high = _tables(words)
    return low[states & 0xFFFF] ^ high[states >> 16]


@cache
def _tables(words: int) -> list[np.ndarray]:
    """The state after these words, a power of 2, for every value of its lower and of its upper 16 bits."""
    bits = np.left_shift(1, np.arange(32)).astype(np.uint32)
    for _ in range(32 if words == 1 else 2):
        bits = bits >> 1 ^ (bits & 1) * np.uint32(POLYNOMIAL) if words == 1 else _advance(bits, words // 2)
    tables = [np.zeros(1, np.uint32), np.zeros(1, np.uint32)]
    for number, bit in enumerate(bits):
        tables[number // 16] = np.concatenate([tables[number // 16], tables[number // 16] ^ bit])
    return tables
