"""The compiled loop of the sampled softmax equals the operators; test_softmax.py has the rest."""

import numpy as np
import pytest

from elmo_core.kernels import cpu_softmax, fused
from elmo_core.machine.runtime import paddle
from elmo_core.network.softmax import candidate_loss


def test_the_loss_and_its_gradients_equal_those_of_the_operators():
    if fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")
    h = paddle.randn([9, 5])
    others = {
        "target_logits": paddle.randn([9, 1]),
        "table": paddle.randn([13, 5]),
        "bias": paddle.randn([13]),
        "hit_rows": np.array([2, 8]),
        "hit_candidates": np.array([12, 0]),
    }
    expected = candidate_loss(h, **others)
    found = cpu_softmax.candidate_loss(h, **others)
    for actual, desired in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual.numpy(), desired.numpy(), atol=1e-5)
