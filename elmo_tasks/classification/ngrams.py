"""N-grams of texts, weighted by tf-idf, which a linear classifier counts beside ELMo's vectors.
An exported classifier takes this module along: it needs only NumPy.

Of words: single ones, and pairs of neighbours. Of characters: in Chinese one to three neighbours,
in other languages two to five of a word with a space at either end. Case does not matter.

Letters: n texts, V n-grams.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from elmo_core.text.tokenise import CHINESE

MAX_NGRAMS = 200_000  # of each kind: the most frequent
MAX_WEIGHTS = 10_000_000  # of each kind: fewer n-grams if there are many labels
CHINESE_SIZES = (1, 2, 3)
OTHER_SIZES = (2, 3, 4, 5)


def words(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the words of a text, and the pairs of neighbours."""
    lowered = [token.lower() for token in tokens]
    yield from lowered
    for pair in pairwise(lowered):
        yield " ".join(pair)


def chinese_characters(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the n-grams of the characters of a text without spaces."""
    text = "".join(tokens).lower()
    for size in CHINESE_SIZES:
        for start in range(len(text) - size + 1):
            yield text[start : start + size]


def characters(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the n-grams of the characters of each word."""
    for token in tokens:
        yield from _of_word(token)


@lru_cache(maxsize=100_000)
def _of_word(token: str) -> list[str]:
    word = f" {token.lower()} "
    found = []
    for size in OTHER_SIZES:
        found += [word[start : start + size] for start in range(len(word) - size + 1)]
    return found


KINDS = {"words": ("words",), "characters": ("characters",), "both": ("words", "characters")}
Entry = tuple[str, str, int]  # a kind, an n-gram, and the number of texts that have it


def splitters(lang: str) -> dict[str, Callable[[Sequence[str]], Iterator[str]]]:
    """What yields the n-grams of a text, by their kind. lang: the language of the texts."""
    return {
        "words": words,
        "characters": chinese_characters if lang in CHINESE else characters,
    }


def count(texts: Sequence[Sequence[str]], kinds: str, lang: str, n_labels: int = 2) -> list[Entry]:
    """Count the n-grams of training texts, which are lists of tokens; the most frequent first.

    kinds: words, characters or both.
    """
    most = min(MAX_NGRAMS, MAX_WEIGHTS // n_labels)
    entries = []
    for kind in KINDS[kinds]:
        split = splitters(lang)[kind]
        counts: Counter[str] = Counter()
        for tokens in texts:
            counts.update(set(split(tokens)))
        names = sorted(counts, key=lambda name: (-counts[name], name))
        entries += [(kind, name, counts[name]) for name in names[:most]]
    return entries


def is_entry(value: Any) -> bool:
    """Whether this is an entry, as a tuple or a list."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        return False
    kind, name, n = value
    return kind in KINDS["both"] and isinstance(name, str) and type(n) is int and n >= 1


class TfIdf(NamedTuple):
    """The tf-idf of n texts, as `scipy.sparse.csr_matrix` takes it.

    values: float32, of all texts' n-grams, text by text. columns: the numbers of these n-grams.
    starts: where the values of each text begin, and where the last end (n + 1,).
    """

    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray


class NGrams:
    """Makes sparse vectors of texts.

    entries: the n-grams, as `count` returns them. n_texts: that they were counted in.
    lang: the language of the texts.
    """

    def __init__(self, entries: Sequence[Entry], n_texts: int, lang: str):
        frequencies = np.array([n for _, _, n in entries], np.float64)
        idf = np.log((1 + n_texts) / (1 + frequencies)) + 1
        self.idf = idf.astype(np.float32)  # (V,)
        split = splitters(lang)
        self.ids: dict[str, dict[str, int]] = {}
        for k, (kind, name, _) in enumerate(entries):
            self.ids.setdefault(kind, {})[name] = k
        self.split = {kind: split[kind] for kind in self.ids}

    def vectors(self, texts: Sequence[Sequence[str]]) -> TfIdf:
        """The vectors of texts. Each has length 1, to which all kinds contribute the same."""
        columns: list[int] = []
        counts: list[int] = []
        ends = [0]  # of each text's n-grams of each kind
        for tokens in texts:
            for kind, ids in self.ids.items():
                known = Counter(filter(ids.__contains__, self.split[kind](tokens)))
                columns += [ids[name] for name in known]
                counts += known.values()
                ends.append(len(columns))
        numbers = np.array(columns, np.int32)
        values = (1 + np.log(np.array(counts, np.float32))) * self.idf[numbers]
        sizes = np.diff(ends)
        parts = np.repeat(np.arange(len(sizes)), sizes)  # the text and kind of each value
        squares = np.bincount(parts, values**2, minlength=len(sizes))
        scales = 1 / np.sqrt(len(self.ids) * squares[parts])
        starts = np.array(ends[:: len(self.ids)], np.int32)
        return TfIdf(values * scales.astype(np.float32), numbers, starts)
