"""The compiled loops of the LSTM equal its equations; test_lstmp.py compares both with NumPy."""

import numpy as np
import pytest

from elmo_core.config import ELMoConfig
from elmo_core.kernels import cpu_lstm, fused
from elmo_core.machine.runtime import paddle
from elmo_core.network.lstmp import LSTMP, equations

CONFIG = ELMoConfig(projection_dim=5, cell_dim=7, cell_clip=0.3, proj_clip=0.1)
BATCH_SIZES = [4, 3, 3, 1]


@pytest.mark.parametrize("training", [False, True])
def test_they_equal_the_equations(training):
    if fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")
    lstmp = LSTMP(CONFIG)
    x = paddle.randn([sum(BATCH_SIZES), 5])
    inputs = lstmp.layer_input(x, (paddle.randn([4, 5]), paddle.randn([4, 7])))
    with paddle.set_grad_enabled(training):
        expected = equations(CONFIG, BATCH_SIZES, *inputs)
        (found,) = cpu_lstm.run_directions(CONFIG, BATCH_SIZES, [inputs], [None])
    assert found.outputs.stop_gradient is not training
    for name in ("outputs", "h", "c"):
        actual = getattr(found, name).numpy()
        np.testing.assert_allclose(actual, getattr(expected, name).numpy(), atol=1e-5)
