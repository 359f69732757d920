"""Gradients of the rows of a table that a step has read: those of a dense gradient."""

import numpy as np
import tiny

from elmo_core.kernels.row_gradients import embedding_lookup, row_gradient
from elmo_core.machine.runtime import paddle


def test_rows_that_are_read_again_and_in_several_batches_add_up():
    values = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    table = paddle.create_parameter([9, 2], "float32")
    table.set_value(values)
    expected = np.zeros((9, 2), np.float32)
    for ids in ([3, 1, 3], [7, 1], [0, 3, 8]):
        rows = embedding_lookup(table, np.array(ids))
        np.testing.assert_array_equal(rows.numpy(), values[ids])
        (rows**2).sum().backward()
        np.add.at(expected, ids, 2 * values[ids])
    assert table.grad is None
    assert row_gradient(table).ids.tolist() == [0, 1, 3, 7, 8]
    np.testing.assert_allclose(tiny.dense_gradient(table), expected, rtol=1e-6)
