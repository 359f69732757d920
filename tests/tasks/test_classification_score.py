"""Scores of a classifier, by hand and as scikit-learn computes them."""

import numpy as np
import pytest
from sklearn import metrics

from elmo_tasks.classification.score import ClassifierScore


def of_second(*shares: float) -> np.ndarray:
    """Probabilities of two classes, of which the second has these."""
    return np.array([[1 - share, share] for share in shares])


def test_scores_worked_out_by_hand():
    score = ClassifierScore(np.array([0, 0, 1, 1]), of_second(0.1, 0.4, 0.35, 0.8), ["bad", "good"])
    assert score.predicted.tolist() == [0, 0, 0, 1]
    assert score.accuracy == 3 / 4
    # Of four pairs of a bad and a good text, 0.4 and 0.35 are in the wrong order.
    assert score.auc == 3 / 4
    values = score.to_dict()
    bad = values["classes"]["bad"]
    good = values["classes"]["good"]
    assert (bad["precision"], bad["recall"], bad["support"]) == (pytest.approx(2 / 3), 1, 2)
    assert (good["precision"], good["recall"], good["support"]) == (1, 1 / 2, 2)
    assert bad["f1"] == pytest.approx(4 / 5) and good["f1"] == pytest.approx(2 / 3)
    assert values["macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert values["confusion"] == [[2, 0], [1, 1]]  # a row per true class
    assert values["texts"] == 4


def test_equal_probabilities_are_half_right():
    assert ClassifierScore(np.array([0, 1]), of_second(0.5, 0.5), ["a", "b"]).auc == 1 / 2


def test_a_class_that_does_not_occur_is_left_out_of_the_means():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])
    score = ClassifierScore(np.array([0, 1, 0]), probabilities, ["a", "b", "c"])
    assert score.auc == 1 and score.to_dict()["macro_f1"] == 1
    assert score.to_dict()["classes"]["c"] == {"precision": 0, "recall": 0, "f1": 0, "support": 0}


def test_one_class_alone_has_no_auc():
    assert ClassifierScore(np.array([0]), of_second(0.3), ["a", "b"]).auc == 0


def test_of_equal_auc_the_higher_accuracy_is_better():
    labels = np.array([0, 1])
    better = ClassifierScore(labels, of_second(0.4, 0.6), ["a", "b"])
    worse = ClassifierScore(labels, of_second(0.6, 0.7), ["a", "b"])
    assert better.auc == worse.auc and better.value > worse.value


def test_a_higher_auc_is_better_whatever_the_accuracy():
    labels = np.array([0, 0, 1, 1])
    better = ClassifierScore(labels, of_second(0.6, 0.7, 0.8, 0.9), ["a", "b"])
    worse = ClassifierScore(labels, of_second(0.1, 0.9, 0.6, 0.8), ["a", "b"])
    assert (better.auc, worse.auc) == (1, 1 / 2)
    assert better.accuracy < worse.accuracy
    assert better.value > worse.value


def test_several_classes_are_scored_as_by_scikit_learn():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=50)
    probabilities = generator.dirichlet(np.ones(3), 50)
    score = ClassifierScore(labels, probabilities, ["a", "b", 3])
    auc = metrics.roc_auc_score(labels, probabilities, multi_class="ovr")
    assert score.auc == pytest.approx(auc)
    macro_f1 = metrics.f1_score(labels, probabilities.argmax(axis=1), average="macro")
    assert score.to_dict()["macro_f1"] == macro_f1
    assert "3" in score.table()
    assert set(score.to_dict()["classes"]) == {"a", "b", "3"}
