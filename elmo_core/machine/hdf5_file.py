"""HDF5 files from elsewhere: datasets are checked before they are read, and damage is an error message, not a crash."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_core.machine.disk import check_input
from elmo_core.machine.messages import UserError, join_names

RATIO = 1100  # more than HDF5's own filters compress


class HDF5File:
    """The datasets of an HDF5 file by name. what: what the file should hold, for messages."""

    def __init__(self, path: Path, what: str):
        check_input(path, what)
        self.path, self.size = path, path.stat().st_size
        self.datasets: dict[str, h5py.Dataset] = {}
        with path.open("rb") as file:
            begin = file.read(8)
        if not h5py.is_hdf5(path):
            raise UserError(f"{path} is not an HDF5 file, it begins with {begin!r}. Expected {what}.")
        with self.errors_named():
            self.file = h5py.File(path, "r")
            self.file.visititems(self._note)

    def __enter__(self) -> "HDF5File":
        return self

    def __exit__(self, *_: Any) -> None:
        with suppress(Exception):  # a damaged file can lead to errors even here
            self.file.close()

    def _note(self, name: str | bytes, found: Any) -> None:
        if isinstance(name, bytes):  # no UTF-8
            name = name.decode("utf-8", "backslashreplace")
        if isinstance(found, h5py.Dataset):
            self.datasets[name] = found

    @contextmanager
    def errors_named(self, name: str = "") -> Iterator[None]:
        """Turn any error inside, HDF5's or another, into a message about the file."""
        try:
            yield
        except (UserError, MemoryError):
            raise
        except Exception as error:  # a damaged file can raise anything
            where = f"{name} of {self.path}" if name else str(self.path)
            raise UserError(f"{where} cannot be read, the file is damaged or incomplete ({error}).") from error

    def check(self, name: str, shape: tuple[int, ...], source: str | Path, one_more_row: bool = False) -> None:
        """Refuse a dataset that is missing, of another shape than the `source` says, or not wholly in the file."""
        if name not in self.datasets:
            raise UserError(f"{self.path}: there is no {name}, expected it with {shape} by {source}. {self.holds()}")
        dataset = self.datasets[name]
        with self.errors_named(name):
            found, kind, stored = dataset.shape, dataset.dtype, dataset.id.get_storage_size()
            elsewhere = dataset.is_virtual or bool(dataset.external)
        if found != shape and not (one_more_row and found == (shape[0] + 1, *shape[1:])):
            raise UserError(f"{self.path}: {name} is {found}, expected {shape} by {source}.")
        if kind.kind != "f" or kind.itemsize > 8:
            raise UserError(f"{self.path}: {name} is of type {kind}, expected floating-point numbers.")
        if elsewhere or kind.itemsize * np.prod(found, dtype=float) > RATIO * min(stored, self.size):
            raise UserError(f"{self.path}: {name} is {found}, but the file does not hold that many numbers.")

    def array(self, name: str) -> np.ndarray:
        """A dataset's numbers in float32. `check` it first: nothing here bounds the memory."""
        with self.errors_named(name), np.errstate(over="ignore"):
            array = np.ascontiguousarray(self.datasets[name][...], dtype=np.float32)
        if not np.isfinite(array).all():
            raise UserError(f"{self.path}: {name} has values that are not finite.")
        return array

    def attribute(self, name: str, attribute: str) -> Any:
        """A dataset's attribute, or None."""
        with self.errors_named(name):
            attributes = self.datasets[name].attrs
            there = attribute in list(attributes)  # get() is silent about a damaged one
            return attributes[attribute] if there else None

    def holds(self) -> str:
        return f"It holds {quoted(sorted(self.datasets))}." if self.datasets else "It holds no datasets."


def quoted(names: Iterable[str], most: int = 6) -> str:
    """Names from a file, at most `most` of them, for messages."""
    return join_names([repr(name) for name in names], most)
