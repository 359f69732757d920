"""State dictionaries of Paddle, read without running what is in them."""

import pickle

import numpy as np
import pytest

from elmo_core.weights.pickles import read_paddle


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i8"])
def test_arrays_come_back_in_any_order_and_type(tmp_path, protocol, order, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype, order=order)
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({"w": array}, protocol))
    found = read_paddle(tmp_path / "a.pdparams")["w"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
