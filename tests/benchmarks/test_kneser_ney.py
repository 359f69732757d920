"""Kneser-Ney n-grams: they equal the formula and score the same predictions as run_eval.py."""

import random
import re
from collections import Counter

import numpy as np
import pytest
import runs
from naive_kneser_ney import NaiveKneserNey

from elmo_core.text.corpus import Corpus, read_ids
from elmo_core.text.kneser_ney import KneserNey
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.pretraining import streams

WORDS = 9  # ids 0 and 1 are the markers, 8 is never seen


def sentences(n: int, seed: int) -> list[list[int]]:
    """Sentences with frequent and rare words, some of them repeated."""
    generator = random.Random(seed)
    return [
        [0, *(2 + int(6 * generator.random() ** 2) for _ in range(generator.randrange(6))), 1]
        for _ in range(n)
    ]


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 9])
def test_equals_the_formula_taken_word_by_word(order, direction):
    text, held_out = ([s[::direction] for s in sentences(60, seed)] for seed in (1, 2))
    held_out.append([held_out[0][0], 8, 2, 8, 8, held_out[0][-1]])
    model, naive = KneserNey(text, WORDS, order), NaiveKneserNey(text, WORDS, order)
    for level, expected in zip(model.levels, naive.discounts.values(), strict=order < 9):
        assert level.discounts == pytest.approx(expected)
    expected = [naive.probability(s[i], tuple(s[:i])) for s in held_out for i in range(1, len(s))]
    np.testing.assert_allclose(model.probabilities(held_out), expected, rtol=1e-12)
    assert model.perplexity(held_out) == pytest.approx(np.exp(-np.mean(np.log(expected))))


def test_scores_the_predictions_of_run_eval(tmp_path):
    corpus = runs.write_corpus(tmp_path)
    with (corpus / "dev.txt").open("a", encoding="utf-8") as file:
        file.write("\nunknown to the vocabulary\n")
    vocabulary, dev = Vocabulary.from_file(corpus / "vocab.txt"), Corpus(corpus / "dev.txt")
    rows = read_ids(dev, vocabulary)
    targets = {"forward": Counter(), "backward": Counter()}
    for batch in streams.EvalStream(dev, vocabulary, 3, 7):
        for row, n in enumerate(batch.lengths):
            targets["forward"].update(batch.forward_target[row, :n].tolist())
            targets["backward"].update(batch.backward_target[row, :n].tolist())
    assert Counter(word for row in rows for word in row[1:].tolist()) == targets["forward"]
    assert Counter(word for row in rows for word in row[:-1].tolist()) == targets["backward"]
    assert (
        len(KneserNey(rows, len(vocabulary), 3).probabilities(rows))
        == dev.count(vocabulary).predictions
    )


def test_the_command_prints_both_directions(tmp_path):
    """The sample's figures equal those in data/README.md, which another program computed."""
    argv = [
        f"--train_data_path={runs.PROJECT}/data/train/*",
        f"--dev_data_path={runs.PROJECT}/data/dev",
    ]
    argv += [
        f"--vocab_file={runs.PROJECT}/data/vocabulary.txt",
        "--orders",
        "2",
        "3",
        "--discount=0.75",
    ]
    assert runs.start("benchmarks/kneser_ney.py", argv, tmp_path / "output").wait(timeout=60) == 0
    output = (tmp_path / "output").read_text(encoding="utf-8")
    assert {"35,660", "3,000", "38,660"} <= set(output.split())
    figures = re.findall(r"^(\d)-gram +([\d.]+) +([\d.]+)", output, re.M)
    assert figures == [("2", "11.15", "11.15"), ("3", "5.18", "5.17")]
