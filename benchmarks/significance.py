"""Significance of the difference between two models: confidence intervals and p-values.

A p-value over the items of one pair of training runs says nothing about other runs, whose scores
may differ as much as the models do. `crossed_difference` decomposes the difference of run s on item
i as

    d[s, i] = mean + run s + item i + rest

with crossed random effects for runs and items, and estimates the mean's variance from the mean
squares, (MS_runs + MS_items - MS_rest) / (n_runs * n_items), with Satterthwaite's degrees of
freedom. So the interval is about another run scored on other items of the same kind. A bootstrap
over both would draw three to five runs from themselves, whose spread is too small by
sqrt((n - 1) / n).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

RESAMPLES = 10_000  # per bootstrap


@dataclass
class Difference:
    """A mean difference, its 95 % interval, and its two-sided p-value.

    scope: what the interval generalises over.
    """

    mean: float
    low: float
    high: float
    p: float
    scope: str

    def __str__(self) -> str:
        interval = f"[{self.low:+.2%}, {self.high:+.2%}]"
        return f"{self.mean:+.2%} {interval} p = {self.p:.2g}, over {self.scope}"


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of McNemar's test.

    gained, lost: items that only one of two models has right.
    """
    if gained + lost == 0:
        return 1.0
    return float(stats.binomtest(gained, gained + lost).pvalue)


def paired_bootstrap(
    correct: np.ndarray, other_correct: np.ndarray, items: str = "items"
) -> Difference:
    """The difference of two models' accuracies on the same items, by resampling these.

    correct, other_correct: (n,) bool.
    """
    n = len(correct)
    gained = int((correct & ~other_correct).sum())
    lost = int((other_correct & ~correct).sum())
    shares = [gained / n, lost / n, 1 - (gained + lost) / n]
    draws = np.random.default_rng(1).multinomial(n, shares, RESAMPLES)
    differences = (draws[:, 0] - draws[:, 1]) / n
    return _resampled((gained - lost) / n, differences, f"{n:,} {items}")


def clustered_bootstrap(
    differences: np.ndarray, group: np.ndarray, groups: str = "groups"
) -> Difference:
    """The mean of two models' differences (n,) on the same items, by resampling groups of items.

    group: (n,), equal for items that depend on one another.
    """
    _, number = np.unique(group, return_inverse=True)
    sums = np.bincount(number, differences)
    sizes = np.bincount(number)
    n = len(sizes)
    draws = np.random.default_rng(1).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    means = (draws @ sums) / (draws @ sizes)
    return _resampled(float(differences.mean()), means, f"{n:,} {groups}")


def _resampled(mean: float, differences: np.ndarray, scope: str) -> Difference:
    low, high = np.percentile(differences, [2.5, 97.5])
    n_opposite = min((differences <= 0).sum(), (differences >= 0).sum())
    p = min(1.0, 2 * (n_opposite + 1) / (RESAMPLES + 1))
    return Difference(mean=mean, low=float(low), high=float(high), p=float(p), scope=scope)


def crossed_difference(
    differences: np.ndarray, runs: str = "runs", items: str = "items"
) -> Difference:
    """The mean of differences between two models' scores, paired by run and item.

    differences: (n_runs, n_items).
    """
    n, m = differences.shape
    mean = float(differences.mean())
    item_means = differences.mean(axis=0)
    ms_items = n * item_means.var(ddof=1)
    if n == 1:
        variance = ms_items / m
        dof = m - 1
        scope = f"{m:,} {items}, one {runs.removesuffix('s')}"
    else:
        run_means = differences.mean(axis=1)
        ms_runs = m * run_means.var(ddof=1)
        rest = differences - run_means[:, None] - item_means + mean
        ms_rest = (rest**2).sum() / ((n - 1) * (m - 1))
        total, dof = _combined(ms_runs, ms_items, ms_rest, n, m)
        variance = total / (n * m)
        scope = f"{n} {runs} and {m:,} {items}"
    error = float(np.sqrt(variance))
    if error == 0:
        return Difference(mean=mean, low=mean, high=mean, p=float(mean == 0), scope=scope)
    margin = float(stats.t.ppf(0.975, dof)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, dof))
    return Difference(mean=mean, low=mean - margin, high=mean + margin, p=p, scope=scope)


def _combined(
    ms_runs: float, ms_items: float, ms_rest: float, n: int, m: int
) -> tuple[float, float]:
    """The mean squares of n runs and m items combined, and Satterthwaite's degrees of freedom."""
    total = ms_runs + ms_items - ms_rest
    if total <= max(ms_runs, ms_items):  # a negative variance component counts as 0
        if ms_runs >= ms_items:
            return ms_runs, n - 1
        return ms_items, m - 1
    squares = ms_runs**2 / (n - 1) + ms_items**2 / (m - 1) + ms_rest**2 / ((n - 1) * (m - 1))
    return total, total**2 / squares


def mean_and_std(scores: Sequence[float], unit: str = "") -> str:
    """The mean of scores and, if there are several, their standard deviation, in per cent."""
    deviation = f" ± {100 * np.std(scores, ddof=1):.2f}" if len(scores) > 1 else ""
    return f"{100 * np.mean(scores):.2f}{unit}{deviation}"
