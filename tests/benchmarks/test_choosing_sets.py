"""choosing_sets.py: small made-up files in the forms of the public ones."""

import json
import sys
from pathlib import Path

import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import choosing

from elmo_core.messages import UserError


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def prepared(folder: Path, name: str) -> list[list[str]]:
    """The lines of the training and of the test part."""
    choosing.main(["prepare", str(folder), "--sets", name])
    parts = []
    for part in ("train", "test"):
        path = folder / "sets" / name / f"{part}.tsv"
        parts.append(path.read_text(encoding="utf-8").splitlines())
    return parts


def test_a_set_without_a_split_is_divided(tmp_path):
    lines = [f"{'spam' if number % 4 == 0 else 'ham'}\ttext  {number}" for number in range(2000)]
    write(tmp_path / "SMSSpamCollection", *lines, "ham\ttext 1", "ham\t ")
    train, test = prepared(tmp_path, "sms-spam")
    assert len(train) == 1000 and len(test) == 1000 and not set(train) & set(test)
    assert sum(line.endswith("\tspam") for line in test) == 250
    assert all(line.startswith("text ") and "  " not in line for line in train)


def test_small_training_parts_are_joined(tmp_path):
    folder = tmp_path / "FewCLUE/datasets/tnews"
    names = ["train_few_all", "dev_few_all"]
    names += [f"{part}_{number}" for part in ("train", "dev") for number in range(5)]
    for number, name in enumerate(names):
        object = {"sentence": f"新闻 {number % 8}", "label_desc": f"news_{number % 2}"}
        write(folder / f"{name}.json", json.dumps(object, ensure_ascii=False))
    object = {"sentence": "新闻\u2028 3", "label_desc": "news_1"}
    write(folder / "test_public.json", json.dumps(object, ensure_ascii=False))
    train, test = prepared(tmp_path, "tnews")
    assert test == ["新闻 3\tnews_1"]
    # each text once, and without the one that is tested
    expected = [f"新闻 {number}\tnews_{number % 2}" for number in range(8) if number != 3]
    assert sorted(train) == expected


def test_columns_of_csv_and_labels_as_numbers(tmp_path):
    path = tmp_path / "CharCnn_Keras/data/ag_news_csv/test.csv"
    write(path, *[f'"{1 + k % 4}","Title {k}","First\\second, line"' for k in range(2400)])
    train, test = prepared(tmp_path, "ag-news")
    assert len(train) == 400 and len(test) == 2000
    assert {line.split("\t")[1] for line in test} == {"world", "sports", "business", "science"}
    assert all(line.split("\t")[0].endswith(" . First second, line") for line in test)


def test_a_tenth_of_the_reviews(tmp_path):
    for part in ("train", "test"):
        for ending in ("pos", "neg"):
            for number in range(20):
                path = tmp_path / f"aclImdb/{part}/{ending}/{number}_9.txt"
                write(path, f"{part} {ending}<br /><br />{number}")
    train, test = prepared(tmp_path, "imdb")
    assert len(train) == len(test) == 4
    assert sum(line.endswith("\tpositive") for line in test) == 2
    assert all(line.startswith("test ") and "<br" not in line for line in test)


def test_a_repository_that_is_missing(tmp_path):
    with pytest.raises(UserError, match="banking_data"):
        prepared(tmp_path, "banking77")
