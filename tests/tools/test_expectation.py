"""The perplexity to expect: between that of unigrams and bigrams, or beyond, by the training."""

import dataclasses
import re

import pytest

from elmo_tools.pretraining import expectation
from elmo_tools.pretraining.baseline import Baseline
from elmo_tools.pretraining.expectation import Expectation, Training, expected_perplexity

BIGRAMS = Baseline(
    order=2,
    unigrams=800.0,
    perplexity=200.0,
    halved=240.0,
    sample=500_000,
    tokens=500_000,
)
TRAINING = Training(steps=1000, tokens=500_000, projection_dim=128)


def expected(bigrams=BIGRAMS, **changes) -> Expectation | None:
    return expected_perplexity(dataclasses.replace(TRAINING, **changes), bigrams)


def test_a_share_of_0_is_the_unigrams_and_of_1_the_bigrams(monkeypatch):
    monkeypatch.setattr(expectation, "COEFFICIENTS", (1e-9, 0, 0, 0))
    assert expected().perplexity == pytest.approx(800)
    monkeypatch.setattr(expectation, "COEFFICIENTS", (1, 0, 0, 0))
    assert expected().perplexity == pytest.approx(200)
    monkeypatch.setattr(expectation, "COEFFICIENTS", (1.5, 0, 0, 0))
    assert expected().perplexity == pytest.approx(100)


def test_more_training_and_larger_models_are_better():
    assert expected(steps=2000).perplexity < expected().perplexity
    assert expected(projection_dim=256).perplexity < expected().perplexity


def test_nothing_is_said_of_a_run_that_does_not_reach_the_unigrams():
    assert expected(steps=10) is None


def test_more_text_is_the_next_round_number_with_as_many_epochs():
    more = expected()
    assert more.more_tokens == 1_000_000
    as_many_epochs = expected(tokens=1_000_000, steps=2000)
    assert more.of_more == pytest.approx(as_many_epochs.perplexity)
    assert more.of_more < more.perplexity
    assert expected(tokens=600_000).more_tokens == 3_000_000


def test_the_line_has_the_bounds_with_two_digits():
    line = Expectation(
        low=1499.0, perplexity=1700.0, high=1951.0, more_tokens=10_000_000, of_more=3.14159
    ).text()
    assert re.search(r"\b1,500\b.*\b2,000\b.*\b10,000,000 tokens\b.*\b3\.1$", line)
