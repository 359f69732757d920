"""Untrusted HDF5 files: datasets are checked before they are read; damage is an error, not a crash."""

import math
import zlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.streams import check_size, damage_named
from elmo_core.messages import UserError, join_names

MAX_RATIO, MAX_DATASETS = 3, 10_000  # unpacked to packed size of weights; number
FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}


class ArrayFile:
    """A file of arrays: its path, and `datasets`, by name, with a shape and dtype."""

    has_padding = False  # whether the first row of a table with an additional row is for padding, whatever its values

    def __init__(self, path: Path, datasets: Mapping[str, Any]):
        self.path, self.datasets = path, datasets

    def errors_named(self, name: str = "") -> AbstractContextManager:
        """Turn any error inside the block into a UserError that names the file."""
        return damage_named(f"{name} of {self.path}" if name else self.path)

    def check(self, name: str, shape: tuple[int, ...], source: str | Path, one_more_row: bool = False) -> None:
        """Raise if an array is missing, or not of floats and of the shape that the `source` implies."""
        if name not in self.datasets:
            raise UserError(f"{self.path}: there is no {name}, expected {shape} as in {source}. {self.contents()}")
        with self.errors_named(name):
            actual, kind = self.datasets[name].shape, self.datasets[name].dtype
        if actual != shape and not (one_more_row and actual == (shape[0] + 1, *shape[1:])):
            raise UserError(f"{self.path}: {name} is {actual}, expected {shape} according to {source}.")
        if kind.kind != "f" or kind.itemsize > 8:
            raise UserError(f"{self.path}: {name} has type {kind}, expected floating-point numbers.")

    def values(self, name: str) -> np.ndarray:
        """Read an array as it is stored."""
        return self.datasets[name][...]

    def array(self, name: str) -> np.ndarray:
        """Read an array as float32. Call `check` first: this method does not limit the memory."""
        with self.errors_named(name), np.errstate(over="ignore"):
            array = np.asarray(self.values(name), np.float32, "C")
        if not np.isfinite(array).all():
            raise UserError(f"{self.path}: {name} contains values that are not finite in float32.")
        return array

    def attribute(self, name: str, attribute: str) -> Any:
        """A dataset's attribute, or None."""

    def contents(self) -> str:
        return f"It contains {quoted(sorted(self.datasets)) or 'no datasets'}."


class HDF5File(ArrayFile):
    """An HDF5 file and its datasets. expected: described in error messages."""

    def __init__(self, path: Path, expected: str):
        check_input(path, expected)
        super().__init__(path, {})
        self.size, self.checked = path.stat().st_size, 0  # bytes of the file, and of the datasets that `check` admitted
        with path.open("rb") as file:
            begin = file.read(8)
        if not h5py.is_hdf5(path):
            raise UserError(f"{path} is not an HDF5 file, it begins with {begin!r}. Expected {expected}.")
        with self.errors_named():
            self.file = h5py.File(path, "r")
            self.file.visititems(self._note)

    def __enter__(self) -> "HDF5File":
        return self

    def __exit__(self, *_: Any) -> None:
        with suppress(Exception):  # closing a damaged file can fail too
            self.file.close()

    def _note(self, name: str | bytes, item: Any) -> None:
        if isinstance(name, bytes):  # not UTF-8
            name = name.decode("utf-8", "backslashreplace")
        if isinstance(item, h5py.Dataset):
            self.datasets[name] = item
        if len(self.datasets) > MAX_DATASETS:
            raise UserError(f"{self.path} has more than {MAX_DATASETS:,} datasets, which no ELMo has.")

    def check(self, name: str, shape: tuple[int, ...], source: str | Path, one_more_row: bool = False) -> None:
        """As in the base class; raise, too, if the file is incomplete, or unpacks to more than weights do."""
        super().check(name, shape, source, one_more_row)
        dataset = self.datasets[name]
        with self.errors_named(name):
            if dataset.is_virtual or dataset.external or (dataset.size and not dataset.id.get_storage_size()):
                raise UserError(f"{self.path}: {name} is {shape}, but the file does not contain that many numbers.")
            chunk = dataset.dtype.itemsize * math.prod(dataset.chunks or ())
            self.checked += max(chunk, dataset.dtype.itemsize * math.prod(shape))
            check_size(self.checked, self.size, f"{self.path}: {name}", MAX_RATIO)
            _check_chunks(dataset.id, chunk)

    def attribute(self, name: str, attribute: str) -> Any:
        with self.errors_named(name):
            attributes = self.datasets[name].attrs
            exists = attribute in list(attributes)  # get() hides damage
            return attributes[attribute] if exists else None


def _check_chunks(dataset: h5py.h5d.DatasetID, size: int) -> None:
    """Raise if a chunk unpacks to more than its size."""
    plist = dataset.get_create_plist()
    filters = [plist.get_filter(k)[0] for k in range(plist.get_nfilters())]
    if not FILTERS.issuperset(filters) or len(set(filters)) < len(filters):
        raise ValueError("it is not compressed by gzip, once")
    for k in range(dataset.get_num_chunks() if h5py.h5z.FILTER_DEFLATE in filters else 0):
        mask, data = dataset.read_direct_chunk(dataset.get_chunk_info(k).chunk_offset)
        if not mask:
            unpacker = zlib.decompressobj()
            unpacker.decompress(data, size)
            if not unpacker.eof and unpacker.decompress(unpacker.unconsumed_tail, 1):
                raise ValueError("a chunk unpacks to more than its size")


def quoted(names: Iterable[str]) -> str:
    """Quote at most 6 names from a file, for an error message."""
    return join_names([repr(name) for name in names], 6)
