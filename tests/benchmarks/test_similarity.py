"""similarity.py: agreement of cosines with judgments, over pairs of which it is known."""

import random
import sys
from pathlib import Path

import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import similarity

from elmo_core.messages import UserError

WORDS = ["the", "bank", "of", "river", "a"]


def save(path: Path, graded: bool) -> Path:
    """Pairs of which the second texts are those of the first, changed as far as the scores say."""
    generator = random.Random(1)
    lines = []
    for number in range(40):
        words = generator.choices(WORDS, k=6)
        n_changed = number % 5 if graded else 5 * (number % 2)
        changed = ["xyz"] * n_changed + words[n_changed:]
        score = 5 - n_changed if graded else int(n_changed == 0)
        lines.append(f"{' '.join(words)}\t{score}\t{' '.join(changed)}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("graded", [True, False])
def test_cosines_agree_where_words_are_changed(model, tmp_path, capsys, graded):
    path = save(tmp_path / "pairs.tsv", graded)
    vectors = tmp_path / "vectors.txt"
    lines = [f"{word} {k} {k * k + 1}" for k, word in enumerate(["xyz", *WORDS])]
    vectors.write_text("6 2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    similarity.main([f"--test={path}", f"--elmo={model}", f"--word_vectors={vectors}"])
    title, *rows = capsys.readouterr().out.splitlines()
    assert "40 pairs" in title and ("Spearman" in title) == graded
    values = {row[:34].strip(): float(row.split()[-1].rstrip("%")) for row in rows}
    assert len(values) == 6
    assert values["TF-IDF of words"] > 90 and values["ELMoVectorizer"] > 60


def test_vectors_are_fitted_on_the_other_file(model, tmp_path, capsys):
    test = save(tmp_path / "test.tsv", graded=True)
    train = tmp_path / "train.tsv"
    train.write_text("the bank\t1\ta bank\nthe river\t2\tbank\n" * 20, encoding="utf-8")
    tables = []
    for options in ([], [f"--train={train}"]):
        similarity.main([f"--test={test}", f"--elmo={model}", *options])
        tables.append(capsys.readouterr().out.splitlines())
    assert tables[0][0] == tables[1][0] and tables[0] != tables[1]
    assert tables[0][3] == tables[1][3]  # ELMo's mean, which is fitted on nothing


@pytest.mark.parametrize("line", ["a b", "a\tb\tc", "a\tnan\tc"])
def test_lines_that_are_no_pairs_are_named(tmp_path, line):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\t1\tb\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match="tsv:2"):
        similarity.read_pairs(path)


def test_equal_scores_are_an_error(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\t1\tb\nc\t1\td\n", encoding="utf-8")
    with pytest.raises(UserError, match="1 score"):
        similarity.read_pairs(path)
