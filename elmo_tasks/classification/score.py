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

        macro_f1: the mean over the classes that occur. confusion: a row of predictions for each
        class.
        """
        from sklearn import metrics

        gold = self.labels
        predicted = self.predicted
        numbers = range(len(self.classes))
        macro_f1 = metrics.f1_score(gold, predicted, average="macro", zero_division=0)
        confusion = metrics.confusion_matrix(gold, predicted, labels=numbers)
        precision, recall, f1, support = metrics.precision_recall_fscore_support(
            gold, predicted, labels=numbers, zero_division=0
        )
        classes = {}
        for k, label in enumerate(self.classes):
            classes[str(label)] = {
                "precision": float(precision[k]),
                "recall": float(recall[k]),
                "f1": float(f1[k]),
                "support": float(support[k]),
            }
        return {
            "accuracy": self.accuracy,
            "macro_f1": float(macro_f1),
            "auc": self.auc,
            "texts": len(gold),
            "classes": classes,
            "confusion": confusion.tolist(),
        }

    def table(self) -> str:
        from sklearn import metrics

        report = metrics.classification_report(
            self.labels,
            self.predicted,
            labels=range(len(self.classes)),
            target_names=[str(label) for label in self.classes],
            digits=4,
            zero_division=0,
        )
        return report.rstrip()
