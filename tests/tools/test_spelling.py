"""A text's perplexity in an open vocabulary, and its bits per character and per byte."""

import math

import pytest

from elmo_core.text.speller import UnknownWords
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tools.pretraining.perplexity import Score
from elmo_tools.pretraining.spelling import Spelling

SENTENCES = [["the", "长城", "is", "long"], ["长城", "!"], ["the"]]
KNOWN = ["the", "is"]


@pytest.fixture
def spelling():
    unknown_words = UnknownWords({"长城": 3, "wall": 1}, total=6)
    vocabulary = Vocabulary(SPECIAL_TOKENS + KNOWN, unknown_words=unknown_words)
    return Spelling(vocabulary).add_all(SENTENCES)


def test_each_unknown_word_adds_what_its_spelling_takes(spelling):
    unknown = ["长城", "long", "长城", "!"]
    nats = sum(spelling.vocabulary.speller.surprisals(unknown))
    assert spelling.nats() == pytest.approx(nats, rel=1e-12)
    in_open = spelling.open_score(Score(-10.0, -20.0, 10))
    assert in_open.forward == pytest.approx(math.exp((10 + nats) / 10))
    assert in_open.backward == pytest.approx(math.exp((20 + nats) / 10))
    closed = spelling.closed_score(in_open)
    assert (closed.forward_sum, closed.backward_sum) == pytest.approx((-10, -20))


def test_bits_are_of_the_text_without_white_space(spelling):
    n_characters = len("the长城islong长城!the")
    n_bytes = n_characters + 2 * len("长城长城")  # three bytes each
    log_probability = -7 * math.log(2)
    assert spelling.bits_per_character(log_probability) == pytest.approx(7 / n_characters)
    assert spelling.bits_per_byte(log_probability) == pytest.approx(7 / n_bytes)


def test_for_known_words_no_speller_is_learnt(spelling):
    known = Spelling(spelling.vocabulary).add_all([KNOWN])
    assert known.nats() == 0
    assert "speller" not in vars(spelling.vocabulary)
