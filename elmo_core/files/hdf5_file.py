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
            raise UserError(f"{self.path}: there is no {name} with {n_axes} axes. {self._contents()}")
        return self.arrays[name].shape

    def take(
        self,
        name: str,
        shape: tuple[int, ...],
        source: str | Path = "the rest of the model",
        one_more_row: bool = False,
    ) -> np.ndarray:
        """Read an array in float32. Raise unless it has this shape, which `source` implies, and finite values."""
        if name not in self.arrays:
            raise UserError(f"{self.path}: there is no {name}, expected {shape} as in {source}. {self._contents()}")
        stored = self.arrays[name]
        if stored.shape != shape and not (one_more_row and stored.shape == (shape[0] + 1, *shape[1:])):
            raise UserError(f"{self.path}: {name} is {stored.shape}, expected {shape} according to {source}.")
        if stored.dtype.kind != "f":
            raise UserError(f"{self.path}: {name} has type {stored.dtype}, expected floating-point numbers.")
        with damage_named(f"{name} of {self.path}"), np.errstate(over="ignore"):
            array = np.asarray(stored[...], np.float32, "C")
        if not np.isfinite(array).all():
            raise UserError(f"{self.path}: {name} contains values that are not finite in float32.")
        self.unused.discard(name)
        return array

    def _contents(self) -> str:
        return f"It contains {quoted(sorted(self.arrays)) or 'no arrays'}."


@contextmanager
def open_hdf5(path: Path, expected: str) -> Iterator[ArrayFile]:
    """Open an HDF5 file. expected: describes it in error messages."""
    check_input(path, expected)
    if not h5py.is_hdf5(path):
        begin = path.open("rb").read(8)
        raise UserError(f"{path} is not an HDF5 file, it begins with {begin!r}. Expected {expected}.")
    arrays: dict[str, h5py.Dataset] = {}
    with damage_named(path), h5py.File(path, "r") as file:
        file.visititems(lambda name, item: arrays.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        yield ArrayFile(path, arrays)


def quoted(names: Iterable[str]) -> str:
    """Quote at most 6 names from a file, for an error message."""
    return join_names([repr(name) for name in names], 6)
