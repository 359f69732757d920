"""benchmarks/: significance, the folds of polarity.py, the arms of arms.py."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
from scipy import stats

sys.path.append(str(runs.PROJECT / "benchmarks"))

import arms
import polarity
from significance import clustered_bootstrap, crossed_difference, mcnemar, mean_and_std, paired_bootstrap


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


def test_the_bootstrap_resamples_groups():
    differences, group = np.array([1.0, 1, 1, 0, 0, 0]), np.array([5, 5, 5, 7, 7, 7])
    found = clustered_bootstrap(differences, group, "passages")
    assert found.mean == 0.5 and (found.low, found.high) == (0, 1) and "2 passages" in str(found)


def run(script, monkeypatch, *flags: object) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *map(str, flags)])
    script.main()


def test_ten_folds_of_polarity(tmp_path, monkeypatch, capsys, small_weights):
    for name, words in (("pos", "good film"), ("neg", "bad film")):
        (tmp_path / f"rt-polarity.{name}").write_text("".join(f"{words} {k}\n" for k in range(30)), encoding="utf-8")
    (tmp_path / "vectors.txt").write_text("2 2\ngood 1 0\nbad 0 1\n", encoding="utf-8")
    one, other = tmp_path / "elmo.json", tmp_path / "words.json"
    flags = [f"--data_dir={tmp_path}", "--epochs=2", "--lr", 0.05, "--weight_decay", 0.1]
    run(
        polarity,
        monkeypatch,
        *flags,
        "--init_from_ckpt=none",
        f"--word_vectors={tmp_path / 'vectors.txt'}",
        f"--results={other}",
    )
    more = [f"--init_from_ckpt={small_weights['word']}", "--elmo_trainable", "--tune_epochs=1", f"--results={one}"]
    run(polarity, monkeypatch, *flags, *more, "--against", other)
    folds = json.loads(one.read_text(encoding="utf-8"))["folds"]
    assert sorted(k for fold in folds for k in fold["reviews"]) == list(range(60)) and len(folds) == 10
    assert "McNemar" in capsys.readouterr().out
    run(polarity, monkeypatch, "--runs", one, one, "--against", other, other)
    assert "2 pretrainings and 60 reviews" in capsys.readouterr().out


@pytest.mark.parametrize("task", arms.TASKS)
def test_the_settings_of_every_arm_are_valid(task):
    for arm in arms.ARMS.keys() - ({"tuned"} if task == "cmrc2018" else set()):  # a reader's ELMo is frozen
        arms.TASKS[task].kind.settings_type(**arms.settings_of(task, arm))


def test_arms_are_trained_once_and_compared(tmp_path, monkeypatch, capsys, small_weights):
    for part in ("train", "test"):
        rows = "科0\tB-X.NAM\n技1\tI-X.NAM\n好0\tO\n\n好0\tO\n大0\tB-Y.NOM\n\n" * 6
        (tmp_path / f"{part}.txt").write_text(rows, encoding="utf-8")
    (tmp_path / "dev.txt").write_text(rows, encoding="utf-8")
    flags = [
        "--task=weibo-ner",
        f"--data={tmp_path}",
        f"--output={tmp_path / 'out'}",
        f"--elmo={small_weights['char']}",
    ]
    chosen = ["--arms", "nothing", "random", "--seeds", 1, 2, "--set", "epochs=1", "hidden_dim=5", "scheme=bio"]
    run(arms, monkeypatch, *flags, *chosen)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if "seeds  " not in line] and "2 seeds and 12 texts" in "".join(lines)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*-*.json")}
    run(arms, monkeypatch, *flags, *chosen)
    assert len(before) == 4 and {path: path.stat().st_mtime_ns for path in before} == before


def test_f1_of_spans_is_taken_apart_into_the_sentences():
    values = arms.f1_contributions([[0, 0, 1], [1, 1, 1], [0, 0, 1]])
    assert values.mean() == pytest.approx(0.5) and len(values) == 3


def test_words_of_tagged_lines(tmp_path):
    (tmp_path / "train.txt").write_text("北京/LOC 的/u\n" * 10, encoding="utf-8")
    words, tags = arms.tagged_words(tmp_path / "train.txt", end=9)
    assert words == [["北京", "的"]] * 9 and tags == [["LOC", "u"]] * 9
    assert len(arms.tagged_words(Path(tmp_path / "train.txt"), begin=9)[0]) == 1
