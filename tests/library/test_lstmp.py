"""The projected LSTM: outputs and hand-written backward pass against the float64 reference, over
ragged rows.
"""

from functools import partial

import gpu_kernels
import numpy as np
import pytest
import reference

from elmo_core.config import ELMoConfig
from elmo_core.kernels import fused, gpu_lstm
from elmo_core.machine.runtime import paddle
from elmo_core.network.lstmp import LSTMP, Packing, run_layer

P, H = 3, 7
LENGTHS = np.array([4, 0, 2, 6, 1, 4])
MANY_LENGTHS = np.random.RandomState(0).randint(10, size=60)  # enough rows for prepared weights
WEIGHTS = "W_x", "W_h", "B", "W_P"  # their names in the reference
CLIPS = {"clips that bite": (0.3, 0.25), "no clips": (0.0, 0.0)}


RUNS = (
    "Paddle's operators, float64",
    "Paddle's operators, float32",
    "fused, float32",
    "GPU kernels, float32",
)


@pytest.fixture(autouse=True, params=RUNS)
def tolerance(request, monkeypatch):
    """Every test runs on all implementations; the value is the tolerance against the reference."""
    if "fused" not in request.param:
        monkeypatch.setattr(fused, "kernel", lambda: None)
        if "GPU" in request.param:
            launch = gpu_kernels.launcher()
            monkeypatch.setattr(gpu_lstm, "kernels", lambda device, equations: launch)
    elif fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")
    paddle.set_default_dtype(request.param.split(", ")[1])
    yield 1e-10 if "float64" in request.param else 2e-4
    paddle.set_default_dtype("float32")


def random_tensor(random, *shape, scale=1.0):
    values = random.standard_normal(shape) * scale
    return paddle.to_tensor(values, dtype=paddle.get_default_dtype(), stop_gradient=False)


def double(tensor) -> np.ndarray:
    return tensor.numpy().astype(np.float64)


def random_lstmp(random, clips):
    lstmp = LSTMP(ELMoConfig(projection_dim=P, cell_dim=H, cell_clip=clips[0], proj_clip=clips[1]))
    for weight in lstmp.parameters():
        weight.set_value(random.standard_normal(weight.shape).astype(paddle.get_default_dtype()))
    return lstmp


def reference_layer(lstmp):
    return dict(zip(WEIGHTS, map(double, lstmp.weights()), strict=True))


def in_rows(packed: np.ndarray, packing: Packing) -> list[np.ndarray]:
    return [packed[(packing.row == row).nonzero()[0]] for row in range(len(packing.sorted_indices))]


@pytest.mark.parametrize("clips", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize("shared_inputs", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, MANY_LENGTHS], ids=["few rows", "many rows"])
def test_outputs_states_and_all_gradients_equal_the_reference(
    clips, shared_inputs, lengths, tolerance
):
    """Both directions of a layer, with explicit initial and final states; also with several entries
    reading one input.
    """
    random = np.random.RandomState(0)
    packing = Packing.from_lengths(lengths)
    n_entries = len(packing.row)
    lstmps = [random_lstmp(random, clips) for _ in range(2)]
    indices = [
        random.randint(5, size=n_entries) if shared_inputs else np.arange(n_entries) for _ in lstmps
    ]
    inputs = [random_tensor(random, 5 if shared_inputs else n_entries, P) for _ in lstmps]
    states = [
        (
            random_tensor(random, len(lengths), P, scale=0.2),
            random_tensor(random, len(lengths), H, scale=0.2),
        )
        for _ in lstmps
    ]
    rows = [paddle.to_tensor(index) for index in indices] if shared_inputs else None
    results = run_layer(lstmps, inputs, states, packing.batch_sizes, rows)
    weights = [[random_tensor(random, *x.shape) for x in result] for result in results]
    sum(
        (x * w).sum()
        for result, factors in zip(results, weights, strict=True)
        for x, w in zip(result, factors, strict=True)
    ).backward()

    back = np.argsort(packing.sorted_indices)
    close = partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    for lstmp, x, index, (h, c), result, factors in zip(
        lstmps, inputs, indices, states, results, weights, strict=True
    ):
        rows = in_rows(double(x)[index], packing)
        arguments = rows, double(h)[back], double(c)[back], reference_layer(lstmp), *clips
        desired, last_h, last_c = reference.lstmp(*arguments)
        for actual, row in zip(in_rows(result.outputs.numpy(), packing), desired, strict=True):
            close(actual, row.reshape(actual.shape))
        close(result.h.numpy()[back], last_h)
        close(result.c.numpy()[back], last_c)

        d_output, d_h, d_c = map(double, factors)
        gradients = reference.lstmp_backward(
            *arguments, in_rows(d_output, packing), d_h[back], d_c[back]
        )
        d_x = np.zeros(x.shape)
        for row, d_row in enumerate(gradients["rows"]):
            np.add.at(d_x, index[(packing.row == row).nonzero()[0]], np.reshape(d_row, (-1, P)))
        close(x.grad.numpy(), d_x)
        close(h.grad.numpy()[back], gradients["h0"])
        close(c.grad.numpy()[back], gradients["c0"])
        for name, weight in zip(WEIGHTS, lstmp.weights(), strict=True):
            close(weight.grad.numpy(), gradients[name])
    if clips[0]:
        reached = max(float(result.outputs.abs().max()) for result in results)
        assert reached == pytest.approx(clips[1]), "no clip bites in this test"


def test_frozen_weights_get_no_gradient():
    random = np.random.RandomState(0)
    lstmp = random_lstmp(random, (0.0, 0.0))
    lstmp.bias.stop_gradient = True
    x = random_tensor(random, 4, P)
    (result,) = run_layer([lstmp], [x], [lstmp.zero_state(2)], [2, 2])
    result.outputs.sum().backward()
    assert x.grad is not None and lstmp.input_weight.grad is not None
    assert lstmp.bias.grad is None


@pytest.mark.parametrize("shared_inputs", [False, True])
def test_running_in_less_memory_changes_nothing(shared_inputs, tolerance, monkeypatch):
    random = np.random.RandomState(0)
    packing, lstmp = Packing.from_lengths(LENGTHS), random_lstmp(random, (0.3, 0.25))
    state = random_tensor(random, len(LENGTHS), P), random_tensor(random, len(LENGTHS), H)
    rows = [paddle.to_tensor(random.randint(5, size=len(packing.row)))] if shared_inputs else None
    x = random_tensor(random, 5 if shared_inputs else len(packing.row), P)
    with paddle.no_grad():
        whole = run_layer([lstmp], [x], [state], packing.batch_sizes, rows)
        monkeypatch.setattr("elmo_core.kernels.cpu_lstm.MAX_GATE_ELEMENTS", 4 * H * 4)
        sliced = run_layer([lstmp], [x], [state], packing.batch_sizes, rows)
    for actual, expected in zip(sliced[0], whole[0], strict=True):
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), atol=min(tolerance, 1e-5))


@pytest.mark.parametrize("x", [0.0, 1e-6, 0.01, 0.5, 3.0, 20.0, 100.0, 1e30])
def test_activations_hold_over_the_whole_range(x, tolerance):
    """All weights are zero except the bias, the projection is the identity: only the activations of
    +-x remain.
    """
    lstmp = LSTMP(
        ELMoConfig(projection_dim=2, cell_dim=2, cell_clip=0.0, proj_clip=0.0, forget_bias=0.0)
    )
    for weight in lstmp.parameters():
        weight.set_value(np.zeros(weight.shape, paddle.get_default_dtype()))
    lstmp.projection_weight.set_value(np.eye(2, dtype=paddle.get_default_dtype()))
    gates = np.array([[x, -x], [x, -x], [-x, x], [x, -x]])  # i, j, f, o
    lstmp.bias.set_value(gates.ravel().astype(paddle.get_default_dtype()))
    zero = paddle.zeros([1, 2]), paddle.ones([1, 2])
    with np.errstate(over="ignore"):
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in gates[[0, 2, 3]])
    cell = f + i * np.tanh(gates[1])
    for context in (paddle.no_grad(), paddle.enable_grad()):
        with context:
            ((_, h, c),) = run_layer([lstmp], [paddle.zeros([1, 2])], [zero], [1])
        np.testing.assert_allclose(c.numpy()[0], cell, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(h.numpy()[0], o * np.tanh(cell), rtol=1e-6, atol=1e-6)
