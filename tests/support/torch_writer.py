"""Writes state dictionaries as `torch.save` does, without PyTorch: a zip archive, or as before.

Held against PyTorch 2.13's own files by hand: the same reader reads both.
"""

import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path
from unittest import mock

import numpy as np


class FloatStorage:
    """Pickled as the class torch.FloatStorage."""


def _rebuild_tensor_v2():
    """Pickled as torch._utils._rebuild_tensor_v2."""


FloatStorage.__module__ = "torch"
_rebuild_tensor_v2.__module__ = "torch._utils"


class _Tensor:
    def __init__(self, key: str, array: np.ndarray, device: str):
        self.key = key
        self.array = array
        self.device = device

    def __reduce__(self):
        strides = tuple(stride // self.array.itemsize for stride in self.array.strides)
        storage = _Storage(self.key, self.array.size, self.device)
        return _rebuild_tensor_v2, (storage, 0, self.array.shape, strides, False, OrderedDict())


class _Storage:
    def __init__(self, key: str, elements: int, device: str):
        self.key = key
        self.elements = elements
        self.device = device


class _Pickler(pickle.Pickler):
    def __init__(self, file, old: bool):
        super().__init__(file, protocol=2)
        self.old = old

    def persistent_id(self, value):
        if not isinstance(value, _Storage):
            return None
        identity = ("storage", FloatStorage, value.key, value.device, value.elements)
        return (*identity, None) if self.old else identity


def save(arrays: dict[str, np.ndarray], path: Path, old: bool, device: str = "cuda:0") -> None:
    """Write arrays, in float32. old: not as a zip archive."""
    arrays = {name: np.ascontiguousarray(array, "<f4") for name, array in arrays.items()}
    content = OrderedDict()
    for k, (name, array) in enumerate(arrays.items()):
        content[name] = _Tensor(str(k), array, device)
    content._metadata = OrderedDict(version=1)
    torch = types.ModuleType("torch")
    torch.FloatStorage = FloatStorage
    torch._utils = types.ModuleType("torch._utils")
    torch._utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    pickled = io.BytesIO()
    with mock.patch.dict(sys.modules, {"torch": torch, "torch._utils": torch._utils}):
        _Pickler(pickled, old).dump(content)
    if old:
        machine = {
            "protocol_version": 1001,
            "little_endian": True,
            "type_sizes": {"short": 2, "int": 4, "long": 4},
        }
        with path.open("wb") as file:
            for part in (0x1950A86A20F9469CFC6C, 1001, machine):
                pickle.dump(part, file, protocol=2)
            file.write(pickled.getvalue())
            pickle.dump([tensor.key for tensor in content.values()], file, protocol=2)
            for array in arrays.values():
                file.write(struct.pack("<q", array.size) + array.tobytes())
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        archive.writestr("archive/byteorder", "little")
        for k, array in enumerate(arrays.values()):
            archive.writestr(f"archive/data/{k}", array.tobytes())
        archive.writestr("archive/version", "3\n")
