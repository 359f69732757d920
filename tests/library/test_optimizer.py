"""The optimizers against Paddle's own, whose state they read, and against their formulas in
float64.
"""

from functools import partial

import numpy as np
import pytest

from elmo_core.kernels.row_gradients import embedding_lookup
from elmo_core.machine.runtime import paddle
from elmo_core.training.optimizer import Adagrad, Adam

SHAPES = {"large": (300, 301), "small": (7,), "table": (40, 5), "whole": (6, 2), "frozen": (3, 2)}
DECAYED = {"large": 0.3, "small": 0.3, "table": 0.3}
OURS = {"adagrad": Adagrad, "adam": Adam, "adamw": partial(Adam, weight_decay=DECAYED)}
PADDLES = {
    "adagrad": partial(paddle.optimizer.Adagrad, initial_accumulator_value=1.0),
    "adam": paddle.optimizer.Adam,
    "adamw": partial(
        paddle.optimizer.AdamW, weight_decay=0.3, apply_decay_param_fun=DECAYED.__contains__
    ),
}


@pytest.fixture(autouse=True)
def _names():
    """Paddle numbers its moments' names in a process; start again."""
    with paddle.utils.unique_name.guard():
        yield


def paddles_rows(table, ids):
    return paddle.nn.functional.embedding(paddle.to_tensor(ids), table)


class Model:
    """Weights, and training steps with dense gradients, and a sparse one with a row twice."""

    def __init__(self):
        self.random = np.random.RandomState(0)
        self.weights = {}
        for name, shape in SHAPES.items():
            attribute = paddle.ParamAttr(learning_rate=0.25 if name == "small" else 1.0)
            self.weights[name] = paddle.create_parameter(list(shape), "float32", attr=attribute)
            self.weights[name].name = name
            self.weights[name].set_value(self.draw(shape).numpy())
        self.weights["frozen"].stop_gradient = True

    def draw(self, shape) -> paddle.Tensor:
        return paddle.to_tensor(self.random.standard_normal(tuple(shape)).astype(np.float32))

    def ours(self, kind: str, max_grad_norm: float | None = 10.0):
        return OURS[kind](self.weights.items(), 0.2, max_grad_norm)

    def paddles(self, kind: str, max_grad_norm: float | None = 10.0):
        clip = paddle.nn.ClipGradByGlobalNorm(max_grad_norm) if max_grad_norm else None
        return PADDLES[kind](
            learning_rate=0.2, parameters=list(self.weights.values()), grad_clip=clip
        )

    def train(self, optimizer, scale: float = 1.0, steps: int = 3) -> dict[str, paddle.Tensor]:
        """Returns the weights and the optimizer's state."""
        lookup = (
            paddles_rows if isinstance(optimizer, paddle.optimizer.Optimizer) else embedding_lookup
        )
        for _ in range(steps):
            outputs = [self.weights["large"], self.weights["small"]]
            outputs += [
                lookup(self.weights["table"], np.array(ids))
                for ids in ([1, 5, 5, 39], [0, 39, 7, 3])
            ]
            outputs.append(lookup(self.weights["whole"], np.arange(6)))
            (sum((output * self.draw(output.shape)).sum() for output in outputs) * scale).backward()
            optimizer.step()
            optimizer.clear_grad()
        return self.weights | {
            key: x for key, x in optimizer.state_dict().items() if isinstance(x, paddle.Tensor)
        }


def assert_close(actual: dict, expected: dict) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(
            actual[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-5, err_msg=name
        )


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(
    ("scale", "max_grad_norm"), [(1e-3, 10.0), (1.0, 10.0), (1e3, 10.0), (1.0, None)]
)
@pytest.mark.parametrize("kind", PADDLES)
def test_weights_and_state_are_those_of_paddles_optimizer(kind, scale, max_grad_norm):
    model, expected = Model(), Model()
    actual = model.train(model.ours(kind, max_grad_norm), scale)
    assert_close(actual, expected.train(expected.paddles(kind, max_grad_norm), scale))


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("kind", PADDLES)
def test_training_continues_from_the_state_of_paddles_optimizer(kind):
    """Checkpoints of earlier versions have it."""
    expected, model = Model(), Model()
    reference, optimizer = expected.paddles(kind), model.ours(kind)
    state = {key: value.numpy() for key, value in expected.train(reference).items()}
    for name, weight in model.weights.items():
        weight.set_value(state[name])
    optimizer.set_state_dict(state)
    model.random.set_state(expected.random.get_state())
    assert_close(model.train(optimizer), expected.train(reference))


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("kind", PADDLES)
def test_a_restored_optimizer_continues_bit_for_bit(kind):
    model, other = Model(), Model()
    optimizer, restored = model.ours(kind), other.ours(kind)
    saved = {key: value.numpy() for key, value in model.train(optimizer).items()}
    for name, weight in other.weights.items():
        weight.set_value(saved[name])
    restored.set_state_dict(saved)
    other.random.set_state(model.random.get_state())
    expected = model.train(optimizer)
    for key, value in other.train(restored).items():
        assert value.numpy().tobytes() == expected[key].numpy().tobytes(), key


def test_gradients_are_freed_and_weights_without_one_stay():
    model = Model()
    optimizer = model.ours("adam")
    model.train(optimizer)
    assert all(weight.grad is None for weight in model.weights.values())
    before = {name: weight.numpy() for name, weight in model.weights.items()}
    model.weights["small"].sum().backward()
    optimizer.step()
    assert [name for name, old in before.items() if (model.weights[name].numpy() != old).any()] == [
        "small"
    ]


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("kind", ["adagrad", "adam"])
def test_the_rows_that_a_step_reads_follow_the_formula(kind):
    """In float64. (Paddle's Adam with lazy_mode takes the powers of the next step for the rows of
    sparse gradients.)
    """
    random = np.random.RandomState(0)
    table = paddle.create_parameter([9, 2], "float32")
    weight = table.numpy().astype(np.float64)
    first, second, sums = np.zeros((9, 2)), np.zeros((9, 2)), np.ones((9, 2))
    optimizer = OURS[kind]([("table", table)], 0.2, max_grad_norm=1.5)
    for step, ids in enumerate([[1, 5, 5], [8, 5], [1, 2, 1]], 1):
        factors, gradient, rows = (
            random.standard_normal((len(ids), 2)),
            np.zeros((9, 2)),
            sorted(set(ids)),
        )
        (
            embedding_lookup(table, np.array(ids)) * paddle.to_tensor(factors.astype(np.float32))
        ).sum().backward()
        optimizer.lr = 0.2 / step
        optimizer.step()
        optimizer.clear_grad()
        np.add.at(gradient, ids, factors)
        gradient *= min(1, 1.5 / np.linalg.norm(gradient))
        sums += gradient**2
        first[rows] = 0.9 * first[rows] + 0.1 * gradient[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * gradient[rows] ** 2
        correction = np.sqrt(1 - 0.999**step)
        change = (
            correction / (1 - 0.9**step) * first[rows] / (np.sqrt(second[rows]) + 1e-8 * correction)
        )
        if kind == "adagrad":
            change = gradient[rows] / (np.sqrt(sums[rows]) + 1e-6)
        weight[rows] -= 0.2 / step * change
        np.testing.assert_allclose(table.numpy(), weight, rtol=1e-5, atol=1e-5)
