"""Perplexity of a text in rows: exact against the reference."""

from dataclasses import astuple
from types import SimpleNamespace

import numpy as np
import pytest
import reference
import tiny
from stream_reference import KINDS, log_probabilities, log_probability, steps, write_text

from elmo import BiLM
from elmo_core.text.corpus import Corpus
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining import perplexity, streams


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of two files, and all of their lines."""
    folder = tmp_path_factory.mktemp("text")
    return folder, write_text(folder / "0.txt", 47, seed=1) + write_text(
        folder / "1.txt", 22, seed=2
    )


def log_probability_in_rows(
    weights, sentences, n_rows: int, direction: str, part: int, warm_up: int
) -> float:
    """Sum over all predictions.

    Rows take parts of the text in turn, and read the last steps before each without scoring them.
    """
    parts = [[]]
    for sentence in sentences:
        if len(steps(parts[-1], direction)) >= part:
            parts.append([])
        parts[-1].append(sentence)
    read = [steps(part, direction) for part in parts]
    total = 0.0
    for row in range(n_rows):
        inputs = []
        scored = []
        for k in range(row, len(parts), n_rows):
            before = read[k - 1][-warm_up:] if k else []
            inputs += before + read[k]
            scored += [0.0] * len(before) + [1.0] * len(read[k])
        total += log_probabilities(weights, direction, inputs) @ scored if inputs else 0.0
    return total


def log_probability_sums(
    bilm: BiLM, corpus: Corpus, rows: int, unroll_steps: int = 20
) -> list[float]:
    """Forward and backward, of all predictions; and their number in each direction."""
    stream = streams.EvalStream(
        corpus, Vocabulary(tiny.WORDS), rows, unroll_steps, bilm.config.input
    )
    score = perplexity.evaluate(bilm, stream, Ranks())
    return [score.forward_sum, score.backward_sum, score.predictions]


# the last case has more rows than parts
@pytest.mark.parametrize(("rows", "unroll_steps"), [(2, 7), (3, 4), (40, 50)])
def test_rows_take_parts_in_turn_and_read_what_is_before_them(
    text, monkeypatch, rows, unroll_steps
):
    monkeypatch.setattr(streams, "PART", 30)
    monkeypatch.setattr(streams, "WARM_UP", 13)
    folder, lines = text
    bilm = tiny.random_bilm("float64", **KINDS["word"])
    weights = tiny.reference_of(bilm)
    sentences = [line for line in lines if line]
    expected = [
        log_probability_in_rows(weights, sentences, rows, direction, part=30, warm_up=13)
        for direction in reference.DIRECTIONS
    ]
    expected.append(sum(len(sentence) + 1 for sentence in sentences))
    sums = log_probability_sums(bilm, Corpus(folder), rows, unroll_steps)
    assert sums == pytest.approx(expected, rel=1e-10)


def test_each_rank_takes_its_share_of_the_rows(text, monkeypatch):
    monkeypatch.setattr(streams, "PART", 30)
    bilm = tiny.random_bilm(input="word")
    stream = streams.EvalStream(Corpus(text[0]), Vocabulary(tiny.WORDS), 3, 7, "word")
    ranks = [
        SimpleNamespace(rank=rank, size=2, run_on_all=lambda work: [work()]) for rank in range(2)
    ]
    first, second = (perplexity.evaluate(bilm, stream, rank) for rank in ranks)
    whole = perplexity.evaluate(bilm, stream, Ranks())
    assert first.predictions > second.predictions > 0
    assert astuple(first + second) == pytest.approx(astuple(whole), rel=1e-5)


def test_one_row_is_exact_and_all_others_equal_it(tmp_path):
    """In af63d6e every row began in the zero state: 32 rows differed by 2e-3 here."""
    sentences = list(filter(None, write_text(tmp_path / "text", 1500, seed=3)))
    bilm, corpus = tiny.random_bilm(input="word"), Corpus(tmp_path / "text")
    predictions = sum(len(sentence) + 1 for sentence in sentences)
    weights = tiny.reference_of(bilm)
    expected = [
        log_probability(weights, direction, sentences) for direction in reference.DIRECTIONS
    ]
    expected.append(predictions)
    one = np.array(log_probability_sums(bilm, corpus, 1)) / predictions
    np.testing.assert_allclose(one, np.array(expected) / predictions, rtol=0, atol=1e-5)
    for rows in (2, 32, 128):
        others = np.array(log_probability_sums(bilm, corpus, rows)) / predictions
        np.testing.assert_allclose(others, one, rtol=0, atol=1e-4)
