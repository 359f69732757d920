"""The optimizer of pretraining against Paddle's own, and Adagrad's formula."""

import numpy as np
import pytest

from elmo_core.runtime import paddle
from pretraining.adagrad import Adagrad

SHAPES = {"large": (300, 301), "small": (7,), "table": (40, 5), "frozen": (3, 2)}


def weights():
    random = np.random.RandomState(0)
    made = {}
    for name, shape in SHAPES.items():
        made[name] = paddle.create_parameter(list(shape), "float32")
        made[name].set_value(random.standard_normal(shape).astype(np.float32))
    made["frozen"].stop_gradient = True
    return made


def train(make, scale: float) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Weights and the optimizer's state after three steps, with dense gradients and a sparse one that has a row twice."""
    model, random = weights(), np.random.RandomState(1)
    optimizer = make(list(model.values()))
    for _ in range(3):
        loss = 0
        for name in ("large", "small"):
            loss = (
                loss + (model[name] * paddle.to_tensor(random.standard_normal(SHAPES[name]).astype(np.float32))).sum()
            )
        rows = paddle.nn.functional.embedding(paddle.to_tensor([1, 5, 5, 39]), model["table"], sparse=True)
        loss = loss + (rows * paddle.to_tensor(random.standard_normal((4, 5)).astype(np.float32))).sum()
        (loss * scale).backward()
        optimizer.step()
        optimizer.clear_grad()
    state = [value.numpy() for value in optimizer.state_dict().values() if isinstance(value, paddle.Tensor)]
    return {name: weight.numpy() for name, weight in model.items()}, state


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])  # below the bound of the norm, and above
def test_it_is_paddles_adagrad_with_a_clip(scale):
    def of_paddle(parameters):
        clip = paddle.nn.ClipGradByGlobalNorm(10.0)
        return paddle.optimizer.Adagrad(0.2, parameters=parameters, initial_accumulator_value=1.0, grad_clip=clip)

    found, state = train(lambda parameters: Adagrad(0.2, parameters, max_grad_norm=10.0), scale)
    expected, expected_state = train(of_paddle, scale)
    for name, weight in expected.items():
        np.testing.assert_allclose(found[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(state) == len(expected_state) == 3
    for one, other in zip(state, expected_state, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.usefixtures("implementation")
def test_a_step_by_hand():
    weight = paddle.create_parameter([2], "float32")
    weight.set_value(np.array([1.0, -2.0], np.float32))
    optimizer = Adagrad(0.5, [weight], max_grad_norm=1.0)
    (weight * paddle.to_tensor([3.0, 4.0])).sum().backward()  # of norm 5
    optimizer.step()
    gradient = np.array([0.6, 0.8])
    np.testing.assert_allclose(weight.numpy(), [1, -2] - 0.5 * gradient / np.sqrt(1 + gradient**2), rtol=1e-5)
