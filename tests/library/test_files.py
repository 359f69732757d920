"""Our own files: atomic, checked, locked."""

import subprocess
import sys
import tracemalloc
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
from project import PROJECT

from elmo_core.files import disk, hdf5_file
from elmo_core.files.tensors import read_tensors, write_tensors
from elmo_core.messages import UserError
from elmo_core.text.text_files import parse_json
from elmo_core.weights import pickles, published

ARRAYS = {
    "float32": np.random.default_rng(0).standard_normal((3, 5), np.float32),
    "float16": np.arange(5, dtype=np.float16),
    "big-endian": np.arange(4, dtype=">f8"),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20)[::3],
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 4), np.float32),
    "bool": np.array([True, False]),
    "uint64": np.array([2**64 - 1], np.uint64),
}


def test_arrays_come_back_as_they_were(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, ARRAYS, {"format": "1"})
    read, texts = read_tensors(path)
    assert read.keys() == ARRAYS.keys()
    assert texts["format"] == "1"
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype.newbyteorder("=") and read[name].flags.writeable
        np.testing.assert_array_equal(read[name], array)


def test_a_changed_bit_or_a_missing_byte_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, ARRAYS)
    content = path.read_bytes()
    for k in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[k] ^= 1 << k % 8
        for changed in (damaged, content[:k]):
            path.write_bytes(changed)
            try:
                read, _ = read_tensors(path)
            except UserError as error:
                assert str(path) in str(error)
            else:  # a letter of a name in the metadata
                assert all(np.array_equal(read[name], array) for name, array in ARRAYS.items())


def test_a_file_takes_at_most_twice_its_size_in_memory(tmp_path):
    megabytes = {str(k): np.ones(1 << 18, np.float32) for k in range(24)}
    tracemalloc.start()
    try:
        write_tensors(tmp_path / "x", megabytes)
        assert tracemalloc.get_traced_memory()[1] < 26e6
        tracemalloc.reset_peak()
        read_tensors(tmp_path / "x")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_only_what_reads_a_file_reports_damage(tmp_path, monkeypatch):
    """Not the caller's faults, nor a lack of memory, whose remedy is another one."""
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        file["x"] = np.ones(3, np.float32)
    with pytest.raises(KeyError), hdf5_file.open_hdf5(path, "weights"):
        raise KeyError("typo")
    with hdf5_file.open_hdf5(path, "weights") as file:
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
    with pytest.raises(UserError, match=r"weights\.hdf5"), hdf5_file.open_hdf5(path, "weights"):
        pass


READ_ALL = """
import sys
from pathlib import Path
from elmo_core.messages import UserError
from elmo_core.weights import pickles

for path in map(Path, sys.argv[1:]):
    try:
        pickles.read_paddle(path)
    except UserError as error:
        print(error)
"""


def test_a_key_of_many_nested_tuples_is_an_error(tmp_path):
    """In a process of its own, which it would crash."""
    n, paths = 300_000, []
    for name, begin, make in (("t", "(", "t"), ("t1", "", "\x85"), ("t2", "", "N\x86"), ("t3", "", "NN\x87")):
        paths.append(tmp_path / f"{name}.pdparams")
        paths[-1].write_bytes(f"\x80\x02}}{begin * n}N{make * n}Ns.".encode("latin1"))
    command = [sys.executable, "-c", READ_ALL, *paths]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT).stdout.splitlines()
    assert len(lines) == 4 and all(path.name in line for path, line in zip(paths, lines, strict=True))


def test_a_folder_appears_when_complete_and_replaces_nothing(tmp_path):
    with pytest.raises(KeyError), disk.atomic_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("1")
        raise KeyError
    assert not list(tmp_path.iterdir())
    with disk.atomic_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("1")
    with pytest.raises(OSError), disk.atomic_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("2")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["a", "a/x"]
    assert (tmp_path / "a" / "x").read_text() == "1"


@pytest.mark.parametrize("folder", ["rel/cache", "", None])
def test_one_folder_for_all_caches(tmp_path, monkeypatch, folder):
    """A relative XDG_CACHE_HOME is ignored, for models as for compiled code."""
    monkeypatch.delenv("ELMO_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own") if folder is None else folder)
    expected = tmp_path / ("own" if folder is None else ".cache") / "elmo"
    assert disk.cache_folder() == expected and published.home() == expected / "models"


def test_surrogates_anywhere_in_json_are_replaced():
    assert parse_json('{"b": ["\\ud800x", {"\\udc00": "\\ud83d\\ude00"}], "c": "\\ud800"}') == {
        "b": ["\ufffdx", {"\ufffd": "😀"}],
        "c": "\ufffd",
    }


HOLD = """
import os, sys
from pathlib import Path
from elmo_core.files import disk

held, inside = 0, Path(sys.argv[1]) / "inside"
while held < 2500:
    try:
        with disk.locked(Path(sys.argv[1]) / ".lock"):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            inside.unlink()
            held += 1
    except disk.FileLocked:
        pass
"""


def test_of_10_000_locks_none_overlap(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=PROJECT) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]


def test_a_lock_ends_with_its_process(tmp_path):
    path = tmp_path / ".lock"
    killed = "import os, sys, pathlib; from elmo_core.files import disk\n"
    killed += "with disk.locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", killed, str(path)], cwd=PROJECT).returncode == -9
    with disk.locked(Path(path)), pytest.raises(disk.FileLocked), disk.locked(path):
        pass
