"""Scores of a classifier over reviews, and whether two classifiers differ by more than chance."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core import disk
from elmo_core.runtime import UserError

CLASSES = ("negative", "positive")
RESAMPLES = 10_000  # of the bootstrap


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float((probabilities.argmax(axis=1) == labels).mean()) if len(labels) else math.nan


def area(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Under the ROC curve of the probabilities (n, classes)."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, probabilities[:, 1]))


def mcnemar(mine: np.ndarray, other: np.ndarray) -> float:
    """The exact two-sided p-value of McNemar's test. Arrays (n,) of whether each was right about the same reviews.

    If both are equally good, each review that only one is right about is a toss of a fair coin.
    """
    gained, lost = int((mine & ~other).sum()), int((other & ~mine).sum())
    tosses = gained + lost
    tail = sum(math.comb(tosses, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**tosses)


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
    """What a run says of each test review: number, label, predicted class, probability of the positive class, all (n,)."""

    data: str  # identity of the reviews
    accuracy: float  # mean of the parts
    number: np.ndarray
    label: np.ndarray
    prediction: np.ndarray
    probability: np.ndarray

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
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            columns = {
                name: np.array(values["reviews"][name]) for name in ("number", "label", "prediction", "probability")
            }
            lengths = {len(column) for column in columns.values()}
            if len(lengths) != 1 or any(column.dtype.kind not in "if" for column in columns.values()):
                raise ValueError("its columns do not fit")
            return cls(values["data"], values["accuracy"], **columns)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: no results of --results ({type(error).__name__}: {error}).") from error


def check_same_reviews(data: str, number: np.ndarray, other: Results, name: Path) -> None:
    """Refuse to compare with results about other reviews than the numbers (n,) of `data`, in rising order."""
    if data != other.data or not np.array_equal(number, other.number):
        raise UserError(
            f"--compare_with {name}: it scored {len(other.number):,} of {other.data}, this run scores {len(number):,} of "
            f"{data}. Compare runs with the same --data_dir and --protocol (and for split, the same --seed)."
        )


def compare(mine: Results, other: Results, name: Path, seed: int) -> str:
    """Whether the difference between two runs over the same reviews is more than chance, in words."""
    check_same_reviews(mine.data, mine.number, other, name)
    gained, lost = int((mine.right & ~other.right).sum()), int((other.right & ~mine.right).sum())
    low, high, p = bootstrap(mine.right, other.right, seed)
    return (
        f"against {name}: {mine.right.mean():.2%} to {other.right.mean():.2%}, "
        f"difference {mine.right.mean() - other.right.mean():+.2%}\n"
        f"  right where the other is wrong: {gained:,}; wrong where it is right: {lost:,}; McNemar's exact test: "
        f"p = {mcnemar(mine.right, other.right):.2g}\n"
        f"  bootstrap over the reviews: 95 % of the differences are within {low:+.2%} and {high:+.2%}; p = {p:.2g}"
    )


def confusion(results: Results) -> str:
    """The matrix of labels and predictions, in words."""
    lines = [f"{'':10}" + "".join(f"{f'said {name}':>16}" for name in CLASSES)]
    for k, name in enumerate(CLASSES):
        counts = [int(((results.label == k) & (results.prediction == j)).sum()) for j in range(len(CLASSES))]
        lines.append(f"{name:10}" + "".join(f"{count:16,}" for count in counts))
    return "\n".join(lines)


def mistakes(results: Results, texts: Sequence[str], most: int) -> str:
    """The reviews whose class was the greatest surprise: its probability, its name, the text."""
    own = np.where(results.label == 1, results.probability, 1 - results.probability)
    worst = [k for k in np.argsort(own, kind="stable") if not results.right[k]][:most]
    return "\n".join(f"{own[k]:7.2%} {CLASSES[results.label[k]]}  {texts[results.number[k]].strip()}" for k in worst)
