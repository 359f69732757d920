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
HEADS = ("precision", "recall", "f1-score", "support")


class Measures(NamedTuple):
    """Scores of one class, or their means over classes. support: the number of its texts."""

    precision: float
    recall: float
    f1: float
    support: int


class Row(NamedTuple):
    """A row of a printed table."""

    name: str
    cells: list[str]


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
            "macro_f1": self._mean("macro").f1,
            "auc": self.auc,
            "texts": len(self.labels),
            "classes": _by_name(self.classes, self._by_class),
        }
        if len(self.classes) <= MOST_IN_JSON:
            numbers = range(len(self.classes))
            confusion = metrics.confusion_matrix(self.labels, self.predicted, labels=numbers)
            values["confusion"] = confusion.tolist()
        return values

    def table(self) -> str:
        """The scores of each class, and the confusion of the classes that are confused most."""
        accuracy = ["", "", f"{self.accuracy:.4f}", f"{len(self.labels):,}"]
        means = [
            Row("accuracy", accuracy),
            _row("macro avg", self._mean("macro")),
            _row("weighted avg", self._mean("weighted")),
        ]
        return f"{_report(self.classes, self._by_class, means)}\n\n{self.confusion()}"

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
        heads = [str(k) for k in range(1, len(shown) + 1)]
        title = "confusion: a row per true class, a column per predicted one"
        n_others = n_classes - len(shown)
        if n_others:
            heads.append("others")
            of_all = f"the {len(shown)} of {n_classes:,} classes with the most mistakes"
            title += f" ({of_all}; {n_others:,} are left out)"
        else:
            counts = counts[:, :-1]
        table = []
        for k, of_class in enumerate(counts.tolist()):
            cells = [str(count) if count else "." for count in of_class]
            table.append(Row(f"{k + 1:>2} {self.classes[shown[k]]}", cells))
        lines = "\n".join(_grid(heads, table))
        return f"{title}\n{lines}"

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
    def _by_class(self) -> list[Measures]:
        """The measures of each class."""
        from sklearn import metrics

        numbers = range(len(self.classes))
        precision, recall, f1, support = metrics.precision_recall_fscore_support(
            self.labels, self.predicted, labels=numbers, zero_division=0
        )
        found = []
        for k in numbers:
            of_class = Measures(
                precision=float(precision[k]),
                recall=float(recall[k]),
                f1=float(f1[k]),
                support=int(support[k]),
            )
            found.append(of_class)
        return found

    def _mean(self, average: str) -> Measures:
        """The mean of the classes that occur or are predicted. average: macro or weighted."""
        from sklearn import metrics

        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            self.labels, self.predicted, average=average, zero_division=0
        )
        return Measures(float(precision), float(recall), float(f1), len(self.labels))


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
        return self._micro.f1

    @property
    def accuracy(self) -> float:
        """The share of the texts whose labels are all right, and no others."""
        return float((self.predicted == self.labels).all(axis=1).mean())

    @property
    def main_figures(self) -> dict[str, float]:
        return {"micro-F1": self.value, "macro-F1": self._macro.f1}

    @property
    def summary(self) -> str:
        figures = self.main_figures
        figures["subset accuracy"] = self.accuracy
        return "  ".join(f"{name} {share:.2%}" for name, share in figures.items())

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain values.

        macro_f1: the mean over the labels that occur or are predicted.
        """
        return {
            "micro_f1": self._micro.f1,
            "micro_precision": self._micro.precision,
            "micro_recall": self._micro.recall,
            "macro_f1": self._macro.f1,
            "subset_accuracy": self.accuracy,
            "threshold": self.threshold,
            "texts": len(self.labels),
            "classes": _by_name(self.classes, self._by_class),
        }

    def table(self) -> str:
        """The scores of each label."""
        means = [_row("micro avg", self._micro), _row("macro avg", self._macro)]
        return _report(self.classes, self._by_class, means)

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
    def _by_class(self) -> list[Measures]:
        """The measures of each label."""
        n_right = (self.predicted & self.labels).sum(axis=0).tolist()
        n_predicted = self.predicted.sum(axis=0).tolist()
        n_gold = self.labels.sum(axis=0).tolist()
        return [_measures(n_right[k], n_predicted[k], n_gold[k]) for k in range(len(n_gold))]

    @cached_property
    def _micro(self) -> Measures:
        """The measures of all labels together."""
        n_right = int((self.predicted & self.labels).sum())
        return _measures(n_right, int(self.predicted.sum()), int(self.labels.sum()))

    @cached_property
    def _macro(self) -> Measures:
        """The means over the labels that occur or are predicted."""
        is_found = self.labels.any(axis=0) | self.predicted.any(axis=0)
        found = [self._by_class[k] for k in is_found.nonzero()[0]]
        n = max(len(found), 1)
        return Measures(
            precision=sum(x.precision for x in found) / n,
            recall=sum(x.recall for x in found) / n,
            f1=sum(x.f1 for x in found) / n,
            support=self._micro.support,
        )


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


def _measures(n_right: int, n_predicted: int, n_gold: int) -> Measures:
    """The measures of predictions; 0 where they are not defined."""
    return Measures(
        precision=n_right / max(n_predicted, 1),
        recall=n_right / max(n_gold, 1),
        f1=2 * n_right / max(n_predicted + n_gold, 1),
        support=n_gold,
    )


def _most_confident(confidence: np.ndarray, is_wrong: np.ndarray, n: int) -> np.ndarray:
    """The numbers of n wrong predictions, the most confident first. All arrays are (texts,)."""
    wrong = is_wrong.nonzero()[0]
    return wrong[np.argsort(-confidence[wrong], kind="stable")][:n]


def _given(text: Text) -> str | tuple[str, str]:
    """The text, or the pair, as a user gives it."""
    return text.texts[0] if len(text.texts) == 1 else text.texts


def _by_name(
    classes: Sequence[Label], of_classes: Sequence[Measures]
) -> dict[str, dict[str, float]]:
    """The measures of each class by its name, as plain values."""
    pairs = zip(classes, of_classes, strict=True)
    return {str(label): found._asdict() for label, found in pairs}


def _row(name: str, found: Measures) -> Row:
    shares = (found.precision, found.recall, found.f1)
    cells = [f"{share:.4f}" for share in shares]
    cells.append(f"{found.support:,}")
    return Row(name, cells)


def _report(classes: Sequence[Label], of_classes: Sequence[Measures], means: Sequence[Row]) -> str:
    """Lines of text: the measures of each class, and their means."""
    pairs = zip(classes, of_classes, strict=True)
    rows = [_row(str(label), found) for label, found in pairs]
    lines = _grid(HEADS, rows + list(means))
    lines.insert(1 + len(rows), "")
    return "\n".join(lines)


def _grid(heads: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Lines of text: the names of columns, and the rows, whose cells are aligned at the right."""
    names = [""]
    names.extend(row.name for row in rows)
    lines = pad_all(names)
    for k, head in enumerate(heads):
        cells = [head]
        cells.extend(row.cells[k] for row in rows)
        width = 2 + max(len(cell) for cell in cells)
        lines = [line + cell.rjust(width) for line, cell in zip(lines, cells, strict=True)]
    return lines
