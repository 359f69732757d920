"""benchmarks/noise.py: it runs on tiny data, and its noise and labels are what it says."""

import importlib
import json
import sys
from random import Random

import numpy as np
import pytest
import runs
import tiny

sys.path.append(str(runs.PROJECT / "benchmarks"))
import noise

CHUNKS = "the\tB-NP\nriver\tI-NP\nruns\tB-VP\n\na\tB-NP\nbank\tI-NP\nof\tO\nlongerword\tB-NP\n\n"
TEXTS = "text\tlabel\n" + "苹果 很 好吃\tgood\n天气 不 好看\tbad\n" * 10


@pytest.fixture
def start(monkeypatch, capsys):
    """A call of the benchmark in this process, which returns what it prints."""

    def run(steps, jobs):
        for script, *argv in (command for step in steps for command in step.commands):
            importlib.import_module(script.removesuffix(".py")).main(argv)

    def call(*argv):
        monkeypatch.setattr(sys, "argv", ["noise.py", *map(str, argv)])
        noise.main()
        return capsys.readouterr().out

    monkeypatch.setattr(noise.steps, "run", run)
    monkeypatch.setattr(noise, "FASTTEXT", {**noise.FASTTEXT, "vector_size": 7, "bucket": 99})
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return call


@pytest.mark.parametrize("task", ["conll2000", "texts", "duie-lac"])
def test_it_trains_on_clean_text_and_scores_with_noise(tmp_path, task, start):
    suffix, text, flags = {
        "conll2000": (".txt", CHUNKS * 10, []),
        "texts": (".tsv", TEXTS, ["--lang=none"]),
        "duie-lac": (".txt", "苹果/n 很/d 好吃/a\n天气/n 不/d 好看/a\n" * 10, []),
    }[task]
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}{suffix}").write_text(text, encoding="utf-8")
    (tmp_path / "corpus.txt").write_text("the river runs a bank of 苹果 很\n" * 20, encoding="utf-8")
    (tmp_path / "v.txt").write_text("3 2\nthe 1 0\nbank 0 1\n苹果 1 1\n", encoding="utf-8")
    elmos = [f"{name}={tiny.save(tiny.random_bilm(input=name), tmp_path / name)}" for name in ("char", "word")]
    argv = [f"--task={task}", f"--data={tmp_path}", "--elmo", *elmos, f"--vectors={tmp_path / 'v.txt'}", "--seeds", 1]
    argv += [
        f"--text={tmp_path / 'corpus.txt'}",
        f"--output={tmp_path / 'runs'}",
        "--jobs=1",
        "--",
        *flags,
        "--epochs=1",
    ]
    lines = [line.split() for line in start(*argv).splitlines() if line.startswith((*noise.KINDS, "seg", "sco"))]
    assert lines[0] == ["score", "share", "changed", "char", "fasttext", "word", "word2vec"]
    kinds = {line[0] for line in lines[1:]}
    assert kinds == ({*noise.KINDS} if task == "conll2000" else {"swap", "drop", "double", "ocr", "segmentation"})
    assert (tmp_path / "runs" / "noise.png").stat().st_size > 1000
    results = {name: json.loads((tmp_path / "runs" / f"{name}-1.json").read_text()) for name in ("char", "word2vec")}
    cosines = {name: result["cosine"]["swap"]["0.2"] for name, result in results.items()}
    assert -1 < cosines["char"] < 1 and cosines["word2vec"] == 0  # no vectors of misprints
    assert start(*argv[: argv.index("--")], "--table").count("\n") == 2 + len(kinds) * 7


def test_wrong_segmentation_keeps_the_characters():
    words = ["北京", "的", "天气预报", "，", "OK", "很好"] * 200
    for joins in (False, True):
        parts = noise.wrongly_segmented(words, 0.3, Random(1), joins)
        assert "".join(noise.words_of(parts)) == "".join(words) and sum(n for n, _ in parts) == len(words)
        assert {(n, len(w)) for n, w in parts} == {(1, 1), (1, 2)} | ({(2, 1)} if joins else set())
        for a, b, c, d in noise.changes(words, parts):
            assert "".join(words[a:b]) == "".join(noise.words_of(parts)[c:d])


def test_the_halves_of_a_word_have_its_label():
    cut = [(1, ["北", "京"]), (1, ["好"])]
    for scheme, label, expected in (
        ("plain", "LOC", ["LOC", "LOC"]),
        ("bio", "B-NP", ["B-NP", "I-NP"]),
        ("bio", "O", ["O", "O"]),
        ("lac", "LOC", ["LOC-B", "LOC-I"]),
        ("lac", "LOC-I", ["LOC-I", "LOC-I"]),
    ):
        assert noise.labels_of([label, "x"], cut, scheme) == [*expected, "x"]


def test_cosines_are_of_the_changed_words():
    vector = {"ab": [1, 0], "c": [0, 1], "ba": [3, 4], "a": [0, 2], "b": [2, 0]}
    test = {0.0: [[(1, ["ab"]), (1, ["c"])]], 0.05: [[(1, ["ba"]), (1, ["c"])]]}
    test |= {0.1: [[(1, ["a", "b"]), (1, ["c"])]], 0.2: [[(1, ["ab"]), (1, ["c"])]]}
    found = noise.cosines_of(lambda group: [np.array([[vector[w] for w in s]], float) for s in group], {"k": test}, 9)
    assert found["k"] == pytest.approx({0.05: 0.6, 0.1: 0.5**0.5, 0.2: 1})
    assert noise.changed({"k": test})["k"] == {0.0: 0, 0.05: 0.5, 0.1: 0.5, 0.2: 0}
