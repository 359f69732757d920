"""Significance of differences between models."""

import sys

import numpy as np
import pytest
import runs
from scipy import stats

sys.path.append(str(runs.PROJECT / "benchmarks"))

from significance import (
    clustered_bootstrap,
    crossed_difference,
    mcnemar,
    mean_and_std,
    paired_bootstrap,
)


def test_one_training_gives_the_paired_t_test_over_the_items():
    random = np.random.default_rng(0)
    mine, other = random.random((2, 40))
    found = crossed_difference((mine - other)[None])
    assert found.p == pytest.approx(stats.ttest_rel(mine, other).pvalue)
    assert found.low == pytest.approx(stats.ttest_rel(mine, other).confidence_interval().low)


def test_mean_squares_of_a_table_worked_out_by_hand():
    # The rows' means are 1, 2, 6, the columns' 2, 4. So MS_rows is 2 * (4 + 1 + 9) / 2 = 14,
    # MS_columns is 3 * (1 + 1) = 6, and the rest is 0.
    found = crossed_difference(np.array([[0, 2], [1, 3], [5, 7.0]]))
    freedom = 20**2 / (14**2 / 2 + 6**2 / 1)
    assert found.mean == 3
    assert found.p == pytest.approx(2 * stats.t.sf(3 / np.sqrt(20 / 6), freedom))


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (1, 9, 2 * 11 / 1024), (0, 6, 2 / 64), (3, 4, 1.0)]
)
def test_mcnemar_is_the_exact_binomial_test(gained, lost, p):
    assert mcnemar(gained, lost) == pytest.approx(p) == mcnemar(lost, gained)


def test_the_bootstrap_agrees_with_resampling_the_items():
    random = np.random.RandomState(0)
    mine, other = random.rand(800) < 0.8, random.rand(800) < 0.76
    found = paired_bootstrap(mine, other)
    picks = random.randint(800, size=(4000, 800))
    differences = mine[picks].mean(axis=1) - other[picks].mean(axis=1)
    assert (found.low, found.high) == pytest.approx(
        np.percentile(differences, [2.5, 97.5]), abs=0.003
    )
    assert found.p == pytest.approx(
        2 * min((differences <= 0).mean(), (differences >= 0).mean()), abs=0.02
    )
    assert paired_bootstrap(mine, mine).p == 1.0


def test_the_spread_of_scores():
    assert mean_and_std([0.5]) == "50.00" and mean_and_std([0.4, 0.6], "%") == "50.00% ± 14.14"


def test_the_bootstrap_resamples_groups():
    differences, group = np.array([1.0, 1, 1, 0, 0, 0]), np.array([5, 5, 5, 7, 7, 7])
    found = clustered_bootstrap(differences, group, "passages")
    assert found.mean == 0.5 and (found.low, found.high) == (0, 1) and "2 passages" in str(found)
