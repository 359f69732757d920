"""Pickles of other projects: nothing in them is run, nor reaches beyond the file."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from project import PROJECT

from elmo_core.weights import pickles

READ_ALL = """
import sys
from pathlib import Path
from elmo_core.messages import UserError
from elmo_core.weights import pickles

for path in sys.argv[1:]:
    try:
        pickles.read_paddle(Path(path))
    except UserError as error:
        print(error)
"""


def test_a_key_of_many_nested_tuples_is_an_error(tmp_path):
    """In a process of its own, which it would crash."""
    n = 300_000
    opcodes = {"t": ("(", "t"), "t1": ("", "\x85"), "t2": ("", "N\x86"), "t3": ("", "NN\x87")}
    paths = []
    for name, (begin, make) in opcodes.items():
        path = tmp_path / f"{name}.pdparams"
        path.write_bytes(f"\x80\x02}}{begin * n}N{make * n}Ns.".encode("latin1"))
        paths.append(path)
    command = [sys.executable, "-c", READ_ALL, *paths]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        assert path.name in line


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (5,), (1,)), (2, (3,), (1,)), (-1, (2,), (1,)), (0, (2,), (-1,))],
)
def test_a_tensor_cannot_reach_beyond_its_storage(offset, shape, strides):
    with pytest.raises((ValueError, TypeError)):
        pickles.Tensor(("0", np.dtype("<f4")), offset, shape, strides).array(bytes(16))


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i8"])
def test_arrays_come_back_in_any_order_and_type(tmp_path, protocol, order, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype, order=order)
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({"w": array}, protocol))
    found = pickles.read_paddle(tmp_path / "a.pdparams")["w"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
