"""The sampled softmax: its candidates, its limit, its gradient."""

import numpy as np
import pytest
import reference
from tiny import dense_gradient

from elmo_core.kernels.row_gradients import row_gradient
from elmo_core.machine.runtime import paddle
from elmo_core.network import softmax as module
from elmo_core.network.softmax import Softmax, draw_candidates, is_sampled, log_uniform

V, P = 50, 5
pytestmark = pytest.mark.usefixtures("implementation")
once = pytest.mark.parametrize("implementation", ["Paddle's operators"], indirect=True)


def generator(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def random_softmax(vocab_size=V, spread=1.0):
    softmax, random = Softmax(vocab_size, P), np.random.RandomState(0)
    for weight in softmax.parameters():
        weight.set_value(random.normal(0, spread, weight.shape).astype(np.float32))
    h = paddle.to_tensor(random.standard_normal((40, P)).astype(np.float32), stop_gradient=False)
    return softmax, h, random.randint(vocab_size, size=40)


def dense(weight):
    """A weight's gradient as a full array; clears it."""
    gradient = dense_gradient(weight)
    weight.row_gradient = None
    return gradient


@once
def test_log_uniform_equals_the_reference():
    np.testing.assert_allclose(log_uniform(np.arange(V), V), reference.log_uniform(V), rtol=1e-12)


@once
def test_candidates_are_distinct_and_of_the_requested_number():
    for vocab_size, n in ((1000, 1), (1000, 50), (1000, 799), (150_000, 8192)):
        candidates = draw_candidates(vocab_size, n, generator())
        assert len(candidates.ids) == n == len(np.unique(candidates.ids))
        assert candidates.ids.min() >= 0 and candidates.ids.max() < vocab_size
        assert candidates.tries >= n


@once
@pytest.mark.parametrize("n", [0, V * 4 // 5, V, V + 1])
def test_all_words_are_candidates_if_none_or_too_many_are_requested(n):
    candidates = draw_candidates(V, n, generator())
    assert not is_sampled(V, n) and is_sampled(V, V // 2)
    assert (
        candidates.ids.tolist() == list(range(V))
        and not candidates.log_expected_counts(candidates.ids, paddle.zeros([1])).any()
    )


@once
def test_candidates_come_as_often_as_expected():
    """Over 4,000 draws of 10 words, each word's count is its expected count, within 5 standard
    errors.
    """
    draws = 4000
    counts, expected = np.zeros(V), np.zeros(V)
    random = generator()
    for _ in range(draws):
        candidates = draw_candidates(V, 10, random)
        counts[candidates.ids] += 1
        expected += reference.expected_count(reference.log_uniform(V), candidates.tries)
    error = np.sqrt(expected * (1 - expected / draws))
    # given the number of tries the expected count is an approximation, as in TensorFlow: 3 % beside
    # the noise
    assert (np.abs(counts - expected) < 5 * error + 0.03 * expected).all()


@pytest.mark.parametrize("frozen", [("weight", "bias"), ("weight",), ("h",), ("h", "bias")])
def test_frozen_tensors_get_no_gradient_and_the_others_theirs(frozen):
    gradients = []
    for stop in ((), frozen):
        softmax, h, targets = random_softmax()
        parts = {"weight": softmax.weight, "bias": softmax.bias, "h": h}
        for name in stop:
            parts[name].stop_gradient = True
        (loss,) = softmax.losses([h], [targets], draw_candidates(V, 20, generator()))
        loss.backward()
        has_gradient = [
            name
            for name, part in parts.items()
            if part.grad is not None or row_gradient(part) is not None
        ]
        gradients.append({name: dense_gradient(parts[name]) for name in has_gradient})
    assert gradients[1].keys() == gradients[0].keys() - set(frozen)
    for name, gradient in gradients[1].items():
        np.testing.assert_array_equal(gradient, gradients[0][name], err_msg=name)


def test_with_all_candidates_the_loss_is_the_full_softmax():
    softmax, h, targets = random_softmax()
    (loss,) = softmax.losses([h], [targets], draw_candidates(V, 0, generator()))
    loss.backward()
    weight, bias = (parameter.numpy() for parameter in softmax.parameters())
    table, one = softmax.weight.numpy(), softmax.bias.numpy()[:, 0]
    desired = [
        reference.full_softmax_loss(x, (table, one), k)
        for x, k in zip(h.numpy(), targets, strict=True)
    ]
    assert float(loss) == pytest.approx(np.mean(desired), abs=1e-5)

    logits = h.numpy() @ weight.T + bias[:, 0]
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(40), targets] -= 1
    np.testing.assert_allclose(h.grad.numpy(), chances @ weight / 40, atol=1e-6)
    np.testing.assert_allclose(dense(softmax.weight), chances.T @ h.numpy() / 40, atol=1e-6)
    np.testing.assert_allclose(dense(softmax.bias)[:, 0], chances.sum(axis=0) / 40, atol=1e-6)


def test_the_sampled_gradient_is_unbiased_within_the_error_of_100_draws():
    """The mean gradient of 100 draws of 1,000 of 2,000 words equals the full one within 5 standard
    errors.

    The logits are small: a sampled softmax has a bias from the variance of the sum under its
    logarithm, which only then lies below the error of so many draws.
    """
    vocab_size, draws = 2000, 100
    softmax, h, targets = random_softmax(vocab_size, spread=0.3)

    def gradient(n, random):
        h.clear_gradient()
        (loss,) = softmax.losses([h], [targets], draw_candidates(vocab_size, n, random))
        loss.backward()
        for table in softmax.parameters():
            table.row_gradient = None
        return h.grad.numpy()

    full, random = gradient(0, generator()), generator(2)
    sampled = np.array([gradient(1000, random) for _ in range(draws)])
    error = sampled.std(axis=0) / np.sqrt(draws)
    assert error.max() < 0.01 * np.abs(full).max(), "the test has lost its power"
    assert (np.abs(sampled.mean(axis=0) - full) < 5 * error).all()


def test_many_predictions_are_the_mean_of_their_parts(monkeypatch):
    """More predictions than are computed at a time: loss and gradients equal those of the parts,
    which other tests prove.
    """
    monkeypatch.setattr(module, "LOGITS_PER_SLICE", 20 * 70)
    softmax, _, _ = random_softmax()
    random = np.random.RandomState(1)
    h, targets = random.standard_normal((500, P)).astype(np.float32), random.randint(V, size=500)
    candidates = draw_candidates(V, 20, generator())

    def measured(a, b):
        part = paddle.to_tensor(h[a:b], stop_gradient=False)
        (loss,) = softmax.losses([part], [targets[a:b]], candidates)
        loss.backward()
        gradients = part.grad.numpy(), dense(softmax.weight), dense(softmax.bias)
        return float(loss), *gradients

    loss, d_h, d_weight, d_bias = measured(0, 500)
    parts = [measured(a, a + 50) for a in range(0, 500, 50)]
    assert loss == pytest.approx(np.mean([part[0] for part in parts]), rel=1e-5)
    np.testing.assert_allclose(d_h, np.concatenate([part[1] for part in parts]) / 10, atol=1e-6)
    np.testing.assert_allclose(d_weight, np.mean([part[2] for part in parts], axis=0), atol=1e-6)
    np.testing.assert_allclose(d_bias, np.mean([part[3] for part in parts], axis=0), atol=1e-6)


def test_the_gradient_touches_only_what_was_read():
    softmax, h, targets = random_softmax(2000)
    candidates = draw_candidates(2000, 30, generator())
    (loss,) = softmax.losses([h], [targets], candidates)
    loss.backward()
    gradient = row_gradient(softmax.weight)
    assert (
        softmax.weight.grad is None
        and gradient.ids[: gradient.shared].tolist() == candidates.ids.tolist()
    )
    assert sorted(gradient.ids) == sorted({*candidates.ids.tolist(), *targets.tolist()})


def test_many_small_probabilities_are_not_lost_next_to_a_large_one():
    """In float32 the sum over a large vocabulary, added word by word, would be too small by up to
    1e-4.
    """
    vocab_size = 40_000
    softmax, h, targets = random_softmax(vocab_size)
    softmax.weight.set_value(softmax.weight.numpy() / 2)
    likely = np.where(np.arange(vocab_size) < 20, 16, 0)[:, None]
    softmax.bias.set_value((softmax.bias.numpy() + likely).astype(np.float32))
    actual, entropy, rank = softmax.predictions(h, targets)
    expected = reference_predictions(softmax, h, targets)
    assert abs(np.mean(actual - expected[0])) < 1e-6 and np.abs(actual - expected[0]).max() < 1e-5
    np.testing.assert_allclose(entropy, expected[1], atol=1e-5)
    np.testing.assert_array_equal(rank, expected[2])


def reference_predictions(softmax, h, targets) -> np.ndarray:
    """Surprisal, entropy and rank (3, M) in float64."""
    logits = (
        h.numpy().astype(np.float64) @ softmax.weight.numpy().astype(np.float64).T
        + softmax.bias.numpy()[:, 0]
    )
    log_p = np.array([row - reference.logsumexp(row) for row in logits])
    target = log_p[np.arange(len(targets)), targets]
    return np.stack(
        [-target, -(np.exp(log_p) * log_p).sum(axis=1), 1 + (target < log_p.T).sum(axis=0)]
    )


@pytest.mark.parametrize(
    ("vocab_size", "per_slice"), [(3, 1), (1000, 40 * 1000), (1040, 17 * 1040), (2063, 1)]
)
def test_evaluation_takes_the_predictions_in_slices(monkeypatch, vocab_size, per_slice):
    """Slices of 16 predictions, or of more if they fit; the results do not depend on them."""
    softmax, h, targets = random_softmax(vocab_size, spread=3.0)
    sizes, scored = [], Softmax._predictions
    monkeypatch.setattr(
        Softmax, "_predictions", lambda *a: sizes.append(len(a[1]) * vocab_size) or scored(*a)
    )
    monkeypatch.setattr(module, "LOGITS_PER_SLICE", per_slice)
    expected = reference_predictions(softmax, h, targets)
    np.testing.assert_allclose(softmax.predictions(h, targets), expected, atol=2e-5)
    assert sum(sizes) == 40 * vocab_size and max(sizes) <= max(16 * vocab_size, per_slice)


@pytest.mark.parametrize(("vocab_size", "n"), [(100, 79), (5000, 300), (7, 1)])
def test_candidates_are_the_words_of_the_first_draws(vocab_size, n):
    for seed in range(5):
        candidates = draw_candidates(vocab_size, n, np.random.default_rng(seed))
        uniform = np.random.default_rng(seed).random(candidates.tries)
        words = np.exp(uniform * np.log(vocab_size + 1)).astype(np.int64) - 1
        assert candidates.ids.tolist() == sorted(set(words.tolist()))
        assert len(candidates.ids) == n == len(set(words[:-1].tolist())) + 1
