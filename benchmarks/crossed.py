"""The significance of the difference between two arms of several training runs.

A p-value over the items of one pair of training runs says nothing about other runs, whose scores may differ as much as the
arms do. Here the difference of run s on item i is decomposed as

    d[s, i] = mean + run s + item i + rest

with crossed random effects for runs and items (one value each), and the mean's variance is estimated from the mean squares:
(MS_runs + MS_items - MS_rest) / (n_runs * n_items), with Satterthwaite's degrees of freedom. So the interval is about
another run scored on other items of the same kind. A bootstrap over both would draw three to five runs from themselves,
whose spread is too small by sqrt((n - 1) / n).
"""

import numpy as np
from scipy import stats

from elmo_tasks.significance import Difference


def crossed_difference(differences: np.ndarray, runs: str = "runs", items: str = "items") -> Difference:
    """The mean of differences (n_runs, n_items) between two arms' scores, paired by run and item."""
    n, m = differences.shape
    mean = float(differences.mean())
    run_means, item_means = differences.mean(axis=1), differences.mean(axis=0)
    ms_items = n * item_means.var(ddof=1)
    if n == 1:
        variance, dof, scope = ms_items / m, m - 1, f"{m:,} {items}, one {runs.removesuffix('s')}"
    else:
        rest = differences - run_means[:, None] - item_means + mean
        ms_rest = (rest**2).sum() / ((n - 1) * (m - 1))
        ms_runs = m * run_means.var(ddof=1)
        total = ms_runs + ms_items - ms_rest
        if total <= max(ms_runs, ms_items):  # a negative variance component counts as 0
            total = max(ms_runs, ms_items)
            dof = n - 1 if ms_runs >= ms_items else m - 1
        else:
            squares = ms_runs**2 / (n - 1) + ms_items**2 / (m - 1) + ms_rest**2 / ((n - 1) * (m - 1))
            dof = total**2 / squares
        variance, scope = total / (n * m), f"{n} {runs} and {m:,} {items}"
    error = float(np.sqrt(variance))
    if not error:
        return Difference(mean, mean, mean, float(mean == 0), scope)
    margin = float(stats.t.ppf(0.975, dof)) * error
    return Difference(mean, mean - margin, mean + margin, float(2 * stats.t.sf(abs(mean) / error, dof)), scope)
