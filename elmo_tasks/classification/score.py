"""Scores of a classifier, as scikit-learn computes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmo_tasks.records import Label
from elmo_tasks.score import Score


@dataclass(eq=False, repr=False)
class ClassifierScore(Score):
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
        from sklearn import metrics  # in the functions that use it: predictions do not wait for it

        found = np.unique(self.labels)
        areas = [
            metrics.roc_auc_score(self.labels == k, self.probabilities[:, k])
            for k in found
            if len(found) > 1
        ]
        return float(np.mean(areas or [0.0]))

    @property
    def value(self) -> float:
        """The AUC, less noisy on few texts, by which the best epoch is selected; of equal ones, the accuracy."""
        return self.auc + 1e-9 * self.accuracy

    @property
    def summary(self) -> str:
        return f"accuracy {self.accuracy:.2%}  AUC {self.auc:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """The scores; the mean of F1 is over the classes that occur; confusion: a row of predictions for each class."""
        from sklearn import metrics

        macro_f1 = float(
            metrics.f1_score(self.labels, self.predicted, average="macro", zero_division=0)
        )
        scores = {
            "accuracy": self.accuracy,
            "macro_f1": macro_f1,
            "auc": self.auc,
            "texts": len(self.labels),
        }
        numbers, names = range(len(self.classes)), ("precision", "recall", "f1", "support")
        columns = metrics.precision_recall_fscore_support(
            self.labels, self.predicted, labels=numbers, zero_division=0
        )
        rows = (dict(zip(names, row, strict=True)) for row in np.transpose(columns).tolist())
        confusion = metrics.confusion_matrix(self.labels, self.predicted, labels=numbers).tolist()
        return {
            **scores,
            "classes": dict(zip(map(str, self.classes), rows, strict=True)),
            "confusion": confusion,
        }

    def table(self) -> str:
        from sklearn import metrics

        numbers, names = range(len(self.classes)), list(map(str, self.classes))
        options = {"labels": numbers, "target_names": names, "digits": 4, "zero_division": 0}
        return metrics.classification_report(self.labels, self.predicted, **options).rstrip()
