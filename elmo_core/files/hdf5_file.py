"""Files of arrays by name, such as HDF5: an array is checked when it is read."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.streams import damage_named
from elmo_core.messages import UserError, join_names


class ArrayFile:
    """The arrays of a file or folder: NumPy's, or HDF5's, which are read when they are taken. unused: not taken yet."""

    def __init__(self, path: Path, arrays: Mapping[str, np.ndarray | h5py.Dataset]):
        self.path, self.arrays, self.unused = path, dict(arrays), set(arrays)

    def shape(self, name: str, n_axes: int) -> tuple[int, ...]:
        """Return the shape of an array, which tells a size of the model. Raise unless it has this many axes."""
        if name not in self.arrays or len(self.arrays[name].shape) != n_axes:
            raise UserError(f"{self.path}: there is no {name} with {n_axes} axes, but {quoted(sorted(self.arrays))}.")
        return self.arrays[name].shape

    def take(self, name: str, shape: tuple[int, ...], source: str | Path = "the rest of the model") -> np.ndarray:
        """Read an array in float32. Raise unless it has this shape, which `source` implies, and finite numbers."""
        if name not in self.arrays:
            found = quoted(sorted(self.arrays)) or "nothing"
            raise UserError(f"{self.path}: there is no {name} {shape}, expected according to {source}, but {found}.")
        stored = self.arrays[name]
        if stored.shape != shape or stored.dtype.kind != "f":
            found = f"{stored.shape} of type {stored.dtype}"
            raise UserError(f"{self.path}: {name} is {found}, expected {shape} of floats according to {source}.")
        with damage_named(f"{name} of {self.path}"), np.errstate(over="ignore"):
            array = np.asarray(stored[...], np.float32, "C")
        if not np.isfinite(array).all():
            raise UserError(f"{self.path}: {name} contains values that are not finite in float32.")
        self.unused.discard(name)
        return array


@contextmanager
def open_hdf5(path: Path, expected: str) -> Iterator[ArrayFile]:
    """Open an HDF5 file. expected: describes it in error messages."""
    check_input(path, expected)
    arrays: dict[str, h5py.Dataset] = {}
    with damage_named(path, f"Expected {expected}, in HDF5."), h5py.File(path, "r") as file:
        file.visititems(lambda name, item: arrays.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        yield ArrayFile(path, arrays)


def quoted(names: Iterable[str]) -> str:
    """Quote at most 6 names from a file, for an error message."""
    return join_names([repr(name) for name in names], 6)
