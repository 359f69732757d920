"""The character CNN: its compiled loops against Paddle's operators, which the tests of elmo.py
prove in float64.
"""

import numpy as np
import pytest

from elmo import ELMoConfig
from elmo_core.kernels import fused
from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import CharCNN
from elmo_core.text.characters import CharTable
from elmo_core.text.lexicon import Tokens

FILTERS = ((1, 3), (2, 5), (7, 19))


def random_tokens(n: int) -> Tokens:
    """Tokens of all lengths, from empty to truncated."""
    random = np.random.RandomState(0)
    words = [
        "",
        "x" * 60,
        *("".join(random.choice(list("abcdeé苹"), random.randint(1, 49))) for _ in range(n - 2)),
    ]
    characters = CharTable(words)
    order = np.argsort(characters.lengths, kind="stable")
    return Tokens(characters.rows(order), characters.lengths[order].astype(np.int32))


def run(tokens: Tokens, activation: str) -> dict[str, np.ndarray]:
    """Vectors and all gradients of a CNN with random weights. A token's padding changes nothing."""
    random = np.random.RandomState(1)
    cnn = CharCNN(
        ELMoConfig(
            filters=FILTERS, n_highway=2, projection_dim=11, character_dim=5, activation=activation
        )
    )
    for weight in cnn.parameters():
        weight.set_value((random.standard_normal(weight.shape) * 0.4).astype(np.float32))
    vectors = cnn(tokens)
    (
        vectors * paddle.to_tensor(random.standard_normal(vectors.shape).astype(np.float32))
    ).sum().backward()
    with paddle.no_grad():
        np.testing.assert_allclose(cnn(tokens).numpy(), vectors.numpy(), rtol=1e-5, atol=1e-5)
        every_column = Tokens(
            tokens.characters, np.full_like(tokens.lengths, tokens.characters.shape[1])
        )
        np.testing.assert_allclose(cnn(every_column).numpy(), vectors.numpy(), rtol=1e-5, atol=1e-5)
    return {
        "vectors": vectors.numpy(),
        **{name: weight.grad.numpy() for name, weight in cnn.named_parameters()},
    }


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("n", [2, 150])
def test_both_implementations_agree(n, activation, monkeypatch):
    if fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")
    tokens = random_tokens(n)
    actual = run(tokens, activation)
    monkeypatch.setattr(fused, "kernel", lambda: None)
    for name, expected in run(tokens, activation).items():
        np.testing.assert_allclose(
            actual[name], expected, atol=1e-5 * np.abs(expected).max(), err_msg=name
        )


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(
    "frozen",
    [
        ("embedding.weight", "convolutions.1.bias"),
        ("embedding", "convolutions"),
        ("highways.0",),
        ("highways",),
    ],
)
def test_a_frozen_part_gets_no_gradient_and_the_others_theirs(frozen):
    paddle.seed(0)
    cnn = CharCNN(ELMoConfig(filters=FILTERS, n_highway=2, projection_dim=11))
    cnn(random_tokens(9)).sum().backward()
    expected = {
        name: weight.grad.numpy()
        for name, weight in cnn.named_parameters()
        if not name.startswith(frozen)
    }
    for weight in cnn.parameters():
        weight.clear_gradient(False)
    for name, weight in cnn.named_parameters():
        weight.stop_gradient = name.startswith(frozen)
    cnn(random_tokens(9)).sum().backward()
    actual = {
        name: weight.grad.numpy()
        for name, weight in cnn.named_parameters()
        if weight.grad is not None
    }
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(actual[name], gradient, rtol=1e-6, err_msg=name)


def test_a_new_highway_layer_lets_its_input_through():
    highway = CharCNN(ELMoConfig(filters=FILTERS, n_highway=1)).highways[0]
    assert (paddle.nn.functional.sigmoid(highway.carry.bias).numpy() < 0.2).all()
