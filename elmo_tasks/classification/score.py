"""Scores of a classifier, as scikit-learn computes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from elmo_core.display.terminal import pad_all
from elmo_tasks.records import Label
from elmo_tasks.score import Score
from elmo_tasks.texts import Text

MOST_SHOWN = 20  # classes of a printed confusion
MOST_IN_JSON = 1000  # classes of a confusion in `to_dict`


class Mistake(NamedTuple):
    """A text, or pair, whose prediction is wrong. gold, predicted: its label, or list of labels.

    probability: of the predicted label; with lists, of the surest decision on a label that is
    wrong, that it applies or that it does not.
    """

    text: str | tuple[str, str]
    gold: Label | list[Label]
    predicted: Label | list[Label]
    probability: float


@dataclass(eq=False, repr=False)
class ClassifierScore(Score):
    """Scores of predictions. labels: (n,) numbers of classes; probabilities: (n, classes).

    texts: what was predicted, for `mistakes`.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    classes: Sequence[Label]
    texts: Sequence[Text] = ()

    @cached_property
    def predicted(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).mean())

    @cached_property
    def auc(self) -> float:
        """The area under the ROC curve.

        Of several classes, it is the mean of each against the rest; of one class, 0.
        """
        from sklearn import metrics  # in the functions that use it: predictions do not wait for it

        found = np.unique(self.labels)
        if len(found) < 2:
            return 0.0
        areas = [metrics.roc_auc_score(self.labels == k, self.probabilities[:, k]) for k in found]
        return float(np.mean(areas))

    @property
    def value(self) -> float:
        """The score that selects the best epoch: the AUC, and of equal ones the accuracy.

        The AUC is less noisy on few texts.
        """
        return self.auc + 1e-9 * self.accuracy

    @property
    def main_figures(self) -> dict[str, float]:
        return {"accuracy": float(self.accuracy), "AUC": float(self.auc)}

    @property
    def summary(self) -> str:
        return f"accuracy {self.accuracy:.2%}  AUC {self.auc:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain values.

        macro_f1: the mean over the classes that occur or are predicted. confusion: a row of
        predictions for each class, if these are not more than a thousand.
        """
        from sklearn import metrics

        values = {
            "accuracy": self.accuracy,
            "macro_f1": self._mean("macro")[2],
            "auc": self.auc,
            "texts": len(self.labels),
            "classes": _by_class(self.classes, self._by_class),
        }
        if len(self.classes) <= MOST_IN_JSON:
            numbers = range(len(self.classes))
            confusion = metrics.confusion_matrix(self.labels, self.predicted, labels=numbers)
            values["confusion"] = confusion.tolist()
        return values

    def table(self) -> str:
        """The scores of each class, and the confusion of the classes that are confused most."""
        n = len(self.labels)
        rows = [*zip(self.classes, *self._by_class, strict=True)]
        means = [
            ("accuracy", "", "", self.accuracy, n),
            ("macro avg", *self._mean("macro"), n),
            ("weighted avg", *self._mean("weighted"), n),
        ]
        return f"{_report(rows, means)}\n\n{self.confusion()}"

    def confusion(self) -> str:
        """The confusion of up to twenty classes, those with the most mistakes, as lines of text."""
        n_classes = len(self.classes)
        is_wrong = self.predicted != self.labels
        mistakes = np.bincount(self.labels[is_wrong], minlength=n_classes)
        mistakes += np.bincount(self.predicted[is_wrong], minlength=n_classes)
        occurrences = np.bincount(self.labels, minlength=n_classes)
        order = np.lexsort([-occurrences, -mistakes])
        shown = np.sort(order[:MOST_SHOWN])
        counts = np.zeros((len(shown), len(shown) + 1), int)  # the last column: all other classes
        columns = np.full(n_classes, len(shown))
        columns[shown] = np.arange(len(shown))
        rows = columns[self.labels]
        is_shown = rows < len(shown)
        np.add.at(counts, (rows[is_shown], columns[self.predicted[is_shown]]), 1)
        names = [f"{k:>2} {self.classes[number]}" for k, number in enumerate(shown, 1)]
        heads = [str(k) for k in range(1, len(shown) + 1)]
        title = "confusion: a row per true class, a column per predicted one"
        n_others = n_classes - len(shown)
        if n_others:
            heads.append("others")
            of_all = f"the {len(shown)} of {n_classes:,} classes with the most mistakes"
            title += f" ({of_all}; {n_others:,} are left out)"
        else:
            counts = counts[:, :-1]
        return "\n".join([title, *_grid(names, heads, counts)])

    def mistakes(self, n: int = 10) -> list[Mistake]:
        """The n most confident mistakes, the most confident first."""
        confidence = self.probabilities.max(axis=1)
        found = []
        for k in _most_confident(confidence, self.predicted != self.labels, n):
            mistake = Mistake(
                text=_given(self.texts[k]),
                gold=self.classes[self.labels[k]],
                predicted=self.classes[self.predicted[k]],
                probability=float(confidence[k]),
            )
            found.append(mistake)
        return found

    @cached_property
    def _by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and number of texts of each class."""
        from sklearn import metrics

        numbers = range(len(self.classes))
        return metrics.precision_recall_fscore_support(
            self.labels, self.predicted, labels=numbers, zero_division=0
        )

    def _mean(self, average: str) -> list[float]:
        """The mean precision, recall and F1 of the classes that occur or are predicted."""
        from sklearn import metrics

        *means, _ = metrics.precision_recall_fscore_support(
            self.labels, self.predicted, average=average, zero_division=0
        )
        return [float(mean) for mean in means]


@dataclass(eq=False, repr=False)
class MultiLabelScore(Score):
    """Scores of predictions of lists of labels.

    labels: (n, classes), whether each applies. probabilities: (n, classes), that it does.
    threshold: from which it is predicted; None: the one with the best micro-F1.
    texts: what was predicted, for `mistakes`.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    classes: Sequence[Label]
    threshold: float | None = None
    texts: Sequence[Text] = ()

    def __post_init__(self) -> None:
        if self.threshold is None:
            self.threshold = best_threshold(self.labels, self.probabilities)

    @cached_property
    def predicted(self) -> np.ndarray:
        return self.probabilities >= self.threshold

    @property
    def value(self) -> float:
        """The score that selects the best epoch: the micro-F1."""
        return self._mean("micro")[2]

    @property
    def accuracy(self) -> float:
        """The share of the texts whose labels are all right, and no others."""
        return float((self.predicted == self.labels).all(axis=1).mean())

    @property
    def main_figures(self) -> dict[str, float]:
        return {"micro-F1": self.value, "macro-F1": self._mean("macro")[2]}

    @property
    def summary(self) -> str:
        figures = [f"{name} {share:.2%}" for name, share in self.main_figures.items()]
        return "  ".join([*figures, f"subset accuracy {self.accuracy:.2%}"])

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain values.

        macro_f1: the mean over the labels that occur or are predicted.
        """
        precision, recall, f1 = self._mean("micro")
        return {
            "micro_f1": f1,
            "micro_precision": precision,
            "micro_recall": recall,
            "macro_f1": self._mean("macro")[2],
            "subset_accuracy": self.accuracy,
            "threshold": self.threshold,
            "texts": len(self.labels),
            "classes": _by_class(self.classes, self._by_class),
        }

    def table(self) -> str:
        """The scores of each label."""
        n = int(self.labels.sum())
        rows = [*zip(self.classes, *self._by_class, strict=True)]
        means = [("micro avg", *self._mean("micro"), n), ("macro avg", *self._mean("macro"), n)]
        return _report(rows, means)

    def mistakes(self, n: int = 10) -> list[Mistake]:
        """The n texts with the most confident mistakes, the most confident first."""
        is_wrong = self.predicted != self.labels
        probabilities = np.where(self.predicted, self.probabilities, 1 - self.probabilities)
        confidence = np.where(is_wrong, probabilities, 0).max(axis=1)
        found = []
        for k in _most_confident(confidence, is_wrong.any(axis=1), n):
            mistake = Mistake(
                text=_given(self.texts[k]),
                gold=self._names(self.labels[k]),
                predicted=self._names(self.predicted[k]),
                probability=float(confidence[k]),
            )
            found.append(mistake)
        return found

    def _names(self, row: np.ndarray) -> list[Label]:
        """The labels that apply. row: (classes,)."""
        return [self.classes[k] for k in row.nonzero()[0]]

    @cached_property
    def _by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and number of texts of each label."""
        n_right = (self.predicted & self.labels).sum(axis=0)
        n_predicted = self.predicted.sum(axis=0)
        n_gold = self.labels.sum(axis=0)
        return *_measures(n_right, n_predicted, n_gold), n_gold

    def _mean(self, average: str) -> list[float]:
        """The precision, recall and F1 of all labels; or their means over those that are found."""
        *measures, n_gold = self._by_class
        if average == "macro":
            is_found = (n_gold > 0) | self.predicted.any(axis=0)
            return [float(x[is_found].mean()) if is_found.any() else 0.0 for x in measures]
        n_right = (self.predicted & self.labels).sum()
        return [float(x) for x in _measures(n_right, self.predicted.sum(), n_gold.sum())]


def best_threshold(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """The probability from which predictions of labels have the best micro-F1.

    labels, probabilities: (n, classes). It is between two probabilities; 0.5 if nothing applies.
    """
    if not labels.any():
        return 0.5
    order = np.argsort(-probabilities, axis=None, kind="stable")
    sorted_probabilities = probabilities.ravel()[order]
    n_right = np.cumsum(labels.ravel()[order])
    n_predicted = np.arange(1, len(order) + 1)
    f1 = 2 * n_right / (n_predicted + labels.sum())
    following = np.append(sorted_probabilities[1:], 0.0)
    f1[sorted_probabilities == following] = -1  # equal ones are predicted together
    best = f1.argmax()
    return (float(sorted_probabilities[best]) + float(following[best])) / 2


def _measures(
    n_right: np.ndarray, n_predicted: np.ndarray, n_gold: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1; 0 where they are not defined."""
    precision = n_right / np.maximum(n_predicted, 1)
    recall = n_right / np.maximum(n_gold, 1)
    f1 = 2 * n_right / np.maximum(n_predicted + n_gold, 1)
    return precision, recall, f1


def _most_confident(confidence: np.ndarray, is_wrong: np.ndarray, n: int) -> np.ndarray:
    """The numbers of n wrong predictions, the most confident first. All arrays are (texts,)."""
    wrong = is_wrong.nonzero()[0]
    return wrong[np.argsort(-confidence[wrong], kind="stable")][:n]


def _given(text: Text) -> str | tuple[str, str]:
    """The text, or the pair, as a user gives it."""
    return text.texts[0] if len(text.texts) == 1 else text.texts


def _by_class(classes: Sequence[Label], measures: Sequence[np.ndarray]) -> dict[str, Any]:
    """The measures of each class by its name, as plain values."""
    rows = {}
    for label, precision, recall, f1, support in zip(classes, *measures, strict=True):
        rows[str(label)] = {
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "support": int(support),
        }
    return rows


def _report(rows: Sequence[Sequence[Any]], means: Sequence[Sequence[Any]]) -> str:
    """Lines of text: a name, precision, recall, F1 and number of texts of each row."""
    names = pad_all(["", *(str(name) for name, *_ in [*rows, *means])])
    heads = "".join(f"{head:>11}" for head in ("precision", "recall", "f1-score", "support"))
    lines = [names[0] + heads]
    for name, (_, *measures, support) in zip(names[1:], [*rows, *means], strict=True):
        cells = [x if isinstance(x, str) else f"{x:.4f}" for x in measures]
        numbers = "".join(f"{cell:>11}" for cell in [*cells, f"{support:,}"])
        lines.append(name + numbers)
    lines.insert(1 + len(rows), "")
    return "\n".join(lines)


def _grid(names: Sequence[str], heads: Sequence[str], counts: np.ndarray) -> list[str]:
    """Lines of text: counts with names of the rows and of the columns; a dot is 0."""
    columns = [pad_all(["", *names])]
    for head, column in zip(heads, counts.T.tolist(), strict=True):
        cells = [head, *(str(count) if count else "." for count in column)]
        width = 2 + max(len(cell) for cell in cells)
        columns.append([cell.rjust(width) for cell in cells])
    return ["".join(row) for row in zip(*columns, strict=True)]
