"""Whether one arm is better than another when both were trained several times and scored on the same items.

A p-value over the items of one pair of trainings says nothing about another training, whose scores may differ as much as
the arms do. Here the difference of training s on item i is taken apart as

    d[s, i] = mean + training s + item i + rest

with random trainings and random items (crossed, one value each), and the mean's variance is estimated from the mean
squares: (MS_trainings + MS_items - MS_rest) / (n_trainings * n_items), with Satterthwaite's degrees of freedom. So the
interval is about another training scored on other items of the same kind. A bootstrap over both would draw three to five
trainings from themselves, whose spread is too small by sqrt((n - 1) / n).
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass
class Difference:
    """A mean difference, its 95 % interval, and the two-sided p-value against none."""

    mean: float
    low: float
    high: float
    p: float
    covers: str  # what would have to be drawn anew

    def __str__(self) -> str:
        return f"{self.mean:+.2%} [{self.low:+.2%}, {self.high:+.2%}] p = {self.p:.2g}, over {self.covers}"


def crossed(differences: np.ndarray, trainings: str = "trainings", items: str = "items") -> Difference:
    """Of differences (n_trainings, n_items) of the scores of two arms, the trainings of which are paired."""
    n, m = differences.shape
    mean = float(differences.mean())
    of_trainings, of_items = differences.mean(axis=1), differences.mean(axis=0)
    ms_items = n * of_items.var(ddof=1)
    if n == 1:
        variance, freedom, covers = ms_items / m, m - 1, f"{m:,} {items}, one {trainings.removesuffix('s')}"
    else:
        rest = differences - of_trainings[:, None] - of_items + mean
        ms_rest = (rest**2).sum() / ((n - 1) * (m - 1))
        ms_trainings = m * of_trainings.var(ddof=1)
        total = ms_trainings + ms_items - ms_rest
        if total <= max(ms_trainings, ms_items):  # a component below 0 is none
            total = max(ms_trainings, ms_items)
            freedom = n - 1 if ms_trainings >= ms_items else m - 1
        else:
            squares = ms_trainings**2 / (n - 1) + ms_items**2 / (m - 1) + ms_rest**2 / ((n - 1) * (m - 1))
            freedom = total**2 / squares
        variance, covers = total / (n * m), f"{n} {trainings} and {m:,} {items}"
    error = float(np.sqrt(variance))
    if not error:
        return Difference(mean, mean, mean, float(mean == 0), covers)
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Difference(mean, mean - half, mean + half, float(2 * stats.t.sf(abs(mean) / error, freedom)), covers)
