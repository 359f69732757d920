"""arms.py: what it trains, what it keeps, and its table."""

import sys
from pathlib import Path
from unittest import mock

import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import arms

from elmo_core.messages import UserError


def run(*flags: object) -> None:
    with mock.patch.object(sys, "argv", ["arms.py", *map(str, flags)]):
        arms.main()


@pytest.mark.parametrize("task", arms.TASKS)
def test_the_settings_of_every_arm_are_valid(task):
    for arm in arms.ARMS.keys() - (
        {"tuned"} if task == "cmrc2018" else set()
    ):  # a reader's ELMo is frozen
        arms.TASKS[task].kind.settings_type(**arms.settings_of(task, arm))


ROWS = "科0\tB-X.NAM\n技1\tI-X.NAM\n好0\tO\n\n好0\tO\n大0\tB-Y.NOM\n\n" * 6


@pytest.fixture(scope="module")
def results(tmp_path_factory, small_weights) -> list[str]:
    """The flags of two arms that have been trained."""
    folder = tmp_path_factory.mktemp("arms")
    for data in ("data", "other"):
        (folder / data).mkdir()
        for part in ("train", "dev", "test"):
            (folder / data / f"{part}.txt").write_text(ROWS, encoding="utf-8")
    flags = [
        f"--data={folder / 'data'}",
        f"--output={folder / 'out'}",
        f"--elmo={small_weights['char']}",
    ]
    flags += ["--task=weibo-ner", "--arms", "nothing", "random", "--seeds", "1", "2"]
    flags += ["--set", "epochs=1", "hidden_dim=5", "scheme=bio"]
    run(*flags)
    return flags


def test_arms_are_trained_once_and_compared(results, capsys):
    out = Path(results[1].partition("=")[2])
    before = {path: path.stat().st_mtime_ns for path in out.glob("*-*.json")}
    run(*results)
    assert {path: path.stat().st_mtime_ns for path in out.glob("*-*.json")} == before and len(
        before
    ) == 4
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "F1",
        "nothing",
        "random",
        "F1,",
        "nothing",
        "random",
    ]
    assert "2 seeds and 12 texts" in lines[2]


@pytest.mark.parametrize("flag", ["data", "elmo", "set"])
def test_results_of_another_setup_are_not_shown(results, capsys, model, flag):
    other = {
        "data": results[0].replace("data", "other").replace("other=", "data="),
        "elmo": f"--elmo={model}",
    }
    changed = [*results, other[flag]] if flag in other else [*results[:-1], "scheme=plain"]
    with pytest.raises(UserError, match=f"--{flag}"):
        run(*changed)
    assert not capsys.readouterr().out


def test_word_vectors_may_be_added_but_not_changed(results, tmp_path):
    files = [tmp_path / "v.txt", tmp_path / "w.txt"]
    for file in files:
        file.write_text("1 2\n科 1 0\n", encoding="utf-8")
    run(*results, f"--vectors={files[0]}")
    with pytest.raises(UserError, match="--vectors"):
        run(*results, f"--vectors={files[1]}")


def test_a_test_set_without_unknown_words_has_no_score_of_them(tmp_path, capsys):
    for part, line in (("train", "北京/LOC 的/u"), ("dev", "的/u 北京/LOC")):
        (tmp_path / f"{part}.txt").write_text(f"{line}\n" * 10, encoding="utf-8")
    flags = [
        f"--data={tmp_path}",
        f"--output={tmp_path / 'out'}",
        "--task=lac",
        "--arms",
        "nothing",
    ]
    run(*flags, "--seeds", 1, "--set", "epochs=1", "hidden_dim=3")
    printed = capsys.readouterr().out
    assert "F1" in printed and "nan" not in printed and "unknown" not in printed


def test_f1_of_spans_is_taken_apart_into_the_sentences():
    values = arms.f1_contributions([[0, 0, 1], [1, 1, 1], [0, 0, 1]])
    assert values.mean() == pytest.approx(0.5) and len(values) == 3


def test_words_of_tagged_lines(tmp_path):
    (tmp_path / "train.txt").write_text("北京/LOC 的/u\n" * 10, encoding="utf-8")
    words, tags = arms.tagged_words(tmp_path / "train.txt", end=9)
    assert words == [["北京", "的"]] * 9 and tags == [["LOC", "u"]] * 9
    assert len(arms.tagged_words(Path(tmp_path / "train.txt"), begin=9)[0]) == 1
