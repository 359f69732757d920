"""The optimizers of pretraining against Paddle's own, and Adagrad's formula."""

from functools import partial

import numpy as np
import pytest

from elmo_core.machine.runtime import paddle
from elmo_core.network.row_gradients import embedding_lookup
from pretraining.optimizer import Adam, make_optimizer

SHAPES = {"large": (300, 301), "small": (7,), "table": (40, 5), "whole": (6, 2), "frozen": (3, 2)}


def random_weights():
    random = np.random.RandomState(0)
    weights = {}
    for name, shape in SHAPES.items():
        weights[name] = paddle.create_parameter(list(shape), "float32")
        weights[name].set_value(random.standard_normal(shape).astype(np.float32))
    weights["frozen"].stop_gradient = True
    return weights


def paddles_rows(table, ids):
    return paddle.nn.functional.embedding(paddle.to_tensor(ids), table)


def train(make, scale: float, embedding_lookup=embedding_lookup) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Return weights and optimizer state after three steps with dense gradients, and a sparse one with a row twice."""
    model, random = random_weights(), np.random.RandomState(1)
    optimizer = make(list(model.values()))
    for _ in range(3):
        loss = 0
        for name in ("large", "small"):
            loss = (
                loss + (model[name] * paddle.to_tensor(random.standard_normal(SHAPES[name]).astype(np.float32))).sum()
            )
        for ids in ([1, 5, 5, 39], [0, 39, 7, 3]):
            rows = embedding_lookup(model["table"], np.array(ids))
            loss = loss + (rows * paddle.to_tensor(random.standard_normal((4, 5)).astype(np.float32))).sum()
        everything = embedding_lookup(model["whole"], np.arange(6))
        loss = loss + (everything * paddle.to_tensor(random.standard_normal((6, 2)).astype(np.float32))).sum()
        (loss * scale).backward()
        optimizer.step()
        optimizer.clear_grad()
    state = [value.numpy() for value in optimizer.state_dict().values() if isinstance(value, paddle.Tensor)]
    return {name: weight.numpy() for name, weight in model.items()}, state


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])  # below and above the maximum norm
@pytest.mark.parametrize(
    ("name", "of_paddle"),
    [
        ("adagrad", partial(paddle.optimizer.Adagrad, initial_accumulator_value=1.0)),
        ("adam", paddle.optimizer.Adam),
    ],
)
def test_it_is_paddles_with_a_clip(name, of_paddle, scale):
    def expected_optimizer(parameters):
        return of_paddle(learning_rate=0.2, parameters=parameters, grad_clip=paddle.nn.ClipGradByGlobalNorm(10.0))

    actual, state = train(lambda parameters: make_optimizer(name, 0.2, parameters, max_grad_norm=10.0), scale)
    expected, expected_state = train(expected_optimizer, scale, paddles_rows)
    for key, weight in expected.items():
        np.testing.assert_allclose(actual[key], weight, rtol=1e-5, atol=1e-5, err_msg=key)
    assert len(state) == len(expected_state) == (4 if name == "adagrad" else 16)
    assert sorted(map(np.shape, state)) == sorted(map(np.shape, expected_state))


def test_adam_updates_the_rows_that_a_step_reads():
    """With Adam's formula. (Paddle's lazy_mode takes the powers of the next step for the rows of sparse gradients.)"""
    random = np.random.RandomState(0)
    table = paddle.create_parameter([9, 2], "float32")
    weight = table.numpy().astype(np.float64)
    first, second = np.zeros((9, 2)), np.zeros((9, 2))
    optimizer = Adam(0.2, [table], max_grad_norm=1e9)
    for step, ids in enumerate([[1, 5, 5], [8, 5], [1, 2, 1]], 1):
        factors, gradient, rows = random.standard_normal((len(ids), 2)), np.zeros((9, 2)), sorted(set(ids))
        (embedding_lookup(table, np.array(ids)) * paddle.to_tensor(factors.astype(np.float32))).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        np.add.at(gradient, ids, factors)
        first[rows] = 0.9 * first[rows] + 0.1 * gradient[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * gradient[rows] ** 2
        correction = np.sqrt(1 - 0.999**step)
        rate = 0.2 * correction / (1 - 0.9**step)
        weight[rows] -= rate * first[rows] / (np.sqrt(second[rows]) + 1e-8 * correction)
        np.testing.assert_allclose(table.numpy(), weight, rtol=1e-5, atol=1e-5)
