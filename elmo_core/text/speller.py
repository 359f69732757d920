"""How words outside the vocabulary are spelled: the probability of each string of characters.

A language model predicts all unknown words as `<UNK>`. The speller shares this probability out:

    p(word | context) = p(<UNK> | context) * q(word)

    q(word) = (c(word) - D(c)) / T + (1 - sum of (c - D) / T) * r(word)

    r(word) = s(word) / (1 - s(empty) - sum of s(v) over the words v of the vocabulary)

c is the count of an unknown word in the model's corpus, T that of all of them, and D one of three
discounts, as of Kneser-Ney n-grams of words. They are estimated from the numbers of the rarest
words; where those are left out, they are fixed. s is the probability of a string under Kneser-Ney
n-grams of characters, which end with a marker. They have learnt from the unknown words that were
counted, from each once: the words to come are new ones, not the most frequent again. The n-grams'
recursion ends with an equal share for each character of Unicode that a word may have: no word is
impossible, and the q of all words outside the vocabulary sum to 1. NumPy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.text.kneser_ney import (
    FALLBACK_DISCOUNTS,
    KneserNey,
    discounts_of,
    estimated_discounts,
)

ORDER = 6
N_CHARACTERS = 0x110000 - 29  # of Unicode, without white space
# White space, as str.split() sees it: in no word.
BEGIN = "\x1e"
END = "\x1f"
WORDS_AT_ONCE = 20_000


@dataclass(frozen=True)
class UnknownWords:
    """Words that a corpus has outside a vocabulary.

    counts: of the most frequent ones. total: the sum of the counts of all.
    """

    counts: dict[str, int]
    total: int


class Speller:
    """The probabilities of words that are outside a vocabulary.

    known: words of a corpus, with their counts. others: more words, from which only spelling is
    learnt. vocabulary: the words that are never spelled. n_characters: how many different ones
    there are. order: of the n-grams.
    """

    def __init__(
        self,
        known: UnknownWords,
        vocabulary: Sequence[str],
        others: Sequence[str] = (),
        n_characters: int = N_CHARACTERS,
        order: int = ORDER,
    ):
        counts = np.array(list(known.counts.values()), np.int64)
        is_whole = counts.sum() == known.total
        by_count = estimated_discounts(counts) if is_whole else FALLBACK_DISCOUNTS
        discounts = discounts_of(counts, by_count)
        shares = (counts - discounts) / max(1, known.total)
        self.share_of = dict(zip(known.counts, shares.tolist(), strict=True))
        self.spelled_share = 1 - float(shares.sum())  # of all words, by the n-grams
        sequences = [character_ids(word) for word in [*known.counts, *others]]
        self.ngrams = KneserNey(sequences, vocab_size=n_characters + 1, order=order)
        excluded = np.exp(self._log_probabilities(["", *vocabulary])).sum()
        self.allowed = 1 - float(excluded)  # the sum of s over what may be spelled

    def surprisals(self, words: Sequence[str]) -> np.ndarray:
        """Return minus the logarithms (n,) of the q of words outside the vocabulary, in nats."""
        logarithms = self._log_probabilities(words) + np.log(self.spelled_share / self.allowed)
        shares = np.array([self.share_of.get(word, 0.0) for word in words])
        with np.errstate(divide="ignore"):  # the share of a new word is 0
            return -np.logaddexp(logarithms, np.log(shares))

    def _log_probabilities(self, words: Sequence[str]) -> np.ndarray:
        """Return the logarithms (n,) of the s of words."""
        parts = [np.zeros(0)]
        for begin in range(0, len(words), WORDS_AT_ONCE):
            sequences = [character_ids(word) for word in words[begin : begin + WORDS_AT_ONCE]]
            lengths = [len(sequence) - 1 for sequence in sequences]
            begins = np.cumsum(lengths) - lengths
            logarithms = np.log(self.ngrams.probabilities(sequences))
            parts.append(np.add.reduceat(logarithms, begins))
        return np.concatenate(parts)


def character_ids(word: str) -> np.ndarray:
    """Return the code points (n + 2,) of a word's characters, with a begin and an end."""
    text = BEGIN + word + END
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
