"""Our files of arrays: they come back as they were, or damage is an error."""

import tracemalloc

import numpy as np

from elmo_core.files.tensors import read_tensors, write_tensors
from elmo_core.messages import UserError

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
