"""Checkpoints of TensorFlow (format V2), read without TensorFlow.

    PREFIX.index                  a table of LevelDB: the type, shape, shard, offset and size of each variable
    PREFIX.data-00000-of-00001    the values of a shard, little-endian

The table ends with a footer of 48 bytes: offset and size of the metaindex and of the block index, as varints; padding;
MAGIC. A block is a sequence of entries; the offsets of those that share nothing with the one before, and their number, each
uint32; a byte 0 (not compressed); a checksum. An entry has three varints (bytes of the key that it shares with the one
before, its other bytes, bytes of the value), key and value. The values in the block index are the offsets and sizes of the
other blocks. There the key "" is the header, and the others are variables; the values are protobuf messages.
"""

import itertools
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.foreign_files import damage_named

INDEX, MAGIC = ".index", 0xDB4775248B80FB57
TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}  # no weight has another


def read_tensorflow(path: Path) -> dict[str, np.ndarray]:
    """Map the variables of a checkpoint into memory. path: its file PREFIX.index."""
    check_input(path, "the index of a TensorFlow checkpoint")
    with damage_named(path):
        data, entries = path.read_bytes(), {b"": b""}
        if int.from_bytes(data[-8:], "little") != MAGIC:
            raise ValueError("it does not end like TensorFlow's format V2")
        handles = BytesIO(data[-48:])
        _, _, *block_index = (_varint(handles) for _ in range(4))
        for _, value in _block(data, *block_index):
            entries.update(_block(data, *map(_varint, itertools.repeat(BytesIO(value), 2))))
        n_shards, shards, variables = dict(_fields(entries.pop(b""))).get(1, 0), {}, {}
        for key, message in entries.items():
            fields = {3: 0, 4: 0, 5: 0, **dict(_fields(message))}
            shard = path.with_name(f"{path.stem}.data-{fields[3]:05d}-of-{n_shards:05d}")
            if shard not in shards:
                check_input(shard, "a part of this checkpoint")
                shards[shard] = np.memmap(shard, np.uint8, "r")
            if fields[1] in TYPES:
                shape = [
                    dict(_fields(axis)).get(1, 0)
                    for number, axis in _fields(fields.get(2, b""))
                    if number == 2
                ]
                values = shards[shard][fields[4] : fields[4] + fields[5]]
                variables[key.decode()] = values.view(TYPES[fields[1]]).reshape(shape)
        return variables


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block, which has `size` bytes before its type."""
    if data[offset + size]:
        raise ValueError(f"the block at {offset:,} is compressed")
    (n_restarts,) = struct.unpack_from("<I", data, offset + size - 4)
    block, key = BytesIO(data[offset : max(offset, offset + size - 4 * (n_restarts + 1))]), b""
    while block.tell() < len(block.getbuffer()):
        shared, own, length = (_varint(block) for _ in range(3))
        key = key[:shared] + block.read(own)
        yield key, block.read(length)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of a protobuf message's fields."""
    file = BytesIO(message)
    while file.tell() < len(message):
        number, kind = divmod(_varint(file), 8)
        value = (
            _varint(file)
            if kind in (0, 2)
            else int.from_bytes(file.read({1: 8, 5: 4}[kind]), "little")
        )
        yield number, file.read(value) if kind == 2 else value


def _varint(file: BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        (byte,) = file.read(1)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("it has a number of more than 10 bytes")
