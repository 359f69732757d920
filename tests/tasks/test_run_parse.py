"""run_parse.py on a small treebank."""

import io
import re
from pathlib import Path

import pytest
from treebank import write_treebank

import run_parse
from args import with_flags
from elmo_core.messages import UserError
from elmo_tasks.parsing.data import read_conllu

SIZES = "--hidden_dim=4 --arc_dim=4 --label_dim=4 --word_dim=4"
QUICK = f"--epochs=1 {SIZES} --init_from_ckpt=none --device=cpu"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A treebank and a parser of it."""
    folder = tmp_path_factory.mktemp("parse")
    write_treebank(folder / "train.conllu")
    files = [f"--train_file={folder / 'train.conllu'}", f"--save_dir={folder / 'p'}"]
    run_parse.main(["train", *files, *QUICK.split()])
    return folder


@pytest.fixture
def run(folder, capsys, monkeypatch):
    """A function that runs run_parse.py in the folder, and returns what it prints."""
    monkeypatch.chdir(folder)

    def run(command: str, text: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capsys.readouterr()
        run_parse.main(command.split())
        return capsys.readouterr().out

    return run


PREDICT = "predict --model_dir=p --device=cpu"


def test_evaluate_prints_the_scores_of_training(run, tmp_path):
    folder = tmp_path / "p"
    files = f"--train_file=train.conllu --test_file=train.conllu --save_dir={folder}"
    printed = run(f"train {files} {QUICK}")
    (summary,) = (line for line in printed.splitlines() if line.startswith("== test"))
    evaluated = run(f"evaluate --model_dir={folder} --test_file=train.conllu --device=cpu")
    assert summary.removeprefix("== test: ") in evaluated


def test_a_treebank_is_parsed_and_its_first_tree_drawn(run, tmp_path):
    parsed = tmp_path / "out.conllu"
    drawn = tmp_path / "tree.svg"
    run(f"{PREDICT} --input=train.conllu --output={parsed} --svg={drawn}")
    assert len(list(read_conllu(parsed))) == 8
    assert "<svg" in drawn.read_text(encoding="utf-8")


def test_lines_of_text_are_sentences_and_blank_ones_none(run):
    first, second, end = run(PREDICT, "\u200b\na dog\n\nthe cat sleeps\n").split("\n\n")
    assert first.splitlines()[2].split("\t")[9] == "TokenRange=2:5" and not end
    assert len(second.splitlines()) == 4


def test_raw_text_is_written_with_the_places_of_its_words(run):
    comment, *rows, last = run(PREDICT, "dog's  end.").splitlines()
    assert comment == "# text = dog's  end." and not last
    places = [
        "SpaceAfter=No|TokenRange=0:3",
        "TokenRange=3:5",
        "SpaceAfter=No|TokenRange=7:10",
        "TokenRange=10:11",
    ]
    assert [row.split("\t")[9] for row in rows] == places
    assert "\tdog's\t" in run(f"{PREDICT} --lang=none", "dog's  end.")


@pytest.mark.parametrize(
    ("flags", "text", "pattern"),
    [
        (f"{PREDICT} --input=missing.txt", "", r"--input missing\.txt"),
        (f"{PREDICT} --input=train.conllu --svg=train.conllu", "", "--svg"),
        (PREDICT, "# text = a\n", r"standard input:1: .*conllu"),
        (f"train --train_file=train.conllu --save_dir=p {QUICK}", "", "--overwrite"),
        (f"train --train_file=missing.conllu --save_dir=q {QUICK}", "", r"missing\.conllu"),
    ],
)
def test_mistakes(run, flags, text, pattern):
    with pytest.raises(UserError) as raised:
        run(flags, text)
    assert re.search(pattern, with_flags(str(raised.value)))
