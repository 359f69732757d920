"""Scores of a classifier, by hand and as scikit-learn computes them."""

import numpy as np
import pytest
from sklearn import metrics

from elmo_core.display.terminal import display_width
from elmo_tasks.classification.score import ClassifierScore, MultiLabelScore, best_threshold
from elmo_tasks.texts import Text


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


def certain(gold: list[int], predicted: list[int], classes: list) -> ClassifierScore:
    """A score of predictions that have the probability 1."""
    return ClassifierScore(np.array(gold), np.eye(len(classes))[predicted], classes)


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_table_has_the_figures_of_each_class_and_the_confusion():
    score = certain([0, 0, 1, 1, 1], [0, 1, 1, 1, 0], ["bad", "good"])
    head, bad, good, blank, accuracy, macro, weighted, *confusion = lines(score.table())
    assert head == ["precision", "recall", "f1-score", "support"] and not blank
    assert bad == ["bad", "0.5000", "0.5000", "0.5000", "2"]
    assert good == ["good", "0.6667", "0.6667", "0.6667", "3"]
    assert accuracy == ["accuracy", "0.6000", "5"]
    assert macro == ["macro", "avg", *3 * ["0.5833"], "5"]
    assert weighted == ["weighted", "avg", *3 * ["0.6000"], "5"]
    assert confusion[-3:] == [["1", "2"], ["1", "bad", "1", "1"], ["2", "good", "1", "2"]]
    assert score.confusion() in str(score)


def test_columns_are_aligned_whatever_the_classes_are_called():
    score = certain([0, 0, 1, 2] * 300, [0, 1, 1, 2] * 300, ["体育新闻", "b", "cafe\u0301"])
    report, confusion = score.table().split("\n\nconfusion")
    for part in (report.splitlines(), confusion.splitlines()[1:]):
        assert len({display_width(line) for line in part if line}) == 1


def test_twenty_classes_with_the_most_mistakes_are_shown_as_confused():
    """Here the last and the third of twenty-five, which are rarer than the others."""
    classes = [f"class {k}" for k in range(25)]
    others = [k for k in range(24) if k != 3]
    gold = [*others, *others, 3, 24]
    predicted = [*others, *others, 24, 3]
    title, heads, *rows = certain(gold, predicted, classes).confusion().splitlines()
    assert "20 of 25" in title and "5 are left out" in title
    assert heads.split() == [*(str(k) for k in range(1, 21)), "others"]
    names = [" ".join(row.split()[1:3]) for row in rows]
    assert len(rows) == 20 and {"class 3", "class 24"} <= set(names)
    of_third = rows[names.index("class 3")].split()[3:]
    assert of_third[names.index("class 24")] == "1" and of_third.count(".") == 20


def test_what_is_confused_with_a_class_that_is_not_shown_is_counted():
    """Twenty classes are taken for the next one twice, and the first for one with one mistake."""
    circle = list(range(20))
    gold = [*circle, *circle, 0]
    predicted = [*circle[1:], 0, *circle[1:], 0, 25]
    confusion = certain(gold, predicted, [f"c{k}" for k in range(30)]).confusion()
    row = next(line for line in confusion.splitlines() if " c0 " in line)
    assert row.split()[2:] == [".", "2", *18 * ".", "1"]


def test_the_most_confident_mistakes_come_first():
    probabilities = of_second(0.9, 0.2, 0.6, 0.99, 0.6)
    texts = [Text((f"text {k}",), "bad") for k in range(5)]
    score = ClassifierScore(np.array([0, 1, 0, 1, 0]), probabilities, ["bad", "good"], texts)
    found = score.mistakes(3)
    assert [mistake.text for mistake in found] == ["text 0", "text 1", "text 2"]
    assert found[1][1:] == ("good", "bad", 0.8)
    assert [mistake.text for mistake in score.mistakes(9)][3:] == ["text 4"]
    pair = ClassifierScore(np.array([0]), of_second(0.9), ["x", "y"], [Text(("a", "b"))])
    assert pair.mistakes(1) == [(("a", "b"), "x", "y", 0.9)]


LABELS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]], bool)
PROBABILITIES = np.array([[0.9, 0.6, 0.1], [0.8, 0.7, 0.1], [0.1, 0.2, 0.0], [0.3, 0.4, 0.1]])


def test_scores_of_lists_of_labels_worked_out_by_hand():
    score = MultiLabelScore(LABELS, PROBABILITIES, ["a", "b", "c"], 0.5)
    assert score.predicted.astype(int).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]]
    values = score.to_dict()
    assert (values["micro_precision"], values["micro_recall"]) == (3 / 4, 3 / 4)
    assert values["micro_f1"] == score.value == score["micro_f1"] == 3 / 4
    assert values["classes"]["b"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    assert values["macro_f1"] == (1 + 1 / 2) / 2  # the label c neither occurs nor is predicted
    assert values["subset_accuracy"] == 2 / 4
    assert lines(score.table())[1] == ["a", *3 * ["1.0000"], "2"]
    assert "micro-F1 75.00%" in score.summary


def test_lists_of_labels_are_scored_as_by_scikit_learn():
    generator = np.random.default_rng(0)
    labels = generator.random((60, 5)) < 0.3
    probabilities = generator.random((60, 5))
    score = MultiLabelScore(labels, probabilities, list("abcde"), 0.6)
    predicted = probabilities >= 0.6
    for average in ("micro", "macro"):
        expected = metrics.f1_score(labels, predicted, average=average)
        assert score[f"{average}_f1"] == pytest.approx(expected)
    assert score["subset_accuracy"] == metrics.accuracy_score(labels, predicted)


def test_the_best_threshold_is_that_of_the_best_micro_f1():
    assert best_threshold(LABELS, PROBABILITIES) == pytest.approx((0.4 + 0.3) / 2)
    generator = np.random.default_rng(1)
    for _ in range(20):
        labels = generator.random((12, 3)) < 0.3
        labels[0, 0] = True
        probabilities = generator.integers(0, 10, (12, 3)) / 10
        score = MultiLabelScore(labels, probabilities, list("abc"))
        others = [MultiLabelScore(labels, probabilities, "abc", k / 20) for k in range(1, 20)]
        assert score.value == max(other.value for other in others)
    assert best_threshold(np.zeros((2, 2), bool), PROBABILITIES[:2, :2]) == 0.5


def test_mistakes_in_lists_of_labels():
    texts = [Text((f"text {k}",)) for k in range(4)]
    score = MultiLabelScore(LABELS, PROBABILITIES, ["a", "b", "c"], 0.5, texts)
    assert score.mistakes(5) == [
        ("text 0", ["a"], ["a", "b"], 0.6),
        ("text 3", ["b"], [], 0.6),
    ]
    assert [mistake.text for mistake in score.mistakes(1)] == ["text 0"]
