"""Benchmarks over several seeds: their commands are those of the scripts, their test covers trainings as well as items."""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
from project import parser_of
from scipy import stats

sys.path.insert(0, str(runs.PROJECT / "benchmarks"))

import arms
import polarity as repeated

from elmo_tasks.significance import bootstrap, crossed, mcnemar, spread


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


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (1, 9, 2 * 11 / 1024), (0, 6, 2 / 64), (3, 4, 1.0)])
def test_mcnemar_is_the_exact_binomial_test(gained, lost, p):
    assert mcnemar(gained, lost) == pytest.approx(p) == mcnemar(lost, gained)


def test_the_bootstrap_agrees_with_resampling_the_items():
    random = np.random.RandomState(0)
    mine, other = random.rand(800) < 0.8, random.rand(800) < 0.76
    found = bootstrap(mine, other, seed=1)
    picks = random.randint(800, size=(4000, 800))
    differences = mine[picks].mean(axis=1) - other[picks].mean(axis=1)
    assert (found.low, found.high) == pytest.approx(np.percentile(differences, [2.5, 97.5]), abs=0.003)
    assert found.p == pytest.approx(2 * min((differences <= 0).mean(), (differences >= 0).mean()), abs=0.02)
    assert bootstrap(mine, mine, seed=1).p == 1.0


def test_the_spread_of_scores():
    assert spread([0.5]) == "50.00" and spread([0.4, 0.6], "%") == "50.00% ± 14.14"


def test_its_commands_are_those_that_the_scripts_know(tmp_path, monkeypatch):
    models = ["word2vec", "a", "a2", "b2"]
    args = argparse.Namespace(text="a.txt", data_dir="d", output=tmp_path, seeds=[1], models=models, processes=2)
    steps = list(repeated.steps(args))
    assert len({step.makes for step in steps}) == len(steps)
    for step in steps:
        script = next(k for k, part in enumerate(step.command) if part.endswith(".py"))
        parser_of(runs.PROJECT / step.command[script], monkeypatch).parse_args(step.command[script + 1 :])


SAVES_ON_CTRL_C = """
import sys, time
try:
    print("begun", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    open(sys.argv[1], "w")
"""
RUN = "import pathlib, sys; import polarity; polarity.run(polarity.Step(pathlib.Path(sys.argv[-1]), sys.argv[1:]))"


def test_ctrl_c_lets_the_step_save(tmp_path):
    command = [sys.executable, "-c", RUN, "-c", SAVES_ON_CTRL_C, str(tmp_path / "saved")]
    folder = runs.PROJECT / "benchmarks"
    both = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert "begun\n" in iter(both.stdout.readline, "")
    os.killpg(both.pid, signal.SIGINT)
    assert both.wait() == 0 and (tmp_path / "saved").exists()


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


@pytest.mark.parametrize("task", [*arms.TAGGING, arms.CLASSIFYING])
def test_every_arm_is_a_command_that_the_scripts_know(task, tmp_path, monkeypatch):
    for part in ("train", "dev"):
        (tmp_path / f"{part}.txt").write_text("北京/LOC 的/u\n" * 10, encoding="utf-8")
    args = argparse.Namespace(task=task, data=tmp_path, output=tmp_path / "out", elmo="zh-news", vectors="v.bin")
    args.output.mkdir()
    called = []

    def parsed(script, *flags):
        called.append(script)
        parser_of(runs.PROJECT / script, monkeypatch).parse_args(list(flags))
        Path(next((f for f in flags if f.startswith("--save_dir=")), "--save_dir=x").partition("=")[2]).mkdir(
            exist_ok=True
        )

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(arms, "execute", parsed)
    for arm in arms.ARMS:
        arms.run(args, 1, arm, ["--epochs=2"])
    assert len(called) == (7 if task == arms.CLASSIFYING else 14)
    if task == "duie-lac":
        assert (args.output / "test.txt").read_text(encoding="utf-8").startswith("北京\tLOC\n的\tu\n\n北京")


def test_f1_of_spans_is_taken_apart_into_the_sentences(tmp_path):
    gold = ["B-PER.NAM I-PER.NAM O", "O B-LOC.NOM", "B-PER.NAM O"]
    for arm, guesses in {"nothing": ["O O O", "O B-LOC.NOM", "O O"], "elmo": [gold[0], "O B-PER.NAM", gold[2]]}.items():
        pairs = [zip(a.split(), b.split(), strict=True) for a, b in zip(gold, guesses, strict=True)]
        text = "\n".join("".join(f"字0\t{a}\t{b}\n" for a, b in pair) for pair in pairs)
        (tmp_path / f"{arm}-1.txt").write_text(text, encoding="utf-8")
    lines = arms.table("weibo-ner", tmp_path, tmp_path)
    # nothing: 1 of 3 found, no other; elmo: 2 of 3 with one that is wrong. Named only: 0 of 2; 2 of 2 and one that is wrong
    assert [line.split()[:3] for line in lines[1:3]] == [["nothing", "1", "50.00"], ["elmo", "1", "66.67"]]
    assert [line.split()[:3] for line in lines[4:]] == [["nothing", "1", "0.00"], ["elmo", "1", "80.00"]]
    assert "+16.67%" in lines[2] and "3 texts, one seed" in lines[2]
