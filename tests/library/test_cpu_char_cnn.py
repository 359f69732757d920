"""The loops over tokens share the work; test_char_cnn.py compares what they compute with NumPy."""

import numpy as np
import pytest

from elmo_core.kernels import cpu_char_cnn
from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import Highway


def test_each_thread_gets_a_range_of_about_equal_length(monkeypatch):
    monkeypatch.setattr(cpu_char_cnn, "n_threads", lambda: 3)
    lengths = np.array([1, 1, 1, 3, 3, 3, 6])
    ranges = cpu_char_cnn._thread_ranges(lengths)
    assert [begin for begin, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert ranges[0][0] == 0 and ranges[-1][1] == len(lengths)
    assert [int(lengths[begin:end].sum()) for begin, end in ranges] == [6, 6, 6]


def test_there_may_be_more_threads_than_tokens(monkeypatch):
    monkeypatch.setattr(cpu_char_cnn, "n_threads", lambda: 3)
    assert cpu_char_cnn._thread_ranges(np.array([2]))[-1][1] == 1


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("closed", [0, 11, 19, 20])
def test_gradients_of_a_highway_layer_whose_units_are_closed_for_all_tokens(closed):
    random = np.random.default_rng(0)
    n = 30
    width = 20
    highway = Highway(width)
    for weight in highway.parameters():
        weight.set_value(random.standard_normal(weight.shape).astype(np.float32) / 4)
    closed_units = random.permutation(width)[:closed]
    bias = highway.transform.bias.numpy()
    bias[closed_units] = -100
    highway.transform.bias.set_value(bias)
    x = random.standard_normal([n, width])
    d_y = random.standard_normal([n, width])

    def loss(x: np.ndarray, weights: dict[str, np.ndarray]) -> float:
        t = x @ weights["transform.weight"] + weights["transform.bias"]
        c = x @ weights["carry.weight"] + weights["carry.bias"]
        g = 1 / (1 + np.exp(-c))
        return float((d_y * (g * np.maximum(t, 0) + (1 - g) * x)).sum())

    def slopes(array: np.ndarray, compute) -> np.ndarray:
        """Central differences of `compute()` by each element of an array that it reads."""
        result = np.empty_like(array)
        for at in np.ndindex(array.shape):
            before = array[at]
            array[at] = before + 1e-6
            above = compute()
            array[at] = before - 1e-6
            result[at] = (above - compute()) / 2e-6
            array[at] = before
        return result

    input_tensor = paddle.to_tensor(x.astype(np.float32), stop_gradient=False)
    (highway(input_tensor) * paddle.to_tensor(d_y.astype(np.float32))).sum().backward()
    gradients = {name: weight.grad.numpy() for name, weight in highway.named_parameters()}
    gradients["x"] = input_tensor.grad.numpy()
    weights = {
        name: weight.numpy().astype(np.float64) for name, weight in highway.named_parameters()
    }
    for name, array in {**weights, "x": x}.items():
        expected = slopes(array, lambda: loss(x, weights))
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-3, atol=1e-4, err_msg=name)
    assert (gradients["transform.weight"][:, closed_units] == 0).all()
