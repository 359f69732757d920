"""Checkpoints as TensorFlow writes them (format V2).

In them are ELMos: bilm-tf's training folders, TensorFlow Hub's modules.
"""

import json
import re
import struct
from pathlib import Path

import foreign
import numpy as np

MAGIC = 0xDB4775248B80FB57
RESTART = 3  # entries between restarts


def varint(n: int) -> bytes:
    """Groups of 7 bits, the lowest first; all bytes but the last have a highest bit."""
    if n < 128:
        return bytes([n])
    return bytes([n & 127 | 128]) + varint(n >> 7)


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message, which is left out if it is 0."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value) if value else b""


def entry(array: np.ndarray, shard: int, offset: int) -> bytes:
    """The message about a variable."""
    axes = b"".join(field(2, field(1, n)) for n in array.shape)
    fields = [
        field(1, {"f": 1, "i": 3}[array.dtype.kind]),
        field(2, axes),
        field(3, shard),
        field(4, offset),
        field(5, array.nbytes),
        varint(6 << 3 | 5) + bytes(4),  # a checksum, which is not read
    ]
    return b"".join(fields)


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A block of keys and values, with its type and checksum."""
    content = b""
    restarts = []
    last = b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % RESTART:
            while key[: shared + 1] == last[: shared + 1]:
                shared += 1
        else:
            restarts.append(len(content))
        content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        content += key[shared:] + value
        last = key
    restarts = restarts or [0]
    return content + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)) + bytes(5)


def handle(content: bytes, data: bytes) -> bytes:
    """The offset and the size of a block behind this content, without its type and checksum."""
    return varint(len(content)) + varint(len(data) - 5)


def table(entries: dict[bytes, bytes], size: int = 7) -> bytes:
    """A table with `size` entries per block."""
    rows = sorted(entries.items())
    content = b""
    handles = []
    for begin in range(0, len(rows), size):
        group = rows[begin : begin + size]
        last_key, _ = group[-1]
        data = block(group)
        handles.append((last_key, handle(content, data)))
        content += data
    footer = b""
    for data in (block([]), block(handles)):
        footer += handle(content, data)
        content += data
    return content + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def write(prefix: Path, arrays: dict[str, np.ndarray], shards: int = 1) -> None:
    """Write a checkpoint, its variables alternately in the shards."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    entries = {b"": field(1, shards) + field(3, field(1, 1))}
    contents = [b""] * shards
    for number, (name, array) in enumerate(sorted(arrays.items())):
        shard = number % shards
        entries[name.encode()] = entry(array, shard, len(contents[shard]))
        contents[shard] += array.tobytes()
    Path(f"{prefix}.index").write_bytes(table(entries))
    for shard, content in enumerate(contents):
        Path(f"{prefix}.data-{shard:05}-of-{shards:05}").write_bytes(content)


def training_name(name: str, one_layer: bool) -> str:
    """bilm-tf's name of a variable, in training, from its name in HDF5."""
    for theirs, ours in (("W_P_0", "projection/kernel"), ("W_0", "kernel"), ("B", "bias")):
        name = name.replace(f"LSTMCell/{theirs}", f"lstm_cell/{ours}")
    cell = "rnn" if one_layer else r"rnn/multi_rnn_cell/cell_\1"
    return "lm/" + re.sub(r"RNN/MultiRNNCell/Cell(\d)", cell, name)


def write_training(
    folder: Path,
    arrays: dict[str, np.ndarray],
    step: int = 20,
    shards: int = 1,
    one_layer: bool = False,
) -> None:
    """Write the checkpoint of a training, with Adagrad's accumulators.

    arrays: with their names in HDF5.
    """
    variables = {"global_step": np.array(step, np.float32)}
    for name, array in arrays.items():
        theirs = training_name(name, one_layer)
        variables[theirs] = array
        variables[f"{theirs}/Adagrad"] = np.ones_like(array)
    write(folder / f"model.ckpt-{step}", variables, shards)
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "/their/folder/model.ckpt-{step}"\n', encoding="utf-8"
    )


def write_module(
    folder: Path, arrays: dict[str, np.ndarray], mix: tuple[list[float], float], shards: int = 1
) -> None:
    """Write a module of arrays with their names in HDF5."""
    variables = {
        "aggregation/weights": np.array(mix[0], np.float32),
        "aggregation/scaling": np.array(mix[1], np.float32),
    }
    for name, array in arrays.items():
        if name in ("char_embed", "embedding"):
            array = np.concatenate([np.full_like(array[:1], 0.5), array])  # the row for padding
        cell, _, part = name.partition("LSTMCell/")
        part = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}.get(part)
        variables[f"bilm/{cell}rnn/lstm_cell/{part}" if part else f"bilm/{name}"] = array
    write(folder / "variables" / "variables", variables, shards)
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")


def write_options(folder: Path, lstm: dict, cnn: dict | None, **options) -> None:
    """Write the options.json of a training."""
    training = {
        "batch_size": 3,
        "unroll_steps": 5,
        "all_clip_norm_val": 10.0,
        "n_negative_samples_batch": 31,
    }
    options = {**foreign.options_of(lstm, cnn), **training, **options}
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
