"""Minimal pairs: against the surprisal of the words; mistakes in their files."""

import csv
import json
import math

import numpy as np
import pytest
from experiment_runs import bits, run

from elmo import ELMoEmbedder, UserError
from elmo_core.encoding.surprisal import Comparison
from elmo_core.text.tokenise import Tokeniser
from elmo_tools.experiments.pairs import Pair, Sentence, preferences, read_pairs

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


def read(path, *groups: str, lang: str = "none") -> list[Pair]:
    return read_pairs(path, lambda sentences: Tokeniser(lang), groups)


def table(path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


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
    rows = table(tmp_path / "out.tsv")
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
    sentence = Sentence(["the"], begin=0, stop=2)
    pair = Pair({}, good=sentence, bad=sentence)
    assert next(preferences([pair], same, []))[1:5] == [1, 0, 0, 0]


def test_a_small_difference_of_means_is_a_preference():
    """A rounding error is one of sums."""
    long = Sentence(["the"] * 100, begin=0, stop=101)
    pair = Pair({}, good=long, bad=long)
    means = Comparison(forward=5e-4, backward=5e-6, both=5e-4, in_vocabulary=True)
    assert next(preferences([pair], [means], [], length_power=1))[2:5] == [1, 0, 1]
    assert next(preferences([pair], [means], [], length_power=0))[2:5] == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "line", "word"),
    [
        ("p.jsonl", '{"sentence_good": "a", "sentence_ba', "p.jsonl:2.* not JSON.*column"),
        ("p.jsonl", "a\tb", "p.jsonl:2.* not JSON"),
        ("p.jsonl", "[" * 200_000, "p.jsonl:2.* not JSON"),
        ("p.jsonl", '["a", "b"]', "p.jsonl:2.* object"),
        ("p.jsonl", '{"sentence_good": "a"}', "p.jsonl:2.* no sentence_bad"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": 3}', "p.jsonl:2.*_bad is not text"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": " "}', "p.jsonl:2.*_bad is empty"),
        ("p.txt", "a b c", "p.txt:2.* 1 column, not 2.* TSV"),
        ("p.txt", "a\t ", "p.txt:2.*_bad is empty"),
        ("p.txt", 'a\t"b', "p.txt:2.* quoted"),
    ],
)
def test_a_line_that_is_no_pair_is_named_with_the_cause(tmp_path, name, line, word):
    first = json.dumps(PAIRS[0]) if name == "p.jsonl" else "a\tb"
    (tmp_path / name).write_text(f"{first}\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=word):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"prefix": 3}, "p.jsonl:1: prefix is not text"),
        ({"prefix_good": "the"}, "has prefix_good, but no prefix_bad"),
        ({"prefix_bad": "the"}, "has prefix_bad, but no prefix_good"),
        ({"prefix": "a", "prefix_good": "a", "prefix_bad": "a"}, "prefix, and prefix_good"),
        ({"prefix": "a", "sentence_bad": "\u200b"}, "p.jsonl:1: sentence_bad has no words"),
        ({"sentence_good": "\u200b"}, "p.jsonl:1: sentence_good has no words"),
    ],
)
def test_a_mistake_in_a_prefix_is_named(tmp_path, fields, word):
    (tmp_path / "p.jsonl").write_text(json.dumps(PAIRS[0] | fields), encoding="utf-8")
    with pytest.raises(UserError, match=word):
        read(tmp_path / "p.jsonl", lang="en")


def test_pairs_of_equal_sentences_are_skipped_and_counted(tmp_path, caplog):
    """Equal is what the model reads: the tokens, and where the continuation begins."""
    lines = ["the bank\tthe  bank ", "the bank\ta bank", 'the “bank”\tthe "bank"']
    (tmp_path / "p.txt").write_text("\n".join(lines), encoding="utf-8")
    (pair,) = read(tmp_path / "p.txt", lang="en")
    assert pair.bad.tokens == ["a", "bank"]
    assert (
        "2 pairs have two equal sentences (the same tokens), the first in line 1: skipped"
        in caplog.text
    )
    (tmp_path / "p.txt").write_text("\n\n".join(lines[:1] * 2), encoding="utf-8")
    with pytest.raises(UserError, match=r"p.txt: all pairs \(2\)"):
        read(tmp_path / "p.txt")


def test_sentences_that_differ_in_their_prefix_are_not_equal(tmp_path, caplog):
    prefixed = [
        {"prefix_good": "the river", "prefix_bad": "a river", "sentence_bad": "the bank"},
        {"prefix_good": "the river", "prefix_bad": "the", "sentence_bad": "river the bank"},
        {"prefix": "the river", "sentence_bad": " the bank"},
    ]
    lines = [json.dumps({"sentence_good": "the bank"} | pair) for pair in prefixed]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert len(read(tmp_path / "p.jsonl")) == 2
    assert (
        "1 pair has two equal sentences (the same tokens), the first in line 3: skipped"
        in caplog.text
    )


@pytest.mark.parametrize("name", ["p.jsonl", "p.tsv"])
def test_a_continuation_is_scored_given_its_prefix(model, tmp_path, name):
    """Its words, without the end. A pair without prefixes is scored whole."""
    columns = ["sentence_good", "sentence_bad", "prefix_good", "prefix_bad", "prefix"]
    rows = [
        ["river bank", "bank", "the", "a", ""],
        ["the", "the", "", "a unheard", ""],
        ["the bank", "bank the", "", "", ""],
        ["bank", "river", "", "", "the"],
    ]
    if name == "p.tsv":
        lines = ["\t".join(cells) for cells in [columns, *rows]]
    else:
        lines = [json.dumps(dict(zip(columns, cells, strict=True))) for cells in rows]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    run(model, "--pairs", tmp_path / name, "--output", tmp_path / "out.tsv")
    expected = [
        bits(model, "a bank")[1:2].sum(0) - bits(model, "the river bank")[1:3].sum(0),
        bits(model, "a unheard the")[2:3].sum(0) - bits(model, "the")[:1].sum(0),
        bits(model, "bank the").sum(0) - bits(model, "the bank").sum(0),
        bits(model, "the river")[1] - bits(model, "the bank")[1],
    ]
    rows = table(tmp_path / "out.tsv")
    written = [[float(row["forward"]), float(row["backward"])] for row in rows]
    np.testing.assert_allclose(written, expected, atol=1e-4)
    assert written[1][1] == pytest.approx(0, abs=1e-4)  # backward reads no prefix
    assert [row["in_vocabulary"] for row in rows] == ["1"] * 4  # the prefix is not scored


def test_a_prefix_is_tokenised_together_with_the_sentence(tmp_path):
    """As in a region, a token belongs to the text in which it begins."""
    pair = {"prefix": " He met Mr. ", "sentence_good": "Smith.", "sentence_bad": "Smiths ."}
    (tmp_path / "p.jsonl").write_text(json.dumps(pair), encoding="utf-8")
    ((_, good, bad),) = read(tmp_path / "p.jsonl", lang="en")
    assert good == (["He", "met", "Mr.", "Smith", "."], 3, 5)
    assert bad == (["He", "met", "Mr.", "Smiths", "."], 3, 5)
    chinese = {"prefix": "他昨天", "sentence_good": "参加了会议", "sentence_bad": "会议参加了"}
    (tmp_path / "p.jsonl").write_text(json.dumps(chinese, ensure_ascii=False), encoding="utf-8")
    ((_, good, _),) = read(tmp_path / "p.jsonl", lang="characters")
    assert "".join(good.tokens[good.begin : good.stop]) == "参加了会议"


def test_scores_are_divided_by_a_power_of_the_length(model, tmp_path, capsys):
    """The length is the number of surprisals: words and end, or words of the continuation."""
    pairs = [
        {"sentence_good": "the river bank", "sentence_bad": "the bank"},
        {"sentence_good": "river bank the", "sentence_bad": "bank", "prefix": "the"},
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")
    output = tmp_path / "out.tsv"
    flags = ["--output", output, "--length_power", "0", "1", "0.5", "1"]
    run(model, "--pairs", tmp_path / "p.jsonl", *flags)
    good = [bits(model, "the river bank"), bits(model, "the river bank the")[1:4]]
    bad = [bits(model, "the bank"), bits(model, "the bank")[1:2]]
    for power, suffix in ((0, ""), (1, "_power_1"), (0.5, "_power_0.5")):
        expected = [
            worse.sum(0) / len(worse) ** power - better.sum(0) / len(better) ** power
            for better, worse in zip(good, bad, strict=True)
        ]
        written = [
            [float(row[f"{direction}{suffix}"]) for direction in ("forward", "backward", "both")]
            for row in table(output)
        ]
        np.testing.assert_allclose(written, [[*pair, pair.sum()] for pair in expected], atol=1e-4)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in printed] == [
        "sum",
        "all",
        "mean per word",
        "all",
        "sum / words^0.5",
        "all",
    ]
    with pytest.raises(SystemExit):
        run(model, "--pairs", tmp_path / "p.jsonl", "--length_power", "-1")


def test_an_empty_file_has_no_pairs(tmp_path):
    (tmp_path / "pairs.jsonl").touch()
    with pytest.raises(UserError, match=r"pairs.jsonl is empty"):
        read(tmp_path / "pairs.jsonl")


def test_blank_lines_between_pairs_are_counted(tmp_path, caplog):
    lines = [json.dumps(PAIRS[0]), "", json.dumps(PAIRS[1]), " ", ""]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = read(tmp_path / "p.jsonl")
    assert [pair.fields for pair in found] == PAIRS[:2] and "2 blank lines" in caplog.text
    (tmp_path / "p.txt").write_text("a\tb\n\nb\ta\n", encoding="utf-8")
    assert len(read(tmp_path / "p.txt")) == 2 and "1 blank line:" in caplog.text


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
    with pytest.raises(UserError, match=r"p.jsonl:1: .* no UID"):
        run(model, "--pairs", tmp_path / "p.jsonl", "--groups", "UID")
