"""Classification scores, predictions in a file, and comparisons between two classifiers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.display.terminal import display_width, pad
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_tasks.significance import mcnemar, paired_bootstrap

CLASSES = ("negative", "positive")
COLUMNS = ("number", "label", "prediction", "probability")  # of a file


def auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The area under the ROC curve; with several classes, the mean of one-vs-rest areas."""
    classes = [1] if probabilities.shape[1] == 2 else np.unique(labels)
    return float(np.mean([_area(labels == k, probabilities[:, k]) for k in classes]))


def _area(positive: np.ndarray, score: np.ndarray) -> float:
    """The share of pairs of a positive and a negative in which the positive has the higher score; ties count half."""
    n = int(positive.sum())
    if not 0 < n < len(positive):
        return math.nan
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # from 1; ties have their mean
    return (ranks[inverse][positive].sum() - n * (n + 1) / 2) / (n * (len(positive) - n))


@dataclass
class Results:
    """Predictions for texts: their number and label (n,), and the probabilities (n, classes); and their scores."""

    data: str  # identity of the texts
    number: np.ndarray
    label: np.ndarray
    probabilities: np.ndarray
    classes: Sequence[str] = CLASSES

    @cached_property
    def prediction(self) -> np.ndarray:
        """The predicted classes (n,)."""
        return self.probabilities.argmax(axis=1)

    @property
    def is_correct(self) -> np.ndarray:
        return self.prediction == self.label

    @cached_property
    def value(self) -> float:
        """The area under the ROC curve, which selects the best epoch; between equal areas, the accuracy decides."""
        return auc(self.probabilities, self.label) + 1e-9 * self.accuracy

    @property
    def accuracy(self) -> float:
        return float(self.is_correct.mean())

    @property
    def confusion(self) -> np.ndarray:
        """Counts, labels in rows, predictions in columns."""
        counts = np.zeros((len(self.classes), len(self.classes)), int)
        np.add.at(counts, (self.label, self.prediction), 1)
        return counts

    @cached_property
    def per_class(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and support (number of texts) of each class."""
        counts = self.confusion
        right, predicted, support = counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1)
        columns = right / predicted.clip(1), right / support.clip(1), 2 * right / (predicted + support).clip(1), support
        rows, names = np.transpose(columns).tolist(), ("precision", "recall", "f1", "support")
        return {name: dict(zip(names, row, strict=True)) for name, row in zip(self.classes, rows, strict=True)}

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of F1 over the classes that occur, as labels or as predictions."""
        occurs = (self.confusion.sum(axis=0) + self.confusion.sum(axis=1)) > 0
        return float(np.mean([row["f1"] for row in self.per_class.values()], where=occurs))

    @property
    def summary(self) -> str:
        return f"AUC {self.value:.4f}  accuracy {self.accuracy:.2%}"

    def to_dict(self) -> dict[str, Any]:
        scores = {"accuracy": self.accuracy, "macro_f1": self.macro_f1}
        return {**scores, "texts": len(self.label), "classes": self.per_class}

    def save(self, path: Path, **more: Any) -> None:
        """Write a file. Of two classes, it has the probability of the second."""
        columns = {name: getattr(self, name).tolist() for name in COLUMNS[:-1]}
        probability = self.probabilities[:, 1] if len(self.classes) == 2 else self.probabilities
        columns["probability"] = probability.astype(float).round(6).tolist()
        disk.write_json(path, {"data": self.data, **more, "reviews": columns})

    @classmethod
    def load(cls, path: Path) -> "Results":
        values = disk.read_json(path, "a file of `results`")
        try:
            number, label, prediction, p = (np.array(values["reviews"][name]) for name in COLUMNS)
            results = cls(values["data"], number, label, np.stack([1 - p, p], axis=1) if p.ndim == 1 else p)
            results.prediction = prediction  # the probabilities are rounded
            return results
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: not a file of `results` ({type(error).__name__}: {error}).") from error


def comparison(results: Results, other: Results, name: Path, unit: str = "reviews") -> str:
    """Describe the difference between two runs over the same texts and its significance. unit: name of the texts."""
    is_correct = results.is_correct
    gained, lost = int((is_correct & ~other.is_correct).sum()), int((other.is_correct & ~is_correct).sum())
    return (
        f"against {name}: {is_correct.mean():.2%} to {other.is_correct.mean():.2%}\n"
        f"  only this run is right: {gained:,}; only the other is: {lost:,}; McNemar's exact test: "
        f"p = {mcnemar(gained, lost):.2g}\n"
        f"  bootstrap: {paired_bootstrap(is_correct, other.is_correct, unit)}"
    )


def confusion_table(results: Results) -> str:
    """Labels in rows, predictions in columns."""
    names = results.classes
    rows = results.confusion.tolist()
    first, width = max(map(display_width, ("predicted", *names))), max(7, *map(display_width, names)) + 2
    lines = [pad("predicted", first) + "".join(pad(name, -width) for name in names)]
    for name, row in zip(names, rows, strict=True):
        lines.append(pad(name, first) + "".join(f"{count:{width},}" for count in row))
    return "\n".join(lines)


def per_class_table(results: Results) -> str:
    width = max(20, *map(display_width, results.classes))
    return "\n".join(
        f"{pad(name, width)}   precision {row['precision']:7.2%}  recall {row['recall']:7.2%}  F1 {row['f1']:7.2%}  "
        f"support {row['support']:,.0f}"
        for name, row in results.per_class.items()
    )


def mistakes(results: Results, texts: Sequence[str], pairs: bool) -> Iterator[Sequence[object]]:
    """Yield the rows of a table of the misclassified texts, those with the least likely true class first."""
    yield "probability", "label", "predicted", "text", *(["text2"] if pairs else [])
    true, names = results.probabilities[np.arange(len(results.label)), results.label], results.classes
    for k in np.argsort(true, kind="stable"):
        if not results.is_correct[k]:
            text = texts[results.number[k]]
            columns = text.split("\t") if pairs else [text]
            yield f"{true[k]:.4f}", names[results.label[k]], names[results.prediction[k]], *columns
