"""run_finetune.py on small files."""

import json
from pathlib import Path

import pytest

import run_finetune
from elmo_core.messages import UserError

TEXTS = {
    "art": "the painter and his museum",
    "sport": "a goal in the match",
    "tech": "new chips for computers",
}


@pytest.fixture(scope="module")
def folder(small_weights, tmp_path_factory) -> Path:
    """Data, a classifier of them, and the scores of its training."""
    folder = tmp_path_factory.mktemp("finetune")
    rows = "".join(f"{text}\t{label}\n" for label, text in TEXTS.items())
    (folder / "train.tsv").write_text(rows * 20, encoding="utf-8")
    (folder / "test.tsv").write_text(rows, encoding="utf-8")
    (folder / "texts").write_text("the painter\n\na goal\n", encoding="utf-8")
    files = [f"--{name}_file={folder / name}.tsv" for name in ("train", "test")]
    model = [f"--save_dir={folder / 'model'}", f"--json={folder / 'scores.json'}"]
    flags = [
        f"--init_from_ckpt={small_weights['char']}",
        "--head=mean",
        "--epochs=5",
        "--lr=0.05",
        "--device=cpu",
    ]
    run_finetune.main(["train", *flags, *files, *model])
    return folder


@pytest.fixture
def run(folder, capsys):
    """A function that runs a command with the classifier, and returns what it prints."""

    def run(command: str, *flags: str) -> str:
        capsys.readouterr()
        run_finetune.main([command, f"--model_dir={folder / 'model'}", "--device=cpu", *flags])
        return capsys.readouterr().out

    return run


def test_evaluate_gives_the_scores_of_training(folder, run, tmp_path):
    path = tmp_path / "test.json"
    printed = run("evaluate", f"--test_file={folder / 'test.tsv'}", f"--json={path}")
    scores = json.loads(path.read_text(encoding="utf-8"))
    of_training = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert scores["test"] == of_training["test"]
    assert "support" in printed


def test_predict_writes_class_probability_and_text(folder, run, tmp_path):
    run("predict", f"--input={folder / 'texts'}", f"--output={tmp_path / 'classes'}")
    first, blank, last = (tmp_path / "classes").read_text(encoding="utf-8").splitlines()
    label, probability, text = first.split("\t")
    assert label in TEXTS and 1 / 3 < float(probability) <= 1 and text == "the painter"
    assert not blank and last.endswith("\ta goal")


def test_predict_writes_json(folder, run):
    printed = run("predict", f"--input={folder / 'texts'}", "--output_format=json")
    first, blank, _ = printed.splitlines()
    values = json.loads(first)
    assert values["text"] == "the painter" and not blank
    assert values["label"] == max(values["probabilities"], key=values["probabilities"].get)


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("a.txt", "good\nwhat is it ?\tart\n", r"a\.txt:2: .*labelled.*evaluate"),
        ("a.csv", "text\na\n", r"a\.csv:1: .*read_csv"),
        ("a.jsonl", '{"text": "a"}\n', r"a\.jsonl:1: .*read_json.*lines"),
        ("a.txt", "# text = a\n", r"a\.txt:1: .*run_parse.*\.conllu"),
    ],
)
def test_predict_refuses_what_is_not_text_and_says_what_reads_it(
    run, tmp_path, name, content, pattern
):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=pattern) as raised:
        run("predict", f"--input={tmp_path / name}")
    assert ("run_parse" in str(raised.value)) == ("run_parse" in pattern)


def test_the_published_command(tmp_path, capsys, small_weights):
    for name in ("pos", "neg"):
        content = "".join(f"{name} film {k}\n" for k in range(40))
        (tmp_path / f"rt-polarity.{name}").write_text(content, encoding="latin-1")
    flags = [f"--init_from_ckpt={small_weights['char']}", "--epochs=1", "--device=cpu"]
    run_finetune.main([f"--data_dir={tmp_path}", *flags])
    assert "== test: accuracy" in capsys.readouterr().out


def test_data_are_given_once():
    for flags in ([], ["--data_dir=x", "--train_file=y"]):
        with pytest.raises(UserError, match=r"--train_file.*--data_dir"):
            run_finetune.main([*flags, "--init_from_ckpt=none"])
