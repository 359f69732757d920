"""run_finetune.py on small files."""

import json
from itertools import pairwise
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


def test_evaluate_prints_the_confusion_and_on_request_mistakes(folder, run):
    printed = run("evaluate", f"--test_file={folder / 'test.tsv'}")
    assert "confusion" in printed and "1 art" in printed and "mistakes" not in printed
    (folder / "wrong.tsv").write_text("the painter\ttech\na goal\tsport\n", encoding="utf-8")
    printed = run("evaluate", f"--test_file={folder / 'wrong.tsv'}", "--mistakes=9")
    _, *rows = printed.partition("most confident mistakes")[2].splitlines()
    assert any(row.split()[0] == "tech" and row.endswith("  the painter") for row in rows)


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Path:
    """A folder with texts that have several labels, and a classifier of these."""
    folder = tmp_path_factory.mktemp("several")
    names = list(TEXTS)
    rows = [([name], TEXTS[name]) for name in names]
    for a, b in pairwise(names):
        rows.append(([a, b], f"{TEXTS[a]} {TEXTS[b]}"))
    rows.append(([], "and this"))
    content = "".join(f"{text}\t{'+'.join(labels)}\n" for labels, text in rows)
    (folder / "train.tsv").write_text(content * 20, encoding="utf-8")
    (folder / "texts").write_text(f"{rows[3][1]}\n\nand this\n", encoding="utf-8")
    flags = ["--init_from_ckpt=none", "--word_dim=6", "--head=mean", "--epochs=9", "--lr=0.05"]
    data = [f"--train_file={folder / 'train.tsv'}", "--label_separator=+", "--device=cpu"]
    run_finetune.main(["train", *flags, *data, f"--save_dir={folder / 'model'}"])
    return folder


def test_several_labels_are_written_with_their_separator(several, capsys):
    flags = [f"--model_dir={several / 'model'}", "--device=cpu"]
    capsys.readouterr()
    run_finetune.main(["predict", *flags, f"--input={several / 'texts'}"])
    first, blank, last = capsys.readouterr().out.splitlines()
    labels, probabilities, _ = first.split("\t")
    assert labels == "art+sport" and not blank and last == "\t\tand this"
    assert [len(x) for x in probabilities.split("+")] == [6, 6]
    run_finetune.main(["predict", *flags, f"--input={several / 'texts'}", "--output_format=json"])
    first, _, last = capsys.readouterr().out.splitlines()
    assert json.loads(first)["labels"] == ["art", "sport"] and json.loads(last)["labels"] == []
    assert set(json.loads(first)["probabilities"]) == set(TEXTS)
    wrong = several / "wrong.tsv"
    wrong.write_text("and this\tart+tech\na goal\tsport\n", encoding="utf-8")
    run_finetune.main(["evaluate", *flags, f"--test_file={wrong}", "--mistakes=3"])
    printed = capsys.readouterr().out
    assert "micro avg" in printed and "confusion" not in printed
    assert any(line.startswith("art+tech  ") for line in printed.splitlines())


@pytest.mark.parametrize("labels", ["art", "art+tech", "tech + art"])
def test_predict_recognises_lines_with_several_labels(several, tmp_path, labels):
    (tmp_path / "texts").write_text(f"a goal\ta+b\nand this\t{labels}\n", encoding="utf-8")
    files = [f"--input={tmp_path / 'texts'}", f"--output={tmp_path / 'classes'}"]
    with pytest.raises(UserError, match=r"texts:2: .*labelled.*evaluate"):
        run_finetune.main(["predict", f"--model_dir={several / 'model'}", *files])


def test_labels_that_contain_the_separator_are_written_as_json(tmp_path, capsys):
    rows = [{"text": "a b", "labels": ["x|y"]}, {"text": "c d", "labels": []}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "train.jsonl").write_text(lines * 10, encoding="utf-8")
    flags = ["--init_from_ckpt=none", "--word_dim=3", "--head=mean", "--epochs=1", "--device=cpu"]
    model = tmp_path / "model"
    run_finetune.main(
        ["train", *flags, f"--train_file={tmp_path / 'train.jsonl'}", f"--save_dir={model}"]
    )
    (tmp_path / "texts").write_text("a b\n", encoding="utf-8")
    predict = ["predict", f"--model_dir={model}", f"--input={tmp_path / 'texts'}"]
    with pytest.raises(UserError, match=r"'x\|y'.*--output_format=json"):
        run_finetune.main(predict)
    run_finetune.main([*predict, "--output_format=json"])


@pytest.mark.parametrize("line", ["only one", "one\t", "a\tb\tc"])
def test_a_line_that_is_no_pair_is_named(tmp_path, line, capsys):
    (tmp_path / "train.tsv").write_text("a\tx\tb\nc\ty\td\n" * 10, encoding="utf-8")
    flags = ["--init_from_ckpt=none", "--word_dim=3", "--head=mean", "--epochs=1", "--device=cpu"]
    model = tmp_path / "model"
    run_finetune.main(
        ["train", *flags, f"--train_file={tmp_path / 'train.tsv'}", f"--save_dir={model}"]
    )
    (tmp_path / "texts").write_text(f"a\tb\n\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"texts:3: .*two texts, separated by a tab"):
        run_finetune.main(["predict", f"--model_dir={model}", f"--input={tmp_path / 'texts'}"])


def test_the_published_command(tmp_path, capsys, small_weights):
    for name in ("pos", "neg"):
        content = "".join(f"{name} film {k}\n" for k in range(40))
        (tmp_path / f"rt-polarity.{name}").write_text(content, encoding="latin-1")
    flags = [f"--init_from_ckpt={small_weights['char']}", "--device=cpu"]
    run_finetune.main([f"--data_dir={tmp_path}", *flags])
    assert "== test: accuracy" in capsys.readouterr().out


def test_data_are_given_once():
    for flags in ([], ["--data_dir=x", "--train_file=y"]):
        with pytest.raises(UserError, match=r"--train_file.*--data_dir"):
            run_finetune.main([*flags, "--init_from_ckpt=none"])
