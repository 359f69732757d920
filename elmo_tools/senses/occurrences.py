"""A word's occurrences in a corpus, with senses from a file."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from elmo_core.files.disk import check_input
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.text_files import read_lines, read_sentences
from elmo_core.text.vocabulary import SPECIAL_TOKENS

COLUMNS = ["file", "line", "token", "word", "sense"]
BACKGROUND = 20000  # sentences, sampled for the general frequency of words

Location = tuple[str, int, int, str]  # file name, line, token, word
Senses = Mapping[Location, tuple[str, int]]  # of a file, each with its line number


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence."""

    tokens: tuple[str, ...]
    position: int
    sense: str = ""

    @property
    def word(self) -> str:
        return self.tokens[self.position]


@dataclass
class Word:
    """A word's occurrences, without duplicates (the same position in equal sentences)."""

    text: str
    count: int  # in the corpus
    n_eligible: int  # with a sense, if senses are given; otherwise all
    occurrences: list[Occurrence]  # a sample of the eligible ones
    n_duplicates: int  # removed from the sample
    vectors: np.ndarray | None = None  # (layers, n, 2P), of length 1, filled in by `embed`

    @property
    def senses(self) -> np.ndarray:
        """The sense of each occurrence (n,)."""
        return np.array([occurrence.sense for occurrence in self.occurrences])

    @property
    def sentences(self) -> np.ndarray:
        """The id of each occurrence's sentence (n,), the same for equal sentences."""
        numbers: dict[tuple[str, ...], int] = {}
        return np.array(
            [numbers.setdefault(occurrence.tokens, len(numbers)) for occurrence in self.occurrences]
        )

    @property
    def comparable(self) -> bool:
        return len(set(self.sentences)) > 1

    @property
    def sample_size(self) -> int:
        return len(self.occurrences) + self.n_duplicates

    @property
    def is_sampled(self) -> bool:
        """Whether `occurrences` are fewer than there are."""
        return self.sample_size < self.n_eligible


class ReservoirSample:
    """A random sample of at most `size` of the added items, in their order."""

    def __init__(self, size: int, seed: int | str):
        self.size, self.added = size, 0
        self._generator = random.Random(seed)
        self._items: list[tuple[int, object]] = []

    def add(self, item: object) -> None:
        self.added += 1
        if len(self._items) < self.size:
            self._items.append((self.added, item))
        elif (k := int(self._generator.random() * self.added)) < self.size:
            self._items[k] = self.added, item

    def items(self) -> list:
        return [item for _, item in sorted(self._items)]  # no two numbers are equal


def read_senses(path: Path) -> Senses:
    """Read a tab-separated file with the header COLUMNS; line and token are counted from 0."""
    check_input(path, "a file with senses of occurrences")
    labels: dict[Location, tuple[str, int]] = {}
    for number, line in enumerate(read_lines(path), 1):
        row = line.split("\t")
        if number == 1 and row == COLUMNS:
            continue
        is_row = (
            len(row) == len(COLUMNS)
            and all(row)
            and all(x.isdecimal() and len(x) < 10 for x in row[1:3])
        )
        if number == 1 or not is_row:
            header = f"the header {' '.join(COLUMNS)!r}"
            expected = (
                header
                if number == 1
                else "a file's name, line and token (numbers from 0), a word and its sense"
            )
            raise UserError(
                f"{path}:{number}: found {line!r:.100}, expected {expected}, separated by tabs."
            )
        location = row[0], int(row[1]), int(row[2]), row[3]
        sense, earlier = labels.setdefault(location, (row[4], number))
        if sense != row[4]:
            raise UserError(
                f"{path}:{number}: the sense is {row[4]!r}, but line {earlier} says {sense!r}. Remove one."
            )
    if not labels:
        raise UserError(f"{path} has no senses. Expected a header and one line per occurrence.")
    return labels


def find_words(
    corpus: Corpus,
    query_words: Sequence[str],
    path: Path | None,
    senses: Senses,
    max_occurrences: int,
    seed: int,
) -> tuple[dict[str, Word], list[list[str]]]:
    """Find the query words and the words with senses. Returns them by text, and a sample of the corpus's sentences.

    path: of the file of the senses. max_occurrences: of a word with more, a random sample of this size is used.
    """
    labels = _labels_in(corpus, path, senses)  # not found yet
    texts = dict.fromkeys([*query_words, *sorted({word for *_, word in senses})])
    samples = {text: ReservoirSample(max_occurrences, f"{seed} {text}") for text in texts}
    background, counts, n_words = ReservoirSample(BACKGROUND, seed), Counts(), Counter()
    lines = (
        (file, line, tokens)
        for file in corpus.paths
        for line, tokens in enumerate(read_sentences(file))
    )
    for file, line, tokens in tqdm(
        lines, unit=" sentences", unit_scale=True, disable=None, leave=False
    ):
        counts.sentences += bool(tokens)
        counts.blank_lines += not tokens
        if tokens:
            background.add(tokens)
        if samples.keys().isdisjoint(tokens):
            continue
        sentence = tuple(tokens)  # shared by its occurrences
        for position, token in enumerate(tokens):
            if token in samples:
                n_words[token] += 1
                sense, _ = labels.pop((file.name, line, position, token), ("", 0))
                if sense or not senses:
                    samples[token].add(Occurrence(sentence, position, sense))
    corpus.check("the corpus", counts)
    for (name, line, position, word), (_, row) in labels.items():
        raise UserError(
            f"{path}:{row}: token {position} of line {line} of {name} is not {word!r}. Another corpus?"
        )
    words = {}
    for text, sample in samples.items():
        occurrences = sample.items()
        distinct: dict[tuple, Occurrence] = {}
        for occurrence in occurrences:
            distinct.setdefault((occurrence.tokens, occurrence.position), occurrence)
        kept = list(distinct.values())
        words[text] = Word(text, n_words[text], sample.added, kept, len(occurrences) - len(kept))
    for word in map(words.get, query_words):
        if not word.count:
            raise UserError(
                f"{word.text!r} is not in the corpus. Is it a single token there, in the same case?"
            )
        if not word.comparable:
            sense = "has a sense" if senses else "occurs"
            found = f"{word.text!r} {sense} in fewer than two different sentences"
            if word.is_sampled:
                raise UserError(
                    f"{found} of its sample of {word.sample_size}. Use a larger --max_occurrences."
                )
            raise UserError(f"{found}. Use more text.")
    return words, background.items()


def _labels_in(
    corpus: Corpus, path: Path | None, senses: Senses
) -> dict[Location, tuple[str, int]]:
    """The senses in files of the corpus. Warn about the others; raise if there are only others."""
    names = Counter(file.name for file in corpus.paths)
    if twice := [name for name, *_ in senses if names[name] > 1]:
        raise UserError(
            f"{path}: the corpus has {names[twice[0]]} files named {twice[0]}. Rename them."
        )
    labels = {location: sense for location, sense in senses.items() if location[0] in names}
    if senses and not labels:
        files = join_names(sorted({name for name, *_ in senses}), 5)
        raise UserError(f"{path} is about {files}. The corpus has {join_names(list(names), 5)}.")
    if n := len(senses) - len(labels):
        ignored = f"{format_count(n, 'occurrences')} of {len(senses):,}"
        log.warning(f"{path}: ignoring {ignored}, in files that are not in the corpus.")
    return labels


def is_word(token: str) -> bool:
    return token not in SPECIAL_TOKENS and any(map(str.isalnum, token))
