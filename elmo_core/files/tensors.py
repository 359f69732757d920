"""Arrays in safetensors files, with a SHA-256 of their names, types, shapes and data in the metadata.

Safetensors cannot hold code, and notices truncation; the checksum notices any other change of the arrays.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import numpy as np
from safetensors import SafetensorError, numpy, safe_open

from elmo_core.files.disk import atomic_write, check_input
from elmo_core.messages import UserError

CHECKSUM = "sha256"


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] = MappingProxyType({})):
    """Write arrays of numbers or booleans, and texts by name. The file appears when it is complete on the disk."""
    arrays = {name: np.asarray(array, array.dtype.newbyteorder("="), order="C") for name, array in arrays.items()}
    content = numpy.save(arrays, {**metadata, CHECKSUM: _checksum(arrays)})
    with atomic_write(path, "wb") as file:
        file.write(content)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays. Raises a UserError if the file is damaged or has no checksum."""
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    if read_metadata(path).get(CHECKSUM) != _checksum(arrays):
        raise _damage(path, "the checksum is wrong")
    return arrays


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of all arrays, and nothing else."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_metadata(path: Path) -> dict[str, str]:
    """Read the texts by name, the checksum among them."""
    with _opened(path) as file:
        return file.metadata() or {}


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    check_input(Path(path), "a safetensors file")
    try:
        with safe_open(path, "numpy") as file:
            yield file
    except (SafetensorError, TypeError, ValueError) as error:  # the latter for types that NumPy does not have
        raise _damage(path, str(error)) from error


def _damage(path: Path, reason: str) -> UserError:
    return UserError(f"{path} is truncated or damaged ({reason}). Copy or create it again.")


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.name} {array.shape} ".encode())
        digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()
