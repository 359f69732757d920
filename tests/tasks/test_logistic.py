"""Logistic regression over blocks: its solution, the choice of penalties, and folds."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from elmo_tasks.classification import logistic
from elmo_tasks.classification.logistic import Loss, calibrated, deal, fit, train

N, DIMS, LABELS = 40, (7, 30), 3
PENALTIES = [0.3, 0.05]


@pytest.fixture
def draw():
    return np.random.default_rng(5)


def blocks_of(draw, n: int = N) -> list:
    dense = draw.standard_normal((n, DIMS[0])).astype(np.float32)
    counts = sparse.random(n, DIMS[1], 0.2, format="csr", random_state=3, dtype=np.float32)
    return [dense, counts]


def loss_of(draw, multi_label: bool, n: int = N) -> Loss:
    if multi_label:
        targets = draw.random((n, LABELS)) < 0.4
    else:
        targets = np.eye(LABELS)[draw.integers(LABELS, size=n)]
    return Loss(targets.astype(np.float32), multi_label, draw.uniform(0.5, 2, n).astype(np.float32))


def objective(blocks, loss: Loss, linear) -> float:
    """What is minimised, in float64, text by text and in other words."""
    total = 0.0
    logits = linear.bias.astype(np.float64) + np.zeros((len(loss.targets), LABELS))
    for features, weights, penalty in zip(blocks, linear.weights, PENALTIES, strict=True):
        dense = features.toarray() if sparse.issparse(features) else features
        logits = logits + dense.astype(np.float64) @ weights.astype(np.float64)
        total += penalty / 2 * (weights.astype(np.float64) ** 2).sum()
    for row, target, importance in zip(logits, loss.targets, loss.importance, strict=True):
        if loss.is_multi_label:
            p = 1 / (1 + np.exp(-row))
            total -= importance * np.log(np.where(target, p, 1 - p)).sum()
        else:
            p = np.exp(row) / np.exp(row).sum()
            total -= importance * np.log(p[target.argmax()])
    return total


@pytest.mark.parametrize("is_dual", [True, False])
@pytest.mark.parametrize("multi_label", [True, False])
def test_the_solution_is_the_minimum(draw, monkeypatch, multi_label, is_dual):
    monkeypatch.setattr(logistic, "MAX_DUAL", N if is_dual else 0)
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-12)
    blocks = blocks_of(draw)
    loss = loss_of(draw, multi_label)
    found = fit(blocks, PENALTIES, loss)
    least = objective(blocks, loss, found)
    for _ in range(50):  # the objective is convex: no neighbour is lower
        weights = [
            w + 0.02 * draw.standard_normal(w.shape).astype(np.float32) for w in found.weights
        ]
        bias = found.bias + 0.02 * draw.standard_normal(LABELS).astype(np.float32)
        assert objective(blocks, loss, logistic.Linear(weights, bias)) > least
    for part in (found.bias, *found.weights):
        step = np.zeros_like(part)
        step[0] = 1e-3
        above = objective(blocks, loss, _moved(found, part, step))
        below = objective(blocks, loss, _moved(found, part, -step))
        assert abs(above - below) / 2e-3 < 0.02 * part.shape[-1]


def _moved(linear, part: np.ndarray, step: np.ndarray):
    """The solution with one part moved."""
    bias = linear.bias + step if part is linear.bias else linear.bias
    weights = [w + step if w is part else w for w in linear.weights]
    return logistic.Linear(weights, bias)


def test_two_classes_are_those_of_scikit_learn(draw):
    blocks = blocks_of(draw)
    labels = draw.integers(2, size=N)
    loss = Loss(np.eye(2, dtype=np.float32)[labels], False, np.ones(N, np.float32))
    found = fit(blocks, [0.2, 0.2], loss)
    features = np.hstack([blocks[0], blocks[1].toarray()])
    # With two columns of weights the penalty is half that of one.
    peer = LogisticRegression(C=2 / 0.2, tol=1e-8, max_iter=10_000).fit(features, labels)
    difference = found.logits(blocks)[:, 1] - found.logits(blocks)[:, 0]
    np.testing.assert_allclose(difference, peer.decision_function(features), atol=0.02)


def test_equal_and_empty_texts_have_a_solution():
    blocks = [np.zeros((6, 4), np.float32), sparse.csr_matrix((6, 5), dtype=np.float32)]
    loss = Loss(np.eye(2, dtype=np.float32)[[0, 0, 0, 0, 1, 1]], False, np.ones(6, np.float32))
    found = fit(blocks, PENALTIES, loss)
    np.testing.assert_allclose(
        loss.probabilities(found.logits(blocks)), [[2 / 3, 1 / 3]] * 6, atol=1e-3
    )


def test_many_equal_texts_have_a_solution(draw):
    kinds = draw.integers(2, size=1000)
    blocks = [part[kinds] for part in blocks_of(draw, 2)]
    loss = Loss(np.eye(2, dtype=np.float32)[kinds], False, np.ones(1000, np.float32))
    found = train(blocks, loss, [*kinds], seed=0)
    assert (found.linear.logits(blocks).argmax(axis=1) == kinds).all()


def labelled(draw, n: int, noise: float) -> tuple[list, Loss, list[int]]:
    """Texts whose class the first feature tells, with noise; the second block tells nothing."""
    blocks = blocks_of(draw, n)
    labels = (blocks[0][:, 0] + noise * draw.standard_normal(n) > 0).astype(int)
    return (
        blocks,
        Loss(np.eye(2, dtype=np.float32)[labels], False, np.ones(n, np.float32)),
        [*labels],
    )


def test_what_tells_nothing_is_penalised_more(draw):
    blocks, loss, labels = labelled(draw, 200, noise=0.3)
    found = train(blocks, loss, labels, seed=0)
    assert found.penalties[1] > 10 * found.penalties[0]
    assert (found.logits.argmax(axis=1) == labels).mean() > 0.8


def test_the_search_goes_both_ways(draw, monkeypatch):
    blocks, loss, labels = labelled(draw, 100, noise=0.3)
    highest, *_, lowest = logistic.PENALTIES
    monkeypatch.setattr(logistic, "START", 0)
    assert train(blocks, loss, labels, seed=0).penalties[0] < highest
    monkeypatch.setattr(logistic, "START", len(logistic.PENALTIES) - 1)
    assert train(blocks, loss, labels, seed=0).penalties[1] > lowest


def test_held_out_texts_refine_the_penalties_of_a_sample_but_for_many_labels(draw, monkeypatch):
    highest, *_, lowest = logistic.PENALTIES
    blocks, loss, _ = labelled(draw, 200, noise=0.3)
    rows = np.arange(0, 200, 5)
    penalties, choice = logistic.refine(blocks, loss, [highest, lowest], rows)
    assert penalties[0] < highest
    monkeypatch.setattr(logistic, "MOST_REFINED", 1)
    kept, worse = logistic.refine(blocks, loss, [highest, lowest], rows)
    assert kept == [highest, lowest] and choice.loss < worse.loss
    assert choice.logits.shape == worse.logits.shape == (40, 2)


@pytest.mark.parametrize("max_search", [1000, 100])
def test_probabilities_are_calibrated(draw, monkeypatch, max_search):
    """Also where the penalties are too low, and all is too certain."""
    monkeypatch.setattr(logistic, "MAX_SEARCH", max_search)
    monkeypatch.setattr(logistic, "PENALTIES", (0.0003, 0.0001))
    monkeypatch.setattr(logistic, "START", 0)
    blocks, loss, labels = labelled(draw, 200, noise=1.0)
    found = train(blocks, loss, labels, seed=1)
    others, loss_of_others, _ = labelled(np.random.default_rng(6), 1000, noise=1.0)
    logits = found.linear.logits(others)
    least, _ = calibrated([logits], loss_of_others)
    assert loss_of_others.value(logits) < 1.25 * least


@pytest.mark.parametrize("max_search", [1000, 100])
def test_held_out_texts_tell_how_good_it_is_on_others(draw, monkeypatch, max_search):
    monkeypatch.setattr(logistic, "MAX_SEARCH", max_search)
    blocks, loss, labels = labelled(draw, 300, noise=1.0)
    found = train(blocks, loss, labels, seed=1)
    expected = np.arange(300) if max_search > 300 else np.flatnonzero(deal(labels, 10, 1) == 0)
    np.testing.assert_array_equal(found.rows, expected)
    others, loss_of_others, labels_of_others = labelled(np.random.default_rng(6), 3000, noise=1.0)
    logits = found.linear.logits(others)
    accuracy = (logits.argmax(axis=1) == labels_of_others).mean()
    held_out = (found.logits.argmax(axis=1) == np.array(labels)[found.rows]).mean()
    assert held_out == pytest.approx(accuracy, abs=0.15)
    # Calibrated: no other scale would make the probabilities much better.
    least, _ = calibrated([logits], loss_of_others)
    assert loss_of_others.value(logits) < 1.05 * least


def test_the_same_texts_and_seed_give_the_same_solution(draw):
    blocks, loss, labels = labelled(draw, 60, noise=0.3)
    one = train(blocks, loss, labels, seed=4)
    again = train(blocks, loss, labels, seed=4)
    np.testing.assert_array_equal(one.linear.bias, again.linear.bias)
    np.testing.assert_array_equal(one.linear.weights[1], again.linear.weights[1])


def test_folds_have_the_labels_in_proportion():
    labels = ["a"] * 50 + ["b"] * 11 + ["c"]
    folds = deal(labels, 5, seed=3)
    for label, least in (("a", 10), ("b", 2), ("c", 0)):
        counts = np.bincount(folds[np.array(labels) == label], minlength=5)
        assert counts.min() >= least and counts.max() <= least + 1
    assert (folds == deal(labels, 5, seed=3)).all() and (folds != deal(labels, 5, seed=4)).any()
