"""Minimal pairs: against the surprisal of the words; mistakes in their files."""

import csv
import json
import math

import numpy as np
import pytest
from experiment_runs import bits, run

from elmo import ELMoEmbedder, UserError
from elmo_tools.experiments.pairs import preferences, read_pairs

PAIRS = [
    {"sentence_good": "the bank", "sentence_bad": "bank the", "kind": "order", "n": 1},
    {"sentence_good": "a river", "sentence_bad": "unheard river", "kind": "word", "n": 1},
    {
        "sentence_good": "the river bank",
        "sentence_bad": "river the bank",
        "kind": "order",
        "n": 2,
        "more": "x",
    },
]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.tsv"])
def test_pairs_are_counted_in_total_and_by_group(model, tmp_path, capsys, name):
    columns = ["sentence_bad\tsentence_good"] + [
        f'"{pair["sentence_bad"]}"\t{pair["sentence_good"]}' for pair in PAIRS
    ]
    lines = columns if name == "pairs.tsv" else map(json.dumps, PAIRS)
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    groups = [] if name == "pairs.tsv" else ["--groups", "kind", "n", "kind"]
    run(model, "--pairs", tmp_path / name, "--output", tmp_path / "out.tsv", *groups)
    expected = np.array(
        [
            bits(model, p["sentence_bad"]).sum(0) - bits(model, p["sentence_good"]).sum(0)
            for p in PAIRS
        ]
    )
    with (tmp_path / "out.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row.get("more") for row in rows] == (
        [None] * 3 if name == "pairs.tsv" else ["", "", "x"]
    )
    written = [[float(row[name]) for name in ("forward", "backward", "both")] for row in rows]
    np.testing.assert_allclose(written, [[*pair, pair.sum()] for pair in expected], atol=1e-4)
    assert [row["in_vocabulary"] for row in rows] == ["1", "0", "1"]
    preferred = np.array(written) > 0
    printed = {}
    for line in capsys.readouterr().out.splitlines()[1:]:
        label, *numbers = line.split()
        printed[label] = [float(number.rstrip("%").replace("–", "nan")) for number in numbers]
    names = {"all": [0, 1, 2]}
    if groups:
        names |= {"kind=order": [0, 2], "kind=word": [1], "n=1": [0, 1], "n=2": [2]}
    assert list(printed) == list(names)
    for label, members in names.items():
        known = [k for k in members if k != 1]
        shares = preferred[known].mean(axis=0) if known else [math.nan] * 3
        numbers = [
            len(members),
            *100 * preferred[members].mean(axis=0),
            len(known),
            *100 * np.array(shares),
        ]
        np.testing.assert_allclose(printed[label], numbers, atol=0.051)


def test_a_difference_of_zero_is_no_preference(model):
    same = ELMoEmbedder(model, device="cpu").compare([["the"]], [["the"]])
    assert next(preferences([{}], same, []))[1:5] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "line", "word"),
    [
        ("p.jsonl", '{"sentence_good": "a"}', "p.jsonl:2.*sentence_bad"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": 3}', "p.jsonl:2"),
        ("p.jsonl", "a\tb", "p.jsonl:2"),
        ("p.txt", "a b c", "p.txt:2.*TSV"),
        ("p.txt", "a\t ", "p.txt:2"),
        ("p.txt", "a b\ta b ", "p.txt:2"),
        ("p.jsonl", "[" * 200_000, "p.jsonl:2"),
    ],
)
def test_a_line_that_is_no_pair_is_named(tmp_path, name, line, word):
    first = json.dumps(PAIRS[0]) if name == "p.jsonl" else "a\tb"
    (tmp_path / name).write_text(f"{first}\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=word):
        read_pairs(tmp_path / name)


def test_an_empty_file_has_no_pairs(tmp_path):
    (tmp_path / "pairs.jsonl").touch()
    with pytest.raises(UserError, match=r"pairs.jsonl is empty"):
        read_pairs(tmp_path / "pairs.jsonl")


def test_blank_lines_between_pairs_are_counted(tmp_path, caplog):
    lines = [json.dumps(PAIRS[0]), "", json.dumps(PAIRS[1]), " ", ""]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert read_pairs(tmp_path / "p.jsonl") == PAIRS[:2] and "2 blank lines" in caplog.text
    (tmp_path / "p.txt").write_text("a\tb\n\nb\ta\n", encoding="utf-8")
    assert len(read_pairs(tmp_path / "p.txt")) == 2 and "1 blank line:" in caplog.text


def test_a_field_with_the_name_of_a_column_is_not_lost(model, tmp_path, capsys):
    (tmp_path / "p.jsonl").write_text(json.dumps(PAIRS[0] | {"both": "kept?"}), encoding="utf-8")
    with pytest.raises(UserError, match=r"p.jsonl.* both"):
        run(model, "--pairs", tmp_path / "p.jsonl", "--output", tmp_path / "out.tsv")
    run(model, "--pairs", tmp_path / "p.jsonl", "--groups", "both")
    assert "both=kept?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("good", "bad"), [("The bank.", "Bank the."), ("这条河很长很长", "这条河很很长长")]
)
def test_raw_sentences_need_a_language(model, tmp_path, good, bad):
    """Their tokens would be phrases, and words with marks: a table of chance."""
    (tmp_path / "p.txt").write_text(f"{good}\t{bad}\n", encoding="utf-8")
    items = f"item\tregion\twords\n1\t1\t{good}\n"
    (tmp_path / "items.tsv").write_text(items, encoding="utf-8")
    for flags in (["--pairs", tmp_path / "p.txt"], ["--regions", tmp_path / "items.tsv"]):
        with pytest.raises(UserError, match=r"--lang"):
            run(model, *flags)
        run(model, *flags, "--lang=auto")
        run(model, *flags, "--lang=none")


def test_a_group_that_no_pair_has_is_named(model, tmp_path):
    (tmp_path / "p.jsonl").write_text(json.dumps(PAIRS[0]), encoding="utf-8")
    with pytest.raises(UserError, match=r"p.jsonl:1: .*UID"):
        run(model, "--pairs", tmp_path / "p.jsonl", "--groups", "UID")
