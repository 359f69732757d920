"""Scores of a classifier, as scikit-learn computes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn import metrics

from elmo_core.display.terminal import display_width, pad
from elmo_tasks.records import Label


@dataclass
class Score:
    """Scores of predictions. labels: (n,) numbers of classes; probabilities: (n, classes)."""

    labels: np.ndarray
    probabilities: np.ndarray
    classes: Sequence[Label]

    @cached_property
    def predicted(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).mean())

    @cached_property
    def auc(self) -> float:
        """The area under the ROC curve; of several classes, the mean of one against the rest; 0 of one class."""
        found = np.unique(self.labels)
        areas = [metrics.roc_auc_score(self.labels == k, self.probabilities[:, k]) for k in found if len(found) > 1]
        return float(np.mean(areas or [0.0]))

    @property
    def value(self) -> float:
        """The AUC, less noisy on few texts, by which the best epoch is selected; of equal ones, the accuracy."""
        return self.auc + 1e-9 * self.accuracy

    @property
    def summary(self) -> str:
        return f"accuracy {self.accuracy:.2%}  AUC {self.auc:.4f}"

    @cached_property
    def by_class(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and support (number of texts) of each class."""
        numbers, names = range(len(self.classes)), ("precision", "recall", "f1", "support")
        columns = metrics.precision_recall_fscore_support(self.labels, self.predicted, labels=numbers, zero_division=0)
        rows = np.transpose(columns).tolist()
        return {str(name): dict(zip(names, row, strict=True)) for name, row in zip(self.classes, rows, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """The scores; the mean of F1 is over the classes that occur, as labels or as predictions."""
        macro_f1 = float(metrics.f1_score(self.labels, self.predicted, average="macro", zero_division=0))
        scores = {"accuracy": self.accuracy, "macro_f1": macro_f1, "auc": self.auc}
        return {**scores, "texts": len(self.labels), "classes": self.by_class}

    def table(self) -> str:
        width, lines = max(20, *map(display_width, self.by_class)), []
        for name, row in self.by_class.items():
            scores = "  ".join(f"{kind} {row[kind.lower()]:7.2%}" for kind in ("precision", "recall", "F1"))
            lines.append(f"{pad(name, width)}   {scores}  support {row['support']:,.0f}")
        return "\n".join(lines)

    def confusion_table(self) -> str:
        """Labels in rows, predictions in columns."""
        names = list(self.by_class)
        counts = metrics.confusion_matrix(self.labels, self.predicted, labels=range(len(names))).tolist()
        first, width = max(map(display_width, ("predicted", *names))), max(7, *map(display_width, names)) + 2
        rows = [
            ("predicted", names),
            *((name, map("{:,}".format, row)) for name, row in zip(names, counts, strict=True)),
        ]
        return "\n".join(pad(name, first) + "".join(pad(cell, -width) for cell in cells) for name, cells in rows)
