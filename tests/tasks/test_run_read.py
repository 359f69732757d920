"""run_read.py on small files: training, answers, scores, data sets, mistakes in its flags."""

import io
import json
import re
from pathlib import Path

import pytest

import run_read
from args import with_flags
from elmo_core.messages import UserError
from elmo_tasks.reading.data import read_passages

TEXT = "老师住在北京。他在银行工作。医生住在上海。"
QUICK = ["--device=cpu", "--epochs=2", "--word_dim=5", "--hidden_dim=3"]
TRAIN = "train --train_file=data.json --dev_file=data.json"


def squad(name: str, text: str, answers: dict[str, str]) -> dict:
    qas = [
        {
            "id": f"{name}-{k}",
            "question": question,
            "answers": [{"text": answer, "answer_start": text.find(answer)}],
        }
        for k, (question, answer) in enumerate(answers.items())
    ]
    return {"title": "", "paragraphs": [{"context": text, "qas": qas}]}


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory) -> Path:
    """Data sets, word vectors, a model and a reader without ELMo."""
    folder = tmp_path_factory.mktemp("reading")
    one = squad("a", TEXT, {"老师住在哪里": "北京", "谁住在上海": "医生"})
    other = squad("b", "医生在学校工作。", {"谁在学校工作": "医生", "医生在哪里工作": "学校工"})
    english = 'Anna lives in "Paris". She works at the bank.'
    english = squad(
        "a", english, {"Where does Anna live?": "Paris", "Where does she work?": "the bank"}
    )
    for name, values in {
        "data": {"data": [one, other]},
        "one": {"data": [{"paragraphs": one["paragraphs"]}]},
        "english": {"data": [english]},
        "mine": {"a-0": "北京。"},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    (folder / "passage.txt").write_text(TEXT, encoding="utf-8")
    (folder / "empty.txt").write_text("\n", encoding="utf-8")
    (folder / "v.txt").write_text("2 3\n老师 1 0 0\n医生 0 1 0\n", encoding="utf-8")
    (folder / "model").symlink_to(checkpoints["char"])
    data = [f"--{name}_file={folder / 'data.json'}" for name in ("train", "dev")]
    save = ["--init_from_ckpt=none", f"--save_dir={folder / 'reader'}"]
    run_read.main(["train", *data, *save, *QUICK])
    return folder


@pytest.fixture
def run(folder, capsys, monkeypatch, no_fsync):
    """A function that runs run_read.py in the folder and returns what it prints."""
    monkeypatch.chdir(folder)

    def run(command: str, *flags: str, text: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capsys.readouterr()
        run_read.main([*command.split(), *flags])
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("kind", ["vectors", "char", "word"])
def test_train_evaluate_and_predict(run, checkpoints, tmp_path, kind):
    flags = ["--init_from_ckpt=none", "--word_vectors=v.txt"]
    if kind in checkpoints:
        flags = [f"--init_from_ckpt={checkpoints[kind]}", "--layers=mix", "--cache_gb=1e-9"]
    reader = f"--model_dir={tmp_path / 'reader'}"
    files = [f"--json={tmp_path / 'r.json'}", "--test_file=data.json"]
    trained = run(TRAIN, *flags, f"--save_dir={tmp_path / 'reader'}", *files, *QUICK)
    (test,) = re.findall("^== test: (.*)", trained, re.M)
    assert test in run("evaluate --test_file=data.json --device=cpu", reader)
    run("predict --input=data.json --device=cpu", reader, f"--output={tmp_path / 'p.json'}")
    answers = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    texts = texts_by_question(Path("data.json"))
    assert answers.keys() == texts.keys()
    assert all(answers[id] in text for id, text in texts.items())
    results = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert results["test"]["questions"] == 4


def texts_by_question(path: Path) -> dict[str, str]:
    """The passage of each question of a file, by the question's id."""
    texts = {}
    for passage in read_passages(path):
        for question in passage.questions:
            texts[question.id] = passage.text
    return texts


def test_a_tenth_of_the_passages_is_held_out(run, tmp_path):
    data = json.loads(Path("english.json").read_text(encoding="utf-8"))["data"]
    passage = data[0]["paragraphs"][0]
    again = json.loads(json.dumps(passage).replace('"a-', '"b-'))  # with other ids
    two = json.dumps({"data": [{"paragraphs": [passage, again]}]})
    (tmp_path / "two.json").write_text(two, encoding="utf-8")
    flags = [
        f"--train_file={tmp_path / 'two.json'}",
        f"--save_dir={tmp_path / 'reader'}",
        "--init_from_ckpt=none",
    ]
    run("train", *flags, *QUICK)
    printed = run("predict --input=english.json --device=cpu", f"--model_dir={tmp_path / 'reader'}")
    assert all(answer in passage["context"] for answer in json.loads(printed).values())


def test_questions_of_standard_input_are_answered_in_their_order(run):
    printed = run(
        "predict --model_dir=reader --passage=passage.txt --device=cpu",
        text="谁住在上海？\n\n老师住在哪里？\n",
    )
    first, blank, last = printed.splitlines()
    assert first and first in TEXT
    assert not blank
    assert last and last in TEXT


def test_k_answers_are_written_with_their_scores_and_offsets(run):
    by_id = json.loads(run("predict --model_dir=reader --input=data.json --k=3 --device=cpu"))
    texts = texts_by_question(Path("data.json"))
    assert by_id.keys() == texts.keys()
    for id, found in by_id.items():
        assert len(found) == 3 and sorted(found, key=lambda one: -one["score"]) == found
        assert all(one["text"] == texts[id][one["begin"] : one["end"]] for one in found)
    lines = run(
        "predict --model_dir=reader --passage=passage.txt --k=3 --device=cpu",
        text="老师住在哪里\n\n",
    )
    assert [one["text"] for one in json.loads(lines.splitlines()[0])] == [
        one["text"] for one in by_id["a-0"]
    ]
    assert not lines.splitlines()[1]


BASELINE = f"{TRAIN} --init_from_ckpt=none --save_dir=new --device=cpu"
EVALUATE = "evaluate --test_file=data.json --device=cpu"
PREDICT = "predict --model_dir=reader --device=cpu"
MISTAKES = [  # flags, a pattern that the message has
    (f"{BASELINE} --layers=mix", "--layers"),
    (f"{BASELINE} --max_seq_len=8 --doc_stride=9", "--doc_stride"),
    (f"{BASELINE} --ema=1", "--ema"),
    (f"{BASELINE} --train_file=mine.json", "mine.json.*'data'"),
    (f"{BASELINE} --save_dir=reader", "overwrite"),
    (f"{BASELINE} --json=data.json", "--json"),
    (f"{BASELINE} --word_vectors=empty.txt --json=empty.txt", "--json"),
    ("train --train_file=one.json --init_from_ckpt=none --save_dir=new --device=cpu", "passage"),
    (f"{EVALUATE} --model_dir=model", "reader"),
    (PREDICT, "--input"),
    (f"{PREDICT} --input=missing.json", "missing.json"),
    (f"{PREDICT} --input=data.json --output=data.json", "--output"),
    (f"{PREDICT} --passage=empty.txt", "--passage"),
]


@pytest.mark.parametrize(("flags", "pattern"), MISTAKES)
def test_a_mistake_is_named_and_changes_nothing(flags, pattern, folder, run, capsys):
    before = {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
    with pytest.raises((UserError, SystemExit)) as raised:
        run(flags)
    message = (
        capsys.readouterr().err.splitlines()[-1]
        if raised.type is SystemExit
        else with_flags(str(raised.value))
    )
    assert re.search(pattern, message)
    assert {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    } == before
