"""Significance of the difference between two models: confidence intervals and p-values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.checks import import_optional

RESAMPLES = 10_000  # per bootstrap


@dataclass
class Difference:
    """A mean difference, its 95 % interval, and its two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float
    scope: str  # what the interval generalises over

    def __str__(self) -> str:
        return f"{self.mean:+.2%} [{self.low:+.2%}, {self.high:+.2%}] p = {self.p:.2g}, over {self.scope}"


def paired_bootstrap(correct: np.ndarray, other_correct: np.ndarray, items: str = "items") -> Difference:
    """The difference of two models' accuracies on the same items, by resampling these. correct, other_correct: (n,) bool."""
    n, gained, lost = len(correct), int((correct & ~other_correct).sum()), int((other_correct & ~correct).sum())
    draws = np.random.default_rng(1).multinomial(n, [gained / n, lost / n, 1 - (gained + lost) / n], RESAMPLES)
    return _resampled((gained - lost) / n, (draws[:, 0] - draws[:, 1]) / n, f"{n:,} {items}")


def clustered_bootstrap(
    scores: np.ndarray, other_scores: np.ndarray, group: np.ndarray, groups: str = "groups"
) -> Difference:
    """The difference of two models' mean scores (n,) on the same items, by resampling groups of dependent items.

    group: (n,) each item's group number.
    """
    _, group = np.unique(group, return_inverse=True)
    improvements, sizes = np.bincount(group, scores - other_scores), np.bincount(group)
    n = len(sizes)
    draws = np.random.default_rng(1).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    mean = float((scores - other_scores).mean())
    return _resampled(mean, (draws @ improvements) / (draws @ sizes), f"{n:,} {groups}")


def _resampled(mean: float, differences: np.ndarray, scope: str) -> Difference:
    low, high = np.percentile(differences, [2.5, 97.5])
    n_opposite = min((differences <= 0).sum(), (differences >= 0).sum())
    return Difference(mean, float(low), float(high), float(min(1.0, 2 * (n_opposite + 1) / (RESAMPLES + 1))), scope)


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of McNemar's test. gained, lost: items that only one of two models has right."""
    stats = import_optional("scipy.stats", "a test of significance")
    return float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def mean_and_std(scores: Sequence[float], unit: str = "") -> str:
    """The mean of scores and, if there are several, their standard deviation, in per cent."""
    deviation = f" ± {100 * np.std(scores, ddof=1):.2f}" if len(scores) > 1 else ""
    return f"{100 * np.mean(scores):.2f}{unit}{deviation}"
