"""Files of arrays by name: what is reported as damage, and what is not."""

from unittest import mock

import h5py
import numpy as np
import pytest

from elmo_core.files import array_file
from elmo_core.messages import UserError
from elmo_core.weights import pickles


def test_only_what_reads_a_file_reports_damage(tmp_path, monkeypatch):
    """Not the caller's faults, nor a lack of memory, whose remedy is another one."""
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        file["x"] = np.ones(3, np.float32)
    with pytest.raises(KeyError), array_file.open_hdf5(path, "weights"):
        raise KeyError("typo")
    with array_file.open_hdf5(path, "weights") as file:
        too_large = mock.Mock(side_effect=MemoryError("Unable to allocate 3.2 GiB"))
        with monkeypatch.context() as patched, pytest.raises(MemoryError):
            patched.setattr(np, "asarray", too_large)
            file.take("x", (3,))
    pickled = tmp_path / "weights.pkl"
    pickled.write_bytes(b"x")
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(pickles, "Unpickler", too_large)
        patched.setattr(np, "empty", too_large)  # there is no memory for a whole file either
        pickles.read_torch(pickled)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"weights\.hdf5"), array_file.open_hdf5(path, "weights"):
        pass
