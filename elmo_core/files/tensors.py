"""Arrays in safetensors files, with a checksum in the metadata.

Safetensors cannot hold code, and notice truncation. The checksum notices any flipped bit, but not
two equal changes that cancel out, such as two 64-bit words of an array swapped.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors import SafetensorError, numpy, safe_open

from elmo_core.files.disk import atomic_write, check_input
from elmo_core.messages import UserError

CHECKSUM = "checksum"  # the name of a text
ARRAY = "array"  # stands for an array among the values


def write_tensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] = MappingProxyType({})
):
    """Write arrays of numbers or booleans, and texts by name.

    The file appears when it is complete on the disk.
    """
    arrays = {
        name: np.asarray(array, array.dtype.newbyteorder("="), order="C")
        for name, array in arrays.items()
    }
    texts = dict(metadata)
    texts[CHECKSUM] = _checksum(arrays, metadata)
    content = numpy.save(arrays, texts)
    with atomic_write(path, "wb") as file:
        file.write(content)


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read all arrays, and the texts by name.

    Raises a UserError if the file is damaged or has no checksum.
    """
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
        metadata = file.metadata() or {}
    if metadata.pop(CHECKSUM, None) != _checksum(arrays, metadata):
        raise _damage(path, "the checksum is wrong")
    return arrays, metadata


def tensor_names(path: Path) -> list[str]:
    """Return the names of the arrays of a file, which are not read."""
    with _opened(path) as file:
        return list(file.keys())


def split_arrays(values: Any) -> tuple[dict[str, np.ndarray], Any]:
    """Return the arrays in nested dictionaries and lists, by their path in these.

    Also returns a copy of the values that has the paths in place of the arrays.
    """
    arrays: dict[str, np.ndarray] = {}
    rest = _move_arrays(values, "", arrays)
    return arrays, rest


def _move_arrays(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a copy of a value without its arrays, which are added to `arrays` by their path."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {ARRAY: path}
    if isinstance(value, Mapping):
        return {key: _move_arrays(part, f"{path}/{key}", arrays) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_move_arrays(part, f"{path}/{k}", arrays) for k, part in enumerate(value)]
    return value


def join_arrays(values: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo `split_arrays`."""
    if isinstance(values, list):
        return [join_arrays(part, arrays) for part in values]
    if not isinstance(values, dict):
        return values
    if values.keys() == {ARRAY}:
        return arrays[values[ARRAY]]
    return {key: join_arrays(part, arrays) for key, part in values.items()}


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    check_input(Path(path), "a safetensors file")
    try:
        with safe_open(path, "numpy") as file:
            yield file
    except (SafetensorError, TypeError, ValueError) as error:
        # A TypeError or ValueError is raised for types that NumPy does not have.
        raise _damage(path, str(error)) from error


def _damage(path: Path, reason: str) -> UserError:
    return UserError(f"{path} is truncated or damaged ({reason}). Copy or create it again.")


def digest(parts: Iterable[bytes | np.ndarray]) -> str:
    """The hexadecimal SHA-1 of bytes and arrays."""
    value = hashlib.sha1()
    for part in parts:
        value.update(part)
    return value.hexdigest()


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """Hash the texts, and of each array the name, type, shape and sum.

    To hash all bytes takes 40 times as long.
    """
    rows = [
        (name, array.dtype.name, array.shape, _sum_words(array))
        for name, array in sorted(arrays.items())
    ]
    return hashlib.sha256(json.dumps([dict(metadata), rows], sort_keys=True).encode()).hexdigest()


def _sum_words(array: np.ndarray) -> int:
    """Add up an array's 64-bit words, modulo 2**64; the last one is padded with zeros."""
    data = array.reshape(-1).view(np.uint8)
    whole = data.size - data.size % 8
    last = int.from_bytes(data[whole:].tobytes(), "little")
    return (int(data[:whole].view(np.uint64).sum()) + last) % 2**64
