"""Regions: sums of surprisal over their words, baselines, mistakes in their files."""

import csv
import io

import numpy as np
import pytest
import tiny
from experiment_runs import bits, run

from elmo import UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.kneser_ney import KneserNey
from elmo_core.text.speller import UnknownWords
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.experiments.regions import Baselines, read_items

REGIONS = """item\tcondition\tregion\twords\tmore
1\ta\t1\tthe river\tx
1\ta\t2\tunheard\tx
1\ta\t2\tbank\tx
1\ta\t\ta river\tx
1\tb\t1\t""\"the\"""\tx
2\tb\t1\tbank\tx
"""


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
    expected = [
        sentence[:2].sum(0),
        sentence[2:4].sum(0),
        bits(model, '"the"')[0],
        bits(model, "bank")[0],
    ]
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
    flags = (
        "--regions",
        tmp_path / "items.tsv",
        "--baselines",
        tmp_path / "corpus",
        "--output",
        tmp_path / "out.tsv",
    )
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


def test_the_ngrams_spell_unknown_words_too(tmp_path):
    (tmp_path / "corpus").write_text("the river unheard\n" * 3, encoding="utf-8")
    vocabulary = Vocabulary(tiny.WORDS, unknown_words=UnknownWords({"unheard": 3}, 3))
    corpus = Corpus(tmp_path / "corpus")
    words = ["the", "unheard", "of"]
    closed = Baselines(corpus, vocabulary)(words)
    in_nats = Baselines(corpus, vocabulary, is_open=True, unit="nats")(words)
    np.testing.assert_array_equal(in_nats[:, 0], closed[:, 0])
    expected = closed[:, 1] * np.log(2)
    expected[1] += vocabulary.speller.surprisals(["unheard"])[0]
    np.testing.assert_allclose(in_nats[:, 1], expected)


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
