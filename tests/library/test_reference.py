"""The reference itself, against numbers computed by hand and against finite differences."""

import math

import numpy as np
import pytest
import reference as ref

P, H = 3, 5


def normal_layer(rng, P=P, H=H, scale=1.0):
    shapes = {"W_x": (P, 4 * H), "W_h": (P, 4 * H), "B": (4 * H,), "W_P": (H, P)}
    return {name: rng.normal(0.0, scale, shape) for name, shape in shapes.items()}


def logistic(x):
    return 1 / (1 + math.exp(-x))


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize(
    ("token", "start"),
    [
        ("ab", [259, 98, 99, 260, 261]),
        ("<S>", [259, 257, 260, 261]),
        ("</S>", [259, 258, 260, 261]),
        ("a\udc80b", [259, 98, 99, 260, 261]),
        ("a" * 47 + "é", [259] + [98] * 47 + [0xC3 + 1, 260]),
    ],
)
def test_char_ids(token, start):
    ids = ref.char_ids(token)
    assert ids.shape == (50,)
    assert list(ids) == start + [261] * (50 - len(start))


@pytest.mark.parametrize(("activation", "expected"), [("relu", 0.303), ("tanh", math.tanh(0.303))])
def test_char_cnn_with_a_filter_of_ones(activation, expected):
    # Of the neighbours in "ab", 259 98 99 260 261 261 .., 98 + 99 is the smallest sum: negated,
    # the maximum.
    char_embed = np.zeros((262, 16))
    char_embed[:, 4] = -np.arange(262) / 1000
    cnn = [
        (2, np.ones((2, 16, 1)), np.array([0.5])),
        (50, np.ones((50, 16, 2)), np.array([20.0, -20.0])),
    ]
    parameters = ref.Parameters(lstm={}, char_embed=char_embed, cnn=cnn, activation=activation)
    whole = 20 - (259 + 98 + 99 + 260 + 46 * 261) / 1000  # one window as wide as the token
    whole, below = (whole, 0.0) if activation == "relu" else (math.tanh(whole), -1.0)
    assert ref.char_cnn(parameters, ref.char_ids("ab")) == pytest.approx([expected, whole, below])


def test_char_cnn_does_not_turn_its_filters():
    char_embed = np.zeros((262, 16))
    char_embed[98, 0], char_embed[99, 0] = 1.0, 10.0
    W = np.zeros((2, 16, 1))
    W[0, 0], W[1, 0] = 1.0, 2.0
    parameters = ref.Parameters(lstm={}, char_embed=char_embed, cnn=[(2, W, np.zeros(1))])
    assert ref.char_cnn(parameters, ref.char_ids("ab")) == pytest.approx([21.0])  # 1 * a + 2 * b
    assert ref.char_cnn(parameters, ref.char_ids("ba")) == pytest.approx(
        [20.0]
    )  # 2 * b, begin of word before it


def test_highway_by_hand():
    weights = {"W_transform": 2.0, "b_transform": 1.0, "W_carry": 0.5, "b_carry": -2.0}
    layer = {
        name: np.full((1, 1) if name[0] == "W" else 1, value) for name, value in weights.items()
    }
    gate = logistic(0.5 * 3 - 2)
    assert ref.highway(np.array([3.0]), layer) == pytest.approx([gate * 7 + (1 - gate) * 3])
    assert ref.highway(np.array([3.0]), layer) == pytest.approx([4.510162675])
    gate = logistic(-0.5 - 2)
    assert ref.highway(np.array([-1.0]), layer) == pytest.approx([(1 - gate) * -1])


HAND_LAYER = {
    "W_x": np.array([[0.1, 0.2, 0.3, 0.4]]),
    "W_h": np.array([[0.5, -0.5, 0.25, -0.25]]),
    "B": np.array([0.1, -0.1, 0.2, -0.2]),
    "W_P": np.array([[2.0]]),
}


@pytest.mark.parametrize(
    ("cell_clip", "proj_clip", "expected_h", "expected_c"),
    [
        (0.0, 0.0, 0.433909927, 0.439541033),
        (0.3, 0.0, 0.305866117, 0.3),  # 2 * sigmoid(0.1) * tanh(0.3)
        (0.0, 0.2, 0.2, 0.439541033),
        (3.0, 3.0, 0.433909927, 0.439541033),
    ],
)
def test_lstmp_step_by_hand(cell_clip, proj_clip, expected_h, expected_c):
    # x = 1, h = 0.4, c = 0.6: the gates' sums are i 0.4, j -0.1, f 0.6, o 0.1.
    x, h, c = np.array([[1.0], [0.4], [0.6]])
    step = ref.lstmp_step(x, h, c, HAND_LAYER, cell_clip, proj_clip)
    c = logistic(0.6 + 1) * 0.6 + logistic(0.4) * math.tanh(-0.1)
    assert step["c_raw"] == pytest.approx([c])
    assert step["c"] == pytest.approx([expected_c])
    assert step["h"] == pytest.approx([expected_h])


@pytest.mark.parametrize("clips", [(0.0, 0.0), (0.6, 0.0), (0.0, 0.5), (0.6, 0.5), (9.0, 9.0)])
def test_lstmp_backward_against_finite_differences(rng, clips):
    layer = normal_layer(rng)
    rows = [rng.normal(size=(T, P)) for T in (5, 1, 0, 3)]
    h0, c0 = rng.normal(size=(5, P)), rng.normal(size=(5, H))  # one state more than rows
    d_outputs = [rng.normal(size=row.shape) for row in rows]
    d_h, d_c = rng.normal(size=h0.shape), rng.normal(size=c0.shape)

    def scalar(_):
        outputs, h, c = ref.lstmp(rows, h0, c0, layer, *clips)
        by_outputs = sum(np.sum(d * output) for d, output in zip(d_outputs, outputs, strict=True))
        return by_outputs + np.sum(d_h * h) + np.sum(d_c * c)

    bitten = [0, 0]
    total = [0, 0]
    for row, h, c in zip(rows, h0, c0, strict=False):
        for x in row:
            step = ref.lstmp_step(x, h, c, layer, *clips)
            h, c = step["h"], step["c"]
            for k, (raw, clipped) in enumerate([("c_raw", "c"), ("h_raw", "h")]):
                bitten[k] += np.sum(step[raw] != step[clipped])
                total[k] += step[raw].size
    for k, bound in enumerate(clips):  # a clip that is meant to bite does so, and not everywhere
        assert 0.1 < bitten[k] / total[k] < 0.9 if 0 < bound < 1 else bitten[k] == 0

    grads = ref.lstmp_backward(rows, h0, c0, layer, *clips, d_outputs, d_h, d_c)
    desired = {name: (grads[name], array) for name, array in (layer | {"h0": h0, "c0": c0}).items()}
    desired |= {f"row {b}": (grads["rows"][b], row) for b, row in enumerate(rows)}
    for name, (gradient, array) in desired.items():
        numerical = ref.numerical_gradient(scalar, array)
        np.testing.assert_allclose(gradient, numerical, rtol=1e-6, atol=1e-8, err_msg=name)


def test_scalar_mix_by_hand():
    # Two layers of one token with two dimensions, and of another: softmax([0, log 3]) = [1/4, 3/4].
    embeddings = [np.array([[[1.0, 3.0]], [[4.0, 8.0]]]), np.array([[[5.0, 7.0]], [[0.0, 4.0]]])]
    s = np.array([0.0, math.log(3)])
    mixed = ref.scalar_mix(embeddings, s, 2.0)
    np.testing.assert_allclose(mixed, [[[6.5, 13.5]], [[2.5, 9.5]]])
    # Layer 0: 1 3 5 7, mean 4, variance 5. Layer 1: 4 8 0 4, mean 4, variance 8.
    mixed = ref.scalar_mix(embeddings, s, 2.0, layer_norm=True)
    a, b = 0.5 / math.sqrt(5), 1.5 / math.sqrt(8)
    np.testing.assert_allclose(mixed, [[[-3 * a, -a + 4 * b]], [[a - 4 * b, 3 * a]]], atol=1e-11)


def test_losses_by_hand():
    softmax = (np.array([[1.0], [2.0], [0.0]]), np.array([0.0, -1.0, 0.5]))
    h = np.array([1.0])  # the logits are 1, 1, 0.5
    full = math.log(2 * math.e + math.exp(0.5)) - 0.5
    assert ref.full_softmax_loss(h, softmax, 2) == pytest.approx(full)
    # Corrected logits: target 2: 0.5 - log 0.25; candidate 0: 1 - log 0.5; candidate 2 is the
    # target.
    expected = np.array([0.5, 0.4, 0.25])
    target, other = math.exp(0.5) / 0.25, math.exp(1.0) / 0.5
    assert ref.sampled_softmax_loss(h, softmax, 2, [0, 2], expected) == pytest.approx(
        math.log((target + other) / target)
    )
    assert ref.sampled_softmax_loss(h, softmax, 2, [2], expected) == pytest.approx(0.0)


def test_log_uniform_by_hand():
    # log(2) / log(4), log(3/2) / log(4), log(4/3) / log(4)
    assert ref.log_uniform(3) == pytest.approx([0.5, 0.292481250, 0.207518750])


def test_expected_count_and_its_limits():
    p = np.array([0.5, 0.25, 1e-12])
    np.testing.assert_allclose(ref.expected_count(p, 1), p, rtol=1e-12)
    np.testing.assert_allclose(ref.expected_count(p, 2), [0.75, 0.4375, 2e-12], rtol=1e-9)
    # Certain in the end; n p while n p is small, with nothing lost to rounding.
    np.testing.assert_allclose(ref.expected_count(p, 1000), [1.0, 1.0, 1e-9], rtol=1e-8)
