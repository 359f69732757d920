"""Scores of a classifier over reviews, and whether two classifiers differ by more than chance."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError

CLASSES = ("negative", "positive")
RESAMPLES = 10_000  # of the bootstrap


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float((probabilities.argmax(axis=1) == labels).mean()) if len(labels) else math.nan


def auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The area under the ROC curve; of several classes the mean of their areas, each against all the others."""
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(labels, probabilities[:, 1]))
    return float(np.mean([roc_auc_score(labels == k, probabilities[:, k]) for k in np.unique(labels)]))


def macro_f1(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean of the classes' F1, all with the same weight."""
    return float(
        precision_recall_fscore_support(labels, probabilities.argmax(axis=1), average="macro", zero_division=0)[2]
    )


def mean_and_deviation(scores: np.ndarray) -> str:
    return f"{scores.mean():.2%}" + (f" ± {100 * scores.std(ddof=1):.2f}" if len(scores) > 1 else "")


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of McNemar's test, from the numbers of reviews that only one of two models has right."""
    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def bootstrap(mine: np.ndarray, other: np.ndarray, seed: int) -> tuple[float, float, float]:
    """The difference of the accuracies over resampled reviews: its 2.5 and 97.5 percentiles, and a two-sided p-value."""
    n, gained, lost = len(mine), int((mine & ~other).sum()), int((other & ~mine).sum())
    draws = np.random.default_rng(seed).multinomial(n, [gained / n, lost / n, 1 - (gained + lost) / n], RESAMPLES)
    differences = (draws[:, 0] - draws[:, 1]) / n
    low, high = np.percentile(differences, [2.5, 97.5])
    against = min((differences <= 0).sum(), (differences >= 0).sum())
    return float(low), float(high), min(1.0, 2 * (against + 1) / (RESAMPLES + 1))


@dataclass
class Results:
    """A run's predictions for its test texts: number, label, class, all (n,), and the probability of the second of two
    classes (n,), or of each of several (n, classes).
    """

    data: str  # identity of the reviews
    accuracy: float  # mean of the folds
    number: np.ndarray
    label: np.ndarray
    prediction: np.ndarray
    probability: np.ndarray
    classes: Sequence[str] = CLASSES

    @property
    def right(self) -> np.ndarray:
        return self.prediction == self.label

    def save(self, path: Path, **more: Any) -> None:
        columns = {name: getattr(self, name).tolist() for name in ("number", "label", "prediction")}
        columns["probability"] = self.probability.astype(float).round(6).tolist()
        values = {"data": self.data, "accuracy": self.accuracy, **more, "reviews": columns}
        with disk.atomic_write(path) as file:
            file.write(json.dumps(values) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        values = disk.read_json(path, "a file of --results")
        try:
            names = ("number", "label", "prediction", "probability")
            columns = {name: np.array(values["reviews"][name]) for name in names}
            lengths = {len(column) for column in columns.values()}
            if len(lengths) != 1 or any(column.dtype.kind not in "if" for column in columns.values()):
                raise ValueError("its columns do not fit")
            return cls(values["data"], values["accuracy"], **columns)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: not a file of --results ({type(error).__name__}: {error}).") from error


def compare(mine: Results, other: Results, name: Path, seed: int, unit: str = "reviews") -> str:
    """Whether the difference between two runs over the same texts is more than chance, in words. unit: their name."""
    gained, lost = int((mine.right & ~other.right).sum()), int((other.right & ~mine.right).sum())
    low, high, p = bootstrap(mine.right, other.right, seed)
    return (
        f"against {name}: {mine.right.mean():.2%} to {other.right.mean():.2%}, "
        f"difference {mine.right.mean() - other.right.mean():+.2%}\n"
        f"  right where the other is wrong: {gained:,}; wrong where it is right: {lost:,}; McNemar's exact test: "
        f"p = {mcnemar(gained, lost):.2g}\n"
        f"  bootstrap over the {unit}: 95 % of the differences are within {low:+.2%} and {high:+.2%}; p = {p:.2g}"
    )


def confusion(results: Results) -> str:
    """The matrix of labels (rows) and predictions (columns), as a table."""
    names = results.classes
    counts = confusion_matrix(results.label, results.prediction, labels=range(len(names)))
    longest = max(map(len, names))
    first, width = max(10, longest + 2), max(20, longest + 12)
    if len(names) > 2:
        first, width = max(first, 12), max(8, longest + 2)
    heads = [f"predicted {name}" for name in names] if len(names) == 2 else names
    corner = "" if len(names) == 2 else "predicted"
    lines = [f"{corner:{first}}" + "".join(f"{name:>{width}}" for name in heads)]
    for name, row in zip(names, counts, strict=True):
        lines.append(f"{name:{first}}" + "".join(f"{count:{width},}" for count in row))
    return "\n".join(lines)


def of_each_class(results: Results) -> str:
    """Precision, recall and F1 of each class, as a table."""
    names, width = results.classes, max(20, *map(len, results.classes))
    figures = precision_recall_fscore_support(
        results.label, results.prediction, labels=range(len(names)), zero_division=0
    )
    return "\n".join(
        f"{name:{width}}   precision {precision:7.2%}  recall {recall:7.2%}  F1 {f1:7.2%}  {n:,} of them"
        for name, precision, recall, f1, n in zip(names, *figures, strict=True)
    )


def mistakes(results: Results, texts: Sequence[str], most: int) -> str:
    """The misclassified texts whose own class was least likely: its probability, its name, the text."""
    p = results.probability
    own = np.where(results.label == 1, p, 1 - p) if p.ndim == 1 else p[np.arange(len(p)), results.label]
    worst = [k for k in np.argsort(own, kind="stable") if not results.right[k]][:most]
    return "\n".join(
        f"{own[k]:7.2%} {results.classes[results.label[k]]}  {texts[results.number[k]].strip()}" for k in worst
    )
