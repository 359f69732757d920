"""Kneser-Ney n-grams as their formula is written, one n-gram at a time: what
elmo_core/text/kneser_ney.py is tested against.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from elmo_core.text.kneser_ney import FALLBACK_DISCOUNTS

Gram = tuple[Hashable, ...]


def naive_discounts(counts: Sequence[int]) -> Sequence[float]:
    """The discounts of counts of 1, 2, and 3 or more."""
    n = Counter(counts)
    if not (n[1] and n[2] and n[3]):
        return FALLBACK_DISCOUNTS
    y = n[1] / (n[1] + 2 * n[2])
    discounts = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
    return discounts if min(discounts) > 0 else FALLBACK_DISCOUNTS


class NaiveKneserNey:
    """text: sentences of any values, each with a begin and an end."""

    def __init__(self, text: Sequence[Sequence[Hashable]], vocab_size: int, order: int):
        self.vocab_size = vocab_size
        self.order = order
        self.begin = text[0][0]
        self.probabilities: dict[Gram, float] = {}
        self.seen: Counter[Gram] = Counter()  # of all lengths, also one longer than the order
        for sentence in text:
            for last in range(1, len(sentence)):
                for first in range(max(0, last - order), last + 1):
                    self.seen[tuple(sentence[first : last + 1])] += 1
        self.preceding: dict[Gram, set] = defaultdict(set)
        for gram in self.seen:
            self.preceding[gram[1:]].add(gram[0])
        self.counts = {gram: self.count(gram) for gram in self.seen if len(gram) <= order}
        self.family: dict[Gram, list[Gram]] = defaultdict(list)  # by the words before the last
        for gram in self.counts:
            self.family[gram[:-1]].append(gram)
        self.discounts = {}
        for k in range(1, order + 1):
            counts = [count for gram, count in self.counts.items() if len(gram) == k]
            self.discounts[k] = naive_discounts(counts)

    def count(self, gram: Gram) -> int:
        if len(gram) == self.order or gram[0] == self.begin:
            return self.seen[gram]
        return len(self.preceding[gram])

    def discount(self, gram: Gram) -> float:
        return self.discounts[len(gram)][min(self.counts[gram], 3) - 1]

    def probability(self, word: Hashable, context: Gram) -> float:
        context = context[max(0, len(context) - self.order + 1) :]
        gram = (*context, word)
        if gram not in self.probabilities:
            self.probabilities[gram] = self._probability(word, context)
        return self.probabilities[gram]

    def _probability(self, word: Hashable, context: Gram) -> float:
        lower = self.probability(word, context[1:]) if context else 1 / self.vocab_size
        family = self.family.get(context)
        if not family:
            return lower
        total = sum(self.counts[gram] for gram in family)
        mass = sum(self.discount(gram) for gram in family)
        gram = (*context, word)
        kept = self.counts[gram] - self.discount(gram) if gram in self.counts else 0
        return kept / total + mass / total * lower
