"""Experiments with several seeds: their commands are valid, finished steps are kept, the tables are correct."""

import argparse
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import runs
from project import parser_of
from scipy import stats

sys.path.append(str(runs.PROJECT / "benchmarks"))

import arms
import polarity
import steps
from crossed import crossed_difference

from elmo_core.messages import UserError
from elmo_tasks.significance import mcnemar, mean_and_std, paired_bootstrap


def test_one_training_gives_the_paired_t_test_over_the_items():
    random = np.random.default_rng(0)
    mine, other = random.random((2, 40))
    found = crossed_difference((mine - other)[None])
    assert found.p == pytest.approx(stats.ttest_rel(mine, other).pvalue)
    assert found.low == pytest.approx(stats.ttest_rel(mine, other).confidence_interval().low)


def test_mean_squares_of_a_table_worked_out_by_hand():
    # rows' means 1, 2, 6 and columns' 2, 4: MS_rows 2 * (4 + 1 + 9) / 2 = 14, MS_columns 3 * (1 + 1) = 6, rest 0
    found = crossed_difference(np.array([[0, 2], [1, 3], [5, 7.0]]))
    freedom = 20**2 / (14**2 / 2 + 6**2 / 1)
    assert found.mean == 3
    assert found.p == pytest.approx(2 * stats.t.sf(3 / np.sqrt(20 / 6), freedom))


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (1, 9, 2 * 11 / 1024), (0, 6, 2 / 64), (3, 4, 1.0)])
def test_mcnemar_is_the_exact_binomial_test(gained, lost, p):
    assert mcnemar(gained, lost) == pytest.approx(p) == mcnemar(lost, gained)


def test_the_bootstrap_agrees_with_resampling_the_items():
    random = np.random.RandomState(0)
    mine, other = random.rand(800) < 0.8, random.rand(800) < 0.76
    found = paired_bootstrap(mine, other)
    picks = random.randint(800, size=(4000, 800))
    differences = mine[picks].mean(axis=1) - other[picks].mean(axis=1)
    assert (found.low, found.high) == pytest.approx(np.percentile(differences, [2.5, 97.5]), abs=0.003)
    assert found.p == pytest.approx(2 * min((differences <= 0).mean(), (differences >= 0).mean()), abs=0.02)
    assert paired_bootstrap(mine, mine).p == 1.0


def test_the_spread_of_scores():
    assert mean_and_std([0.5]) == "50.00" and mean_and_std([0.4, 0.6], "%") == "50.00% ± 14.14"


def parse(commands, monkeypatch):
    """Parse the commands of a step as their scripts do."""
    for command in commands:
        script = next(k for k, part in enumerate(command) if part.endswith(".py"))
        parser_of(runs.PROJECT / command[script], monkeypatch).parse_args(command[script + 1 :])


def test_the_steps_of_polarity_are_commands_that_the_scripts_know(tmp_path, monkeypatch):
    models = ["word2vec", "b", "b2"]
    args = argparse.Namespace(text="a.txt", data_dir="d", output=tmp_path, seeds=[1], models=models, processes=2)
    found = list(polarity.steps_of(args))
    assert len({step.target for step in found}) == len(found)
    for step in found:
        parse(step.commands, monkeypatch)


def test_a_step_is_run_once_and_a_failure_ends_the_experiment(tmp_path):
    count = "import sys; open(sys.argv[1], 'a').write('x'); open(sys.argv[2], 'w')"
    made, scratch = tmp_path / "made", tmp_path / "scratch"
    scratch.mkdir()
    step = steps.Step(made, [["-c", count, str(tmp_path / "count"), str(made)]], scratch=scratch)
    steps.run([step])
    steps.run([step])
    assert (tmp_path / "count").read_text() == "x" and not scratch.exists()
    after = steps.Step(tmp_path / "after", [["-c", count, str(tmp_path / "count"), str(tmp_path / "after")]])
    with pytest.raises(SystemExit, match="3"):
        steps.run([steps.Step(tmp_path / "failed", [["-c", "raise SystemExit(3)"]]), after])
    assert not after.target.exists()


def test_a_folder_holds_results_of_one_kind_of_settings(tmp_path):
    steps.check_settings(tmp_path, {"data": "a", "vectors": None})
    steps.check_settings(tmp_path, {"data": "a", "vectors": "v"})
    steps.check_settings(tmp_path, {"data": "a", "vectors": None})
    for changed in ({"data": "b"}, {"data": "a", "vectors": "w"}):
        with pytest.raises(UserError, match=str(tmp_path)):
            steps.check_settings(tmp_path, changed)


SAVES_ON_CTRL_C = """
import sys, time
try:
    print("begun", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    open(sys.argv[1], "w")
"""
RUN = "import pathlib, sys; import arms, steps; steps.run([steps.Step(pathlib.Path(sys.argv[-1]), [sys.argv[1:]])])"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_step_save(tmp_path, number):
    command = [sys.executable, "-c", RUN, "-c", SAVES_ON_CTRL_C, str(tmp_path / "saved")]
    folder = runs.PROJECT / "benchmarks"
    both = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert "begun\n" in iter(both.stdout.readline, "")
    if number == signal.SIGINT:  # Ctrl-C reaches both
        os.killpg(both.pid, number)
    else:
        both.send_signal(number)
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
    _, word2vec, b = polarity.table(tmp_path)
    assert word2vec.split()[1:4] == ["2", "25.00", "±"]
    assert b.split()[1:5] == ["2", "62.50", "±", "17.68"] and "+37.50%" in b and "2 pretrainings and 4 reviews" in b


@pytest.mark.parametrize("task", arms.TASKS)
def test_every_arm_is_a_command_that_the_scripts_know(task, tmp_path, monkeypatch):
    models = {"elmo": "zh-news", "vectors": "v", "word_elmo": "w"}
    args = argparse.Namespace(task=task, data=tmp_path, output=tmp_path, flags=["--epochs=2"], **models)
    for arm in arms.ARMS.keys() - ({"tuned"} if task == "cmrc2018" else set()):  # a reader's ELMo is frozen
        parse(arms.step_of(args, 1, arm).commands, monkeypatch)
    assert arms.needs(task, "nothing") == [] and "vectors" in arms.needs(task, "word2vec")


def test_tagged_lines_become_columns(tmp_path):
    for part in ("train", "dev"):
        (tmp_path / f"{part}.txt").write_text("北京/LOC 的/u\n" * 10, encoding="utf-8")
    (tmp_path / "pieces.txt").write_text("<S>\n</S>\n<UNK>\n的\n", encoding="utf-8")
    for task, expected in (
        ("duie-lac", "北京\tLOC\n的\tu\n\n"),
        ("lac", "北\tLOC-B\n京\tLOC-I\n的\tu\n\n"),
    ):
        args = argparse.Namespace(task=task, data=tmp_path, output=tmp_path / task, pieces=tmp_path / "pieces.txt")
        arms.write_columns(args)
        assert (args.output / "test.txt").read_text(encoding="utf-8") == expected * 10
        assert (args.output / "train.txt").read_text(encoding="utf-8") == expected * (9 if task == "duie-lac" else 10)
        assert (args.output / "dev.txt").exists() == (task == "duie-lac")


def test_lac_tells_the_words_apart_that_its_training_lacks(tmp_path):
    (tmp_path / "train.txt").write_text("的\tu\n\n" * 10, encoding="utf-8")
    (tmp_path / "nothing-1.txt").write_text("的\tu\tu\n北\tLOC-B\tLOC-B\n京\tLOC-I\tLOC-B\n\n", encoding="utf-8")
    f1, *_, unknown_title, unknown = arms.table(table_args("lac", tmp_path))[1:]
    assert f1.split()[:3] == ["nothing", "1", "40.00"]  # one of two, three predicted
    assert unknown_title.startswith("F1, unknown") and unknown.split()[:3] == ["nothing", "1", "0.00"]


def test_reading_is_compared_over_passages(tmp_path):
    passages = [
        {"context": "他在北京。", "qas": [{"id": f"{k}{n}", "question": "在哪？", "answers": [ANSWER]} for n in "ab"]}
        for k in range(3)
    ]
    text = json.dumps({"version": "", "data": [{"title": "", "paragraphs": passages}]}, ensure_ascii=False)
    (tmp_path / "dev.json").write_text(text, encoding="utf-8")
    for arm, answer in (("word2vec", "他"), ("elmo", "北京")):
        answers = {question["id"]: answer for passage in passages for question in passage["qas"]}
        (tmp_path / f"{arm}-1.json").write_text(json.dumps(answers), encoding="utf-8")
    lines = arms.table(table_args("cmrc2018", tmp_path))
    assert [line.split()[0] for line in lines[::3]] == ["EM", "F1", "Rouge-L"]
    assert "+100.00%" in lines[2] and "3 passages" in lines[2]


ANSWER = {"text": "北京", "answer_start": 2}


def table_args(task, folder):
    return argparse.Namespace(task=task, data=folder, output=folder, against=None)


def test_f1_of_spans_is_taken_apart_into_the_sentences(tmp_path):
    gold = ["B-PER.NAM I-PER.NAM O", "O B-LOC.NOM", "B-PER.NAM O"]
    for arm, guesses in {"nothing": ["O O O", "O B-LOC.NOM", "O O"], "elmo": [gold[0], "O B-PER.NAM", gold[2]]}.items():
        pairs = [zip(a.split(), b.split(), strict=True) for a, b in zip(gold, guesses, strict=True)]
        text = "\n".join("".join(f"字0\t{a}\t{b}\n" for a, b in pair) for pair in pairs)
        (tmp_path / f"{arm}-1.txt").write_text(text, encoding="utf-8")
    lines = arms.table(table_args("weibo-ner", tmp_path))
    # nothing: 1 of 3 found, no other; elmo: 2 of 3 with one that is wrong. Named only: 0 of 2; 2 of 2 and one that is wrong
    assert [line.split()[:3] for line in lines[1:3]] == [["nothing", "1", "50.00"], ["elmo", "1", "66.67"]]
    assert [line.split()[:3] for line in lines[4:]] == [["nothing", "1", "0.00"], ["elmo", "1", "80.00"]]
    assert "+16.67%" in lines[2] and "3 texts, one seed" in lines[2]
