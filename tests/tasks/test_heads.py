"""The classifier's heads: they and their gradients equal NumPy."""

import numpy as np
import pytest

from elmo_core.machine.runtime import paddle
from elmo_tasks.classification.heads import HEADS

LENGTHS, DIM, SIZE = (5, 1, 0, 7), 6, 3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(head, name: str, rows: list[np.ndarray]) -> np.ndarray:
    """The head's result (B, H) in float64, text by text."""
    weights = {key: value.numpy().astype(np.float64) for key, value in head.state_dict().items()}
    results = []
    for x in rows:  # (n, D)
        if not len(x):
            results.append(np.zeros(head.dim))
        elif name == "attention":
            scores = np.exp(x @ weights["score.weight"])  # (n, 1)
            results.append((scores / scores.sum() * x).sum(axis=0))
        else:
            directions = []
            for suffix, order in (("", 1), ("_reverse", -1)):
                w, u, b, c = (
                    weights[f"lstm.{part}_l0{suffix}"]
                    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                h, cell, states = np.zeros(SIZE), np.zeros(SIZE), []
                for row in x[::order]:
                    i, f, g, o = np.split(w @ row + b + u @ h + c, 4)
                    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(cell)
                    states.append(h)
                directions.append(np.max(states, axis=0))
            results.append(np.concatenate(directions))
    return np.stack(results)


@pytest.mark.parametrize("name", ["attention", "lstm"])
def test_a_head_and_its_gradient_equal_numpy(name):
    paddle.seed(4)
    draw = np.random.RandomState(0)
    rows = [draw.standard_normal((n, DIM)) for n in LENGTHS]
    head, mask = HEADS[name](DIM, SIZE), np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    x = np.zeros((*mask.shape, DIM), np.float32)
    x[mask] = np.concatenate(rows)
    x, mask = paddle.to_tensor(x, stop_gradient=False), paddle.to_tensor(mask.astype(np.float32))
    result = head(x, mask)
    np.testing.assert_allclose(result.numpy(), reference(head, name, rows), atol=1e-5)
    direction = draw.standard_normal(result.shape)
    (result * paddle.to_tensor(direction.astype(np.float32))).sum().backward()
    for text, row in enumerate(rows):
        for token, column in np.ndindex(*row.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = row.copy()
                moved[token, column] += step
                values.append(reference(head, name, [moved])[0] @ direction[text])
            expected = (values[0] - values[1]) / 2e-6
            assert x.grad.numpy()[text, token, column] == pytest.approx(expected, abs=1e-4)
