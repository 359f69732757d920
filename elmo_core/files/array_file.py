"""Files of arrays by name, such as HDF5: an array is checked when it is read."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import h5py
import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.foreign_files import damage_named
from elmo_core.messages import UserError, join_names


class ArrayFile:
    """The arrays of a file or folder: NumPy's, or HDF5's, which are read when they are taken.

    unused: the names of those that were not taken yet.
    """

    def __init__(self, path: Path, arrays: Mapping[str, np.ndarray | h5py.Dataset]):
        self.path = path
        self.arrays = dict(arrays)
        self.unused = set(arrays)

    def shape(self, name: str, n_axes: int) -> tuple[int, ...]:
        """Return the shape of an array, which tells a size of the model.

        Raise unless it has this many axes.
        """
        shape = self._described(name)[0] if name in self.arrays else ()
        if len(shape) != n_axes:
            raise UserError(
                f"{self.path}: there is no {name} with {n_axes} axes, "
                f"but {quoted(sorted(self.arrays))}."
            )
        return shape

    def take(
        self, name: str, shape: tuple[int, ...], source: str | Path = "the rest of the model"
    ) -> np.ndarray:
        """Read an array in float32.

        Raise unless it has this shape, which `source` implies, and finite numbers.
        """
        if name not in self.arrays:
            found = quoted(sorted(self.arrays)) or "nothing"
            raise UserError(
                f"{self.path}: there is no {name} {shape}, expected according to {source}, "
                f"but {found}."
            )
        found_shape, dtype = self._described(name)
        if found_shape != shape or dtype.kind != "f":
            found = f"{found_shape} of type {dtype}"
            raise UserError(
                f"{self.path}: {name} is {found}, expected {shape} of floats according to {source}."
            )
        with damage_named(f"{name} of {self.path}"), np.errstate(over="ignore"):
            array = np.asarray(self.arrays[name][...], np.float32, "C")
        if not np.isfinite(array).all():
            raise UserError(f"{self.path}: {name} contains values that are not finite in float32.")
        self.unused.discard(name)
        return array

    def _described(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and type of an array, which HDF5 reads from the file."""
        with damage_named(f"{name} of {self.path}"):
            return self.arrays[name].shape, self.arrays[name].dtype


@contextmanager
def open_hdf5(path: Path, expected: str) -> Iterator[ArrayFile]:
    """Open an HDF5 file. expected: describes it in error messages."""
    check_input(path, expected)
    arrays: dict[str, h5py.Dataset] = {}

    def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item

    with ExitStack() as stack:
        with damage_named(path, f"Expected {expected}, in HDF5."):
            file = stack.enter_context(h5py.File(path, "r"))
            file.visititems(add)
        yield ArrayFile(path, arrays)


def quoted(names: Iterable[str]) -> str:
    """Quote at most 6 names from a file, for an error message."""
    return join_names([repr(name) for name in names], 6)
