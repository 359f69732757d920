"""Checkpoints of TensorFlow (format V2), read without TensorFlow.

    PREFIX.index                  a table of LevelDB: the type, shape, shard, offset and size of
                                  each variable
    PREFIX.data-00000-of-00001    the values of a shard, little-endian

The table ends with a footer of 48 bytes: offset and size of the metaindex and of the block index,
as varints; padding; MAGIC. A block is a sequence of entries; the offsets of those that share
nothing with the one before, and their number, each uint32; a byte 0 (not compressed); a checksum.
An entry has three varints (bytes of the key that it shares with the one before, its other bytes,
bytes of the value), key and value. The values in the block index are the offsets and sizes of the
other blocks. There the key "" is the header, and the others are variables; the values are protobuf
messages.
"""

import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.foreign_files import damage_named

INDEX = ".index"
MAGIC = 0xDB4775248B80FB57
FOOTER = 48  # bytes
TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}  # no weight has another

# numbers of fields: of the header, of a variable (BundleEntryProto), of its shape and of an axis
N_SHARDS = 1
TYPE = 1
SHAPE = 2
SHARD = 3
OFFSET = 4
SIZE = 5
AXIS = 2
AXIS_SIZE = 1
# what protobuf calls wire types
VARINT = 0
FIXED_64 = 1
BYTES = 2
FIXED_32 = 5
FIXED_SIZES = {FIXED_64: 8, FIXED_32: 4}


def read_tensorflow(path: Path) -> dict[str, np.ndarray]:
    """Map the variables of a checkpoint into memory. path: its file PREFIX.index."""
    check_input(path, "the index of a TensorFlow checkpoint")
    with damage_named(path):
        entries = _entries(path.read_bytes())
        header = dict(_fields(entries.pop(b"")))
        n_shards = header.get(N_SHARDS, 0)
        shards: dict[Path, np.ndarray] = {}
        variables = {}
        for key, message in entries.items():
            fields = dict(_fields(message))
            number = fields.get(SHARD, 0)
            shard = path.with_name(f"{path.stem}.data-{number:05d}-of-{n_shards:05d}")
            if shard not in shards:
                check_input(shard, "a part of this checkpoint")
                shards[shard] = np.memmap(shard, np.uint8, "r")
            if fields[TYPE] in TYPES:
                begin = fields.get(OFFSET, 0)
                values = shards[shard][begin : begin + fields.get(SIZE, 0)]
                shape = _shape(fields.get(SHAPE, b""))
                variables[key.decode()] = values.view(TYPES[fields[TYPE]]).reshape(shape)
        return variables


def _entries(data: bytes) -> dict[bytes, bytes]:
    """Return the keys and values of a table."""
    if int.from_bytes(data[-8:], "little") != MAGIC:
        raise ValueError("it does not end like TensorFlow's format V2")
    footer = BytesIO(data[-FOOTER:])
    _handle(footer)  # of the metaindex
    offset, size = _handle(footer)
    entries = {b"": b""}
    for _, handle in _block(data, offset, size):
        offset, size = _handle(BytesIO(handle))
        entries.update(_block(data, offset, size))
    return entries


def _handle(file: BytesIO) -> tuple[int, int]:
    """Read the offset and the size of a block."""
    offset = _varint(file)
    size = _varint(file)
    return offset, size


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block, which has `size` bytes before its type."""
    end = offset + size
    if data[end]:
        raise ValueError(f"the block at {offset:,} is compressed")
    (n_restarts,) = struct.unpack_from("<I", data, end - 4)
    end_of_entries = end - 4 * (n_restarts + 1)
    block = BytesIO(data[offset : max(offset, end_of_entries)])
    key = b""
    while block.tell() < len(block.getbuffer()):
        shared = _varint(block)
        own = _varint(block)
        length = _varint(block)
        key = key[:shared] + block.read(own)
        yield key, block.read(length)


def _shape(message: bytes) -> list[int]:
    """Read a variable's shape. An axis of size 0 has no field."""
    axes = [dict(_fields(value)) for number, value in _fields(message) if number == AXIS]
    return [axis.get(AXIS_SIZE, 0) for axis in axes]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of a protobuf message's fields."""
    file = BytesIO(message)
    while file.tell() < len(message):
        number, wire_type = divmod(_varint(file), 8)
        if wire_type == VARINT:
            yield number, _varint(file)
        elif wire_type == BYTES:
            length = _varint(file)
            yield number, file.read(length)
        else:
            yield number, int.from_bytes(file.read(FIXED_SIZES[wire_type]), "little")


def _varint(file: BytesIO) -> int:
    """Read a number in groups of 7 bits, the lowest first; the last byte has no highest bit."""
    value = 0
    for shift in range(0, 70, 7):
        (byte,) = file.read(1)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("it has a number of more than 10 bytes")
