"""Occurrences of words, and senses of a file: samples, and senses that do not fit."""

import re
import shutil

import pytest
from polysemy_text import LABELS, LINES, table, write, write_senses

from elmo_core.messages import UserError


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "text.txt", LINES)


def test_a_sample_is_random_seeded_and_reported(model, printed, tmp_path):
    corpus = write(tmp_path / "text.txt", [f"number {k} bank" for k in range(300)])
    argv = ["--word=bank", "--max_occurrences=30", "--examples=30", "--neighbours=1"]
    one = printed(model, corpus, *argv, "--seed=1")
    assert printed(model, corpus, *argv, "--seed=1") == one
    assert printed(model, corpus, *argv, "--seed=2") != one
    assert re.search(r"bank\D* 300 \D* 30 .*--max_occurrences", one[0])
    numbers = [int(line.split()[2]) for line in one if re.match(r"  \d", line)]
    assert len(set(numbers)) == 30 and min(numbers) < 100 and max(numbers) >= 200


def test_words_left_out_are_logged(word_model, corpus, printed, tmp_path, caplog):
    labels = [
        *LABELS,
        ("8", "3", "苹果", "fruit"),
        ("1", "4", "town", "place"),
        ("9", "0", "only", "x"),
    ]
    senses = write_senses(tmp_path / "senses.tsv", labels)
    assert list(table(printed(word_model, corpus, f"--senses={senses}"))) == [
        "bank",
        "words of senses.tsv: 1",
    ]
    assert "'苹果' is left out" in caplog.text and "'town' is left out" in caplog.text


def test_senses_in_missing_files_are_counted(model, corpus, printed, tmp_path, caplog):
    senses = write_senses(tmp_path / "senses.tsv", LABELS)
    with senses.open("a", encoding="utf-8") as file:
        file.write("elsewhere.txt\t0\t0\tbank\tmoney\n")
    assert table(printed(model, corpus, f"--senses={senses}"))
    assert "1 occurrence of 5" in caplog.text


@pytest.fixture
def senses(tmp_path):
    return write_senses(tmp_path / "senses.tsv", LABELS)


def test_a_sample_that_is_too_small_is_said_to_be(model, corpus, senses, printed, caplog):
    small = "--max_occurrences=1"
    with pytest.raises(UserError, match="max_occurrences"):
        printed(model, corpus, "--word=bank", small)
    with pytest.raises(UserError):
        printed(model, corpus, f"--senses={senses}", small)
    assert "max_occurrences" in caplog.text


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([("0", "4", "river", "x")], r"senses\.tsv:2"),
        ([LABELS[0], ("10", "0", "bank", "x")], r"senses\.tsv:3"),
        ([LABELS[0], ("0", "4", "bank", "money")], r"senses\.tsv:3.*'money'.*'river'"),
        ([("0", "4", "bank")], r"senses\.tsv:2"),
        ([("0", "4.0", "bank", "river")], r"senses\.tsv:2"),
        ([], r"senses\.tsv"),
        ([("1", "4", "town", "x")], r"senses\.tsv"),  # nothing that can be counted
        ([LABELS[0]], "'bank'"),
    ],
)
def test_senses_that_do_not_fit_are_explained(model, corpus, printed, tmp_path, rows, word):
    senses = write_senses(tmp_path / "senses.tsv", rows)
    asked = ["--word=bank"] if rows == [LABELS[0]] else []
    with pytest.raises(UserError, match=word):
        printed(model, corpus, f"--senses={senses}", *asked)


def test_senses_of_another_corpus_are_explained(model, corpus, printed, tmp_path):
    senses = write_senses(tmp_path / "senses.tsv", LABELS, file="other.txt")
    with pytest.raises(UserError, match=r"other\.txt.* text\.txt"):
        printed(model, corpus, f"--senses={senses}")
    (tmp_path / "again").mkdir()
    shutil.copy(corpus, tmp_path / "again")
    with pytest.raises(UserError, match="2 files named text"):
        printed(
            model,
            f"{tmp_path}/**/text.txt",
            f"--senses={write_senses(tmp_path / 'senses.tsv', LABELS)}",
        )
