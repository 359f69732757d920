"""Words outside a vocabulary are spelled: the formula, its sum, and unusual words."""

import itertools
import math
import pickle
import random

import numpy as np
import pytest
from naive_kneser_ney import NaiveKneserNey, naive_discounts
from shards import MARKERS

from elmo_core.text import speller as speller_module
from elmo_core.text.kneser_ney import FALLBACK_DISCOUNTS
from elmo_core.text.speller import N_CHARACTERS, ORDER, Speller, UnknownWords
from elmo_core.text.vocabulary import UNK, Vocabulary

BEGIN = "begin"
END = "end"

TOY = "abc"  # an alphabet whose last letter is in no word that is learnt
LONGEST = 7
TOY_COUNTS = {"abab": 9, "ab": 5, "bb": 3, "a": 2, "bab": 2, "aabbaab": 1, "babababab": 1, "b": 1}

COUNTS = {
    "misspelled": 7,
    "unspelled": 4,
    "respelt": 3,
    "语言学": 3,
    "Zürich": 2,
    "😀": 2,
    "spelled-out": 1,
    "语言学家": 1,
    "1,234.5": 1,
    "na\u00efve": 1,
    "e\u0301": 1,
}
VOCABULARY = ["<S>", "</S>", "the", "spelled", "语言", "is", "."]
OTHERS = ["the", "spelled", "spelling"]
NEW = [
    "unspellable",
    "语言家",
    "q",
    "😀😀",
    "ZÜRICH",
    "\u0e01",
    "the语",
    "\ud800",
    "\U0010ffff",
    "\x00",
    "re\x00",
    "<UNK>",
]


class NaiveSpeller:
    """The formula as it is written, one character at a time."""

    def __init__(
        self, known: UnknownWords, vocabulary: list[str], others: list[str], n_characters: int
    ):
        self.known = known
        words = [*known.counts, *others]
        self.ngrams = NaiveKneserNey(
            [[BEGIN, *word, END] for word in words], vocab_size=n_characters + 1, order=ORDER
        )
        self.allowed = 1 - sum(self.spelled(word) for word in ["", *vocabulary])
        counts = list(known.counts.values())
        is_whole = sum(counts) == known.total
        self.discounts = naive_discounts(counts) if is_whole else FALLBACK_DISCOUNTS
        self.rest = 1 - sum(self.share(word) for word in known.counts)

    def share(self, word: str) -> float:
        count = self.known.counts.get(word, 0)
        return (count - self.discounts[min(count, 3) - 1]) / self.known.total if count else 0

    def begins(self, word: str) -> float:
        """The probability, by the characters, of all strings that begin with the word."""
        symbols = (BEGIN, *word)
        return math.prod(
            self.ngrams.probability(symbols[k], symbols[:k]) for k in range(1, len(symbols))
        )

    def spelled(self, word: str) -> float:
        return self.begins(word) * self.ngrams.probability(END, (BEGIN, *word))

    def longer(self, word: str) -> float:
        """The probability, by the characters, of all longer strings that begin with the word."""
        return self.begins(word) - self.spelled(word)

    def probability(self, word: str) -> float:
        return self.share(word) + self.rest * self.spelled(word) / self.allowed


def toy_strings(length: int) -> list[str]:
    return ["".join(letters) for letters in itertools.product(TOY, repeat=length)]


def known_words(total: int | None = None) -> UnknownWords:
    return UnknownWords(COUNTS, total or sum(COUNTS.values()))


def speller() -> Speller:
    return Speller(known_words(total=40), VOCABULARY, OTHERS)


@pytest.mark.parametrize(
    ("counts", "rare", "vocabulary", "others"),
    [
        (TOY_COUNTS, 10, ["aa", "abc", "bbb", "ccc"], []),
        (TOY_COUNTS, 0, [], ["ba", "cab"]),
        ({}, 0, ["ab", "ba"], ["ab", "ba"]),
        ({"ab": 1}, 0, ["a"], []),
        ({"abcab": 2}, 7, toy_strings(1) + toy_strings(2) + toy_strings(3), []),
    ],
    ids=["some", "no vocabulary", "no known words", "one word", "all short words"],
)
def test_the_words_outside_the_vocabulary_sum_to_one(counts, rare, vocabulary, others):
    """rare: tokens of the corpus whose words are not among the counted ones."""
    known = UnknownWords(counts, sum(counts.values()) + rare)
    tested = Speller(known, vocabulary, others, n_characters=len(TOY))
    naive = NaiveSpeller(known, vocabulary, others, n_characters=len(TOY))
    words = []
    for length in range(1, LONGEST + 1):
        words += [word for word in toy_strings(length) if word not in vocabulary]
    spelled_longer = sum(naive.longer(word) for word in toy_strings(LONGEST))
    longer = naive.rest * spelled_longer / naive.allowed
    longer += sum(naive.share(word) for word in counts if len(word) > LONGEST)
    assert 1e-5 < longer < 0.5
    assert np.exp(-tested.surprisals(words)).sum() == pytest.approx(1 - longer, abs=1e-9)


@pytest.mark.parametrize("total", [None, 40], ids=["all words", "the rarest are left out"])
def test_equals_the_formula_taken_character_by_character(total):
    naive = NaiveSpeller(known_words(total), VOCABULARY, OTHERS, N_CHARACTERS)
    assert (naive.discounts == FALLBACK_DISCOUNTS) == bool(total)
    words = [*COUNTS, *NEW]
    expected = [-math.log(naive.probability(word)) for word in words]
    tested = Speller(known_words(total), VOCABULARY, OTHERS)
    np.testing.assert_allclose(tested.surprisals(words), expected, rtol=1e-12)


def test_each_character_that_a_word_may_have_is_counted():
    is_space = [chr(code_point).isspace() for code_point in range(0x110000)]
    assert is_space.count(False) == N_CHARACTERS


def test_a_word_has_the_same_surprisal_in_any_batch(monkeypatch):
    generator = random.Random(1)
    words = [*COUNTS, *NEW]
    for length in range(1, 60):
        words.append("".join(generator.choices("spelingu语言学", k=length)))
    tested = speller()
    together = tested.surprisals(words).tolist()
    assert [tested.surprisals([word]).item() for word in words] == together
    assert tested.surprisals(words[::-1]).tolist() == together[::-1]
    assert tested.surprisals([]).tolist() == []
    monkeypatch.setattr(speller_module, "WORDS_AT_ONCE", 7)
    assert tested.surprisals(words).tolist() == together
    assert pickle.loads(pickle.dumps(tested)).surprisals(words).tolist() == together


@pytest.mark.parametrize(
    "word",
    [
        "a",
        "\x00",
        "\x01",
        "\ud800",
        "\udfff\ud800",
        "\U0010ffff",
        "👩‍👩‍👧",
        "a b",
        "\u3000",
        "",
        *MARKERS,
    ],
    ids=ascii,
)
def test_no_word_is_impossible(word):
    for word_or_long_one in (word, word * 10_000):
        (surprisal,) = speller().surprisals([word_or_long_one])
        assert 0 < surprisal < math.inf


def test_few_words_to_learn_from():
    rows = [*MARKERS, "the", "them", "than"]
    vocabulary = Vocabulary(rows)
    assert not vocabulary.has_speller
    none_known = Vocabulary(rows, unknown_words=UnknownWords({}, 0))
    surprisals = none_known.speller.surprisals(["then", "xjqz", UNK])
    assert np.isfinite(surprisals).all()
    assert surprisals[0] < surprisals[1] / 3  # the vocabulary's words are learnt from
    one_known = Vocabulary(rows, unknown_words=UnknownWords({"xjqz": 1}, 1))
    copy = pickle.loads(pickle.dumps(one_known))
    assert copy.speller.surprisals(["xjqz"]) < 2 < surprisals[1]
