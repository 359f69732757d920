"""Minimal pairs and regions: against the surprisal of the words; mistakes in their files."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
import tiny

import run_eval
from elmo import ELMoEmbedder, UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import Vocabulary
from experiments.kneser_ney import KneserNey
from experiments.pairs import preferences, read_pairs
from experiments.regions import Baselines, read_items

PAIRS = [
    {"sentence_good": "the bank", "sentence_bad": "bank the", "kind": "order", "n": 1},
    {"sentence_good": "a river", "sentence_bad": "unheard river", "kind": "word", "n": 1},
    {"sentence_good": "the river bank", "sentence_bad": "river the bank", "kind": "order", "n": 2, "more": "x"},
]
REGIONS = """item\tcondition\tregion\twords\tmore
1\ta\t1\tthe river\tx
1\ta\t2\tunheard\tx
1\ta\t2\tbank\tx
1\ta\t\ta river\tx
1\tb\t1\t""\"the\"""\tx
2\tb\t1\tbank\tx
"""


def run(model, *flags) -> None:
    run_eval.main([f"--init_from_ckpt={model}", "--device=cpu", *map(str, flags)])


def bits(model, sentence: str) -> np.ndarray:
    """Surprisal of the words and the end (n + 1, 2)."""
    (records,) = ELMoEmbedder(model, device="cpu").surprisal([sentence.split()])
    return np.array([record[1:3] for record in records])


# Pairs


def test_compare_is_the_difference_of_the_surprisals(model):
    good, bad = [["the", "bank"], ["a", "river"]], [["bank", "the"], ["unheard"]]
    found = ELMoEmbedder(model, batch_size=2, device="cpu").compare(good, bad)
    for comparison, better, worse in zip(found, good, bad, strict=True):
        forward, backward = bits(model, " ".join(worse)).sum(axis=0) - bits(model, " ".join(better)).sum(axis=0)
        assert comparison[:3] == pytest.approx((forward, backward, forward + backward), abs=1e-4)
    assert [comparison.in_vocabulary for comparison in found] == [True, False]
    with pytest.raises(UserError, match="2 good and 1 bad"):
        ELMoEmbedder(model, device="cpu").compare(good, bad[:1])
    with pytest.raises(UserError, match="carry_state"):
        ELMoEmbedder(model, carry_state=True, device="cpu").compare(good, bad)


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.tsv"])
def test_pairs_are_counted_in_total_and_by_group(model, tmp_path, capsys, name):
    columns = ["sentence_bad\tsentence_good"] + [f'"{pair["sentence_bad"]}"\t{pair["sentence_good"]}' for pair in PAIRS]
    lines = columns if name == "pairs.tsv" else map(json.dumps, PAIRS)
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    groups = [] if name == "pairs.tsv" else ["--groups", "kind", "n", "kind"]
    run(model, "--pairs", tmp_path / name, "--output", tmp_path / "out.tsv", *groups)
    expected = np.array([bits(model, p["sentence_bad"]).sum(0) - bits(model, p["sentence_good"]).sum(0) for p in PAIRS])
    with (tmp_path / "out.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row.get("more") for row in rows] == ([None] * 3 if name == "pairs.tsv" else ["", "", "x"])
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
        numbers = [len(members), *100 * preferred[members].mean(axis=0), len(known), *100 * np.array(shares)]
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


@pytest.mark.parametrize(("good", "bad"), [("The bank.", "Bank the."), ("这条河很长很长", "这条河很很长长")])
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


# Regions


def test_regions_are_sums_over_their_words(model, tmp_path, capsys):
    (tmp_path / "items.tsv").write_text(REGIONS, encoding="utf-8")
    run(model, "--regions", tmp_path / "items.tsv")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out), delimiter="\t"))
    assert rows[0] == ["item", "condition", "region", "words", "forward", "backward", "unknown"]
    assert [row[:4] for row in rows[1:]] == [
        ["1", "a", "1", "the river"],
        ["1", "a", "2", "unheard bank"],
        ["1", "b", "1", '"the"'],
        ["2", "b", "1", "bank"],
    ]
    assert [row[6] for row in rows[1:]] == ["0", "1", "1", "0"]
    sentence = bits(model, "the river unheard bank a river")
    expected = [sentence[:2].sum(0), sentence[2:4].sum(0), bits(model, '"the"')[0], bits(model, "bank")[0]]
    np.testing.assert_allclose(np.array([row[4:6] for row in rows[1:]], float), expected, atol=1e-4)


def test_regions_are_parts_of_the_sentence(tmp_path):
    rows = ["item\tRegion\twords", "1\t0\tHe met Mr.", "1 \t1\tSmith", "1\t0\tin Rome.", "\t\t"]
    (tmp_path / "items.tsv").write_text("\n".join(rows), encoding="utf-8")
    (item,) = read_items(tmp_path / "items.tsv", lambda texts: Tokeniser("en"))
    assert item.tokens == ["He", "met", "Mr.", "Smith", "in", "Rome", "."]
    assert item.regions == {"0": ("He met Mr. in Rome.", [0, 1, 2, 4, 5, 6]), "1": ("Smith", [3])}


def test_baselines_are_frequencies_and_ngrams_of_the_corpus(model, tmp_path):
    (tmp_path / "items.tsv").write_text(REGIONS, encoding="utf-8")
    text = [["the", "river"], ["the", "river", "bank"], ["unheard", "bank"], ["a", "river"]] * 3
    (tmp_path / "corpus").write_text("\n".join(map(" ".join, text)), encoding="utf-8")
    flags = "--regions", tmp_path / "items.tsv", "--baselines", tmp_path / "corpus", "--output", tmp_path / "out.tsv"
    run(model, *flags)
    with pytest.raises(UserError, match=r"--output .* another flag"):
        run(model, *flags[:-1], tmp_path / "corpus")
    (tmp_path / "blank").write_text("\n\n", encoding="utf-8")
    with pytest.raises(UserError, match="blank"):
        run(model, "--regions", tmp_path / "items.tsv", "--baselines", tmp_path / "blank")
    with pytest.raises(UserError, match="nofile: there is no such file"):
        run(model, "--pairs=nofile")
    with (tmp_path / "out.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = np.array([[float(row["log_frequency"]), float(row["kneser_ney"])] for row in rows])
    vocabulary = Vocabulary(tiny.WORDS)
    ids = [vocabulary.ids(["<S>", *sentence, "</S>"]) for sentence in text]
    ngrams = KneserNey(ids, len(vocabulary), 5)

    def surprisal(*words: str) -> np.ndarray:
        return -np.log2(ngrams.probabilities([vocabulary.ids(["<S>", *words, "</S>"])]))

    first = surprisal("the", "river", "unheard", "bank", "a", "river")
    expected = [first[:2].sum(), first[2:4].sum(), surprisal('"the"')[0], surprisal("bank")[0]]
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-5)
    frequencies = [7 / 27 * 10 / 27, 4 / 27 * 7 / 27, 1 / 27, 7 / 27]
    np.testing.assert_allclose(found[:, 0], np.log2(frequencies), atol=1e-5)


def test_a_long_corpus_gives_each_word_its_own_baseline(tmp_path):
    (tmp_path / "corpus").write_text("the bank\n" * 50, encoding="utf-8")
    baselines = Baselines(Corpus(tmp_path / "corpus"), Vocabulary(tiny.WORDS))
    seen, unseen = baselines(["the", "bank"]), baselines(["river", "river"])
    assert seen.shape == unseen.shape == (2, 2)
    assert (seen[:, 0] > unseen[:, 0]).all() and (seen[:, 1] < unseen[:, 1]).all()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("item\tregion\n", "items.tsv:1.*words"),
        ("", "items.tsv.*item, region, words"),
        ("item\tregion\twords\n", "items.tsv:1: no rows"),
        ("item\tregion\twords\n1\t1\n", "items.tsv:2"),
        ("item\tregion\twords\n1\t1\tthe\tbank\n", "items.tsv:2"),
        ('item\tregion\twords\n1\t1\t"the\n', "items.tsv:"),
        ('item\tregion\twords\n1\t1\t"the\n1\t2\tbank\n1\t3\t"\n', "items.tsv:4"),
        ("item\tregion\twords\n1\t1\tthe\n2\t1\tthe\n1\t2\tbank\n", "2 places"),
        ("item\tregion\twords\n1\t1\tthe\n1\t2\t\n", "region '2' has no words"),
    ],
)
def test_mistakes_in_the_regions_are_named(tmp_path, text, word):
    (tmp_path / "items.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=word):
        read_items(tmp_path / "items.tsv", lambda texts: Tokeniser("none"))


@pytest.mark.parametrize(
    "flags",
    [
        "--dev_data_path=x --groups=a",
        "--pairs=x --baselines=y",
        "--dev_data_path=x --lang=en",
        "--regions=x --context=carry",
    ],
)
def test_a_flag_without_effect_is_an_error(capsys, flags):
    with pytest.raises(SystemExit):
        run_eval.parse(["--init_from_ckpt=en", *flags.split()])
    assert re.search(rf"{flags.split()[1].partition('=')[0]} has no effect without", capsys.readouterr().err)
