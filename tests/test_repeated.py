"""The repeated polarity benchmark: its commands are those of the scripts, its test covers trainings as well as items."""

import argparse
import json
import sys

import numpy as np
import pytest
import runs
from scipy import stats
from test_house import parser_of

sys.path.insert(0, str(runs.PROJECT / "benchmarks"))

import polarity as repeated
from significance import crossed


def test_one_training_gives_the_paired_t_test_over_the_items():
    random = np.random.default_rng(0)
    mine, other = random.random((2, 40))
    found = crossed((mine - other)[None])
    assert found.p == pytest.approx(stats.ttest_rel(mine, other).pvalue)
    assert found.low == pytest.approx(stats.ttest_rel(mine, other).confidence_interval().low)


def test_mean_squares_of_a_table_worked_out_by_hand():
    # rows' means 1, 2, 6 and columns' 2, 4: MS_rows 2 * (4 + 1 + 9) / 2 = 14, MS_columns 3 * (1 + 1) = 6, rest 0
    found = crossed(np.array([[0, 2], [1, 3], [5, 7.0]]))
    freedom = 20**2 / (14**2 / 2 + 6**2 / 1)
    assert found.mean == 3
    assert found.p == pytest.approx(2 * stats.t.sf(3 / np.sqrt(20 / 6), freedom))


def test_trainings_without_a_true_difference_are_told_apart_as_often_as_promised():
    random, found = np.random.default_rng(1), []
    for _ in range(400):
        trainings, items = random.normal(0, 0.01, (3, 1)), random.normal(0, 0.3, (1, 500))
        found.append(crossed(trainings + items + random.normal(0, 0.3, (3, 500))).p < 0.05)
    assert np.mean(found) < 0.08


def test_its_commands_are_those_that_the_scripts_know(tmp_path, monkeypatch):
    args = argparse.Namespace(text="a.txt", data_dir="d", output=tmp_path, seeds=[1], models=["word2vec", "a", "b"])
    args.epochs, args.processes = 1, 2
    steps = list(repeated.steps(args))
    assert len({step.makes for step in steps}) == len(steps)
    for step in steps:
        script = next(k for k, part in enumerate(step.command) if part.endswith(".py"))
        parser_of(runs.PROJECT / step.command[script], monkeypatch).parse_args(step.command[script + 1 :])


def test_table_of_what_is_there(tmp_path):
    (tmp_path / "results").mkdir()
    for name, right in (
        ("word2vec-1", [1, 0, 0, 0]),
        ("b-1", [1, 1, 0, 0]),
        ("word2vec-2", [1, 0, 0, 0]),
        ("b-2", [1, 1, 1, 0]),
    ):
        parts = [{"accuracy": np.mean(right[:2])}, {"accuracy": np.mean(right[2:])}]
        values = {"reviews": {"label": [1] * 4, "prediction": right}, "parts": parts}
        (tmp_path / "results" / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    _, word2vec, b = repeated.table(tmp_path)
    assert word2vec.split()[1:4] == ["2", "25.00", "±"]
    assert b.split()[1:5] == ["2", "62.50", "±", "17.68"] and "+37.50%" in b and "2 pretrainings and 4 reviews" in b
