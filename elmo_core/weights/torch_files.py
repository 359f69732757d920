"""Read PyTorch's state dictionaries, {name: array}, without PyTorch and without running code.

There are two formats. The new one is a zip archive: `data.pkl`, a pickle, and `data/0`, `data/1` ..., the values of each
storage. The old one is a sequence of pickles (magic, version, machine, the object, the keys of its storages) followed, per
key, by the number of elements and the values. In both, a pickled tensor is a call with a storage, an offset, a shape and
strides.
"""

import io
import math
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.files import pickles
from elmo_core.files.disk import check_input
from elmo_core.files.streams import damage_named

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001  # of the old format
MAX_SHARED = 3  # tensors may share their values, but not more
TYPES = {"FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2"}
TYPES |= {"LongStorage": "i8", "IntStorage": "i4", "ByteStorage": "u1"}


@dataclass(frozen=True)
class Storage:
    """A block of values that tensors refer to."""

    key: str
    dtype: np.dtype
    elements: int


@dataclass(frozen=True)
class Tensor:
    """A view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements

    def array(self, values: np.ndarray) -> np.ndarray:
        """The tensor as a contiguous array, from the values of its storage."""
        if not math.prod(self.shape):
            return np.zeros(self.shape, self.storage.dtype)
        last = self.offset + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        if last >= len(values) or math.prod(self.shape) > len(values):
            raise pickle.UnpicklingError("a tensor reaches beyond its storage")
        strides = [stride * values.itemsize for stride in self.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(values[self.offset :], self.shape, strides))


def _storage(identity: tuple) -> Storage:
    """Return a storage. identity: ('storage', type, key, device, elements), and in the old format None for a view."""
    kind, name, key, _, elements, *view = identity
    valid = kind == "storage" and name in TYPES and isinstance(key, str) and view in ([], [None])
    if not valid or type(elements) is not int or elements < 0:
        raise pickle.UnpicklingError("it has an unknown kind of storage")
    return Storage(key, np.dtype(TYPES[name]).newbyteorder("<"), elements)


def _tensor(storage: Storage, offset: int, shape: tuple, strides: tuple, *_: Any) -> Tensor:
    numbers = (offset, *shape, *strides)
    valid = isinstance(storage, Storage) and all(type(n) is int and 0 <= n < 2**48 for n in numbers)
    if not valid or len(shape) != len(strides) or len(shape) > pickles.MAX_AXES:
        raise pickle.UnpicklingError("it has an unknown kind of tensor")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


KNOWN = {**pickles.KNOWN, "persistent id": _storage}
KNOWN |= dict.fromkeys(("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2"), _tensor)
KNOWN |= {f"{module} {name}": name for module in ("torch", "torch.cuda") for name in TYPES}


def read(path: Path, expected: str = "a state dictionary") -> Any:
    """Read a file written by `torch.save(module.state_dict(), path)`; expected="an array": by torch.save(array, path)."""
    check_input(path, "a file of PyTorch's weights")
    with damage_named(path, f"Expected {expected} of PyTorch."):
        content, values_of = (_open_new if zipfile.is_zipfile(path) else _open_old)(path)
        if expected == "an array" and isinstance(content, np.ndarray):
            return content
        is_state = isinstance(content, dict) and all(isinstance(value, Tensor) for value in content.values())
        if expected == "an array" or not is_state or not all(isinstance(name, str) for name in content):
            raise pickle.UnpicklingError(f"it is not {expected}")
        total_bytes = sum(math.prod(tensor.shape) * tensor.storage.dtype.itemsize for tensor in content.values())
        if total_bytes > MAX_SHARED * path.stat().st_size:
            raise pickle.UnpicklingError("its tensors would take far more memory than the file has bytes")
        storages = {tensor.storage: None for tensor in content.values()}
        storages = {storage: values_of(storage) for storage in storages}  # each is read once
        return {name: tensor.array(storages[tensor.storage]) for name, tensor in content.items()}


def _open_new(path: Path) -> tuple[Any, Callable[[Storage], np.ndarray]]:
    archive = zipfile.ZipFile(path)
    (pickle_name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    folder, bytes_left = pickle_name.removesuffix("data.pkl"), path.stat().st_size

    def member(name: str) -> bytes:
        nonlocal bytes_left
        info = archive.getinfo(folder + name)
        bytes_left -= info.file_size
        if info.compress_type != zipfile.ZIP_STORED or bytes_left < 0:
            raise pickle.UnpicklingError(f"its {name} is compressed, which PyTorch's files never are")
        return archive.read(info)

    data = member("data.pkl")
    content, _ = pickles.load(io.BytesIO(data), len(data), KNOWN)
    return content, lambda storage: np.frombuffer(member(f"data/{storage.key}"), storage.dtype)


def _open_old(path: Path) -> tuple[Any, Callable[[Storage], np.ndarray]]:
    storages: dict[str, np.ndarray] = {}
    with path.open("rb") as file:
        size = path.stat().st_size
        magic, version, _, content, keys = (pickles.load(file, size - file.tell(), KNOWN)[0] for _ in range(5))
        if (magic, version) != (MAGIC, VERSION):
            raise pickle.UnpicklingError("it does not begin like a PyTorch file")
        tensors = content.values() if isinstance(content, dict) else []
        known = {tensor.storage.key: tensor.storage for tensor in tensors if isinstance(tensor, Tensor)}
        for key in map(str, keys):
            (elements,) = struct.unpack("<q", file.read(8))
            if key not in known or elements != known[key].elements or elements * known[key].dtype.itemsize > size:
                raise pickle.UnpicklingError(f"storage {key} has {elements} elements, which no tensor uses")
            data = file.read(elements * known[key].dtype.itemsize)
            storages[key] = np.frombuffer(data, known[key].dtype, elements)
    return content, lambda storage: storages[storage.key]
