"""A word's occurrences in a corpus, with senses from a file."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from elmo_core.files.disk import check_input
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.text_files import read_lines, read_sentences
from elmo_core.text.vocabulary import SPECIAL_TOKENS

COLUMNS = ["file", "line", "token", "word", "sense"]
BACKGROUND = 20000  # sentences, sampled for the general frequency of words


class Location(NamedTuple):
    """Where a file of senses finds a word. line, position: from 0."""

    file: str
    line: int
    position: int  # of the token
    word: str


class Label(NamedTuple):
    """A sense, and the line of the file that gives it."""

    sense: str
    row: int


Senses = Mapping[Location, Label]


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
        for occurrence in self.occurrences:
            numbers.setdefault(occurrence.tokens, len(numbers))
        return np.array([numbers[occurrence.tokens] for occurrence in self.occurrences])

    @property
    def comparable(self) -> bool:
        """Whether an occurrence has one in another sentence to be compared with."""
        return len(set(self.sentences)) > 1

    @property
    def sample_size(self) -> int:
        """The size of the sample, with its duplicates."""
        return len(self.occurrences) + self.n_duplicates

    @property
    def is_sampled(self) -> bool:
        """Whether `occurrences` are fewer than there are."""
        return self.sample_size < self.n_eligible


class ReservoirSample:
    """A random sample of at most `size` of the added items, in their order."""

    def __init__(self, size: int, seed: int | str):
        self.size = size
        self.added = 0
        self._generator = random.Random(seed)
        self._items: list[tuple[int, object]] = []

    def add(self, item: object) -> None:
        """Take the item into the sample with probability size / n, if it is the n-th."""
        self.added += 1
        if len(self._items) < self.size:
            self._items.append((self.added, item))
            return
        replaced = int(self._generator.random() * self.added)
        if replaced < self.size:
            self._items[replaced] = (self.added, item)

    def items(self) -> list:
        """Return the sample."""
        in_order = sorted(self._items)  # no two numbers are equal
        return [item for _, item in in_order]


def read_senses(path: Path) -> Senses:
    """Read a tab-separated file with the header COLUMNS; line and token are counted from 0."""
    check_input(path, "a file with senses of occurrences")
    labels: dict[Location, Label] = {}
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if number == 1:
            if cells != COLUMNS:
                header = " ".join(COLUMNS)
                raise _unexpected(path, number, line, f"the header {header!r}")
            continue
        if not _is_row(cells):
            row = "a file's name, line and token (numbers from 0), a word and its sense"
            raise _unexpected(path, number, line, row)
        file, line_number, position, word, sense = cells
        location = Location(file, int(line_number), int(position), word)
        first = labels.setdefault(location, Label(sense, number))
        if sense != first.sense:
            raise UserError(
                f"{path}:{number}: the sense is {sense!r}, "
                f"but line {first.row} says {first.sense!r}. Remove one."
            )
    if not labels:
        raise UserError(f"{path} has no senses. Expected a header and one line per occurrence.")
    return labels


def _is_row(cells: Sequence[str]) -> bool:
    """Tell whether these can be the cells of a row: none is empty, and two are numbers."""
    if len(cells) != len(COLUMNS) or not all(cells):
        return False
    return all(cell.isdecimal() and len(cell) < 10 for cell in cells[1:3])


def _unexpected(path: Path, number: int, line: str, expected: str) -> UserError:
    return UserError(
        f"{path}:{number}: found {line!r:.100}, expected {expected}, separated by tabs."
    )


def find_words(
    corpus: Corpus,
    query_words: Sequence[str],
    path: Path | None,
    senses: Senses,
    max_occurrences: int,
    seed: int,
) -> tuple[dict[str, Word], list[list[str]]]:
    """Find the query words and the words with senses.

    path: of the file of the senses. max_occurrences: of a word with more, a random sample of this
    size is used. Returns the words by text, and a sample of the corpus's sentences.
    """
    not_found = _labels_in(corpus, path, senses)
    words_with_senses = {location.word for location in senses}
    texts = dict.fromkeys(chain(query_words, sorted(words_with_senses)))
    samples = {text: ReservoirSample(max_occurrences, f"{seed} {text}") for text in texts}
    background = ReservoirSample(BACKGROUND, seed)
    n_occurrences: Counter[str] = Counter()
    counts = Counts()
    progress = tqdm(
        _sentences(corpus), unit=" sentences", unit_scale=True, disable=None, leave=False
    )
    for file, line, tokens in progress:
        if not tokens:
            counts.blank_lines += 1
            continue
        counts.sentences += 1
        background.add(tokens)
        if samples.keys().isdisjoint(tokens):
            continue
        sentence = tuple(tokens)  # shared by its occurrences
        for position, token in enumerate(tokens):
            if token in samples:
                n_occurrences[token] += 1
                label = not_found.pop(Location(file.name, line, position, token), None)
                sense = label.sense if label else ""
                if sense or not senses:
                    samples[token].add(Occurrence(sentence, position, sense))
    corpus.check("the corpus", counts)
    if not_found:
        location, label = next(iter(not_found.items()))
        raise UserError(
            f"{path}:{label.row}: token {location.position} of line {location.line} "
            f"of {location.file} is not {location.word!r}. Another corpus?"
        )
    words = {text: _word(text, n_occurrences[text], sample) for text, sample in samples.items()}
    for text in query_words:
        _check(words[text], bool(senses))
    return words, background.items()


def _sentences(corpus: Corpus) -> Iterator[tuple[Path, int, list[str]]]:
    """Yield the file, the line (from 0) and the tokens of each line."""
    for file in corpus.paths:
        for line, tokens in enumerate(read_sentences(file)):
            yield file, line, tokens


def _word(text: str, count: int, sample: ReservoirSample) -> Word:
    """Make a word of its sample, without duplicates."""
    sampled = sample.items()
    distinct: dict[tuple[tuple[str, ...], int], Occurrence] = {}
    for occurrence in sampled:
        distinct.setdefault((occurrence.tokens, occurrence.position), occurrence)
    return Word(
        text=text,
        count=count,
        n_eligible=sample.added,
        occurrences=list(distinct.values()),
        n_duplicates=len(sampled) - len(distinct),
    )


def _check(word: Word, has_senses: bool) -> None:
    """Raise a UserError if the word's occurrences cannot be compared."""
    if not word.count:
        raise UserError(
            f"{word.text!r} is not in the corpus. Is it a single token there, in the same case?"
        )
    if word.comparable:
        return
    found = "has a sense" if has_senses else "occurs"
    problem = f"{word.text!r} {found} in fewer than two different sentences"
    if word.is_sampled:
        raise UserError(
            f"{problem} of its sample of {word.sample_size}. Use a larger --max_occurrences."
        )
    raise UserError(f"{problem}. Use more text.")


def _labels_in(corpus: Corpus, path: Path | None, senses: Senses) -> dict[Location, Label]:
    """Return the senses in files of the corpus.

    Warns about the others, and raises a UserError if there are only others.
    """
    n_files = Counter(file.name for file in corpus.paths)
    for location in senses:
        n = n_files[location.file]
        if n > 1:
            raise UserError(f"{path}: the corpus has {n} files named {location.file}. Rename them.")
    labels = {location: label for location, label in senses.items() if location.file in n_files}
    if senses and not labels:
        files = join_names(sorted({location.file for location in senses}), 5)
        corpus_files = join_names(list(n_files), 5)
        raise UserError(f"{path} is about {files}. The corpus has {corpus_files}.")
    n_ignored = len(senses) - len(labels)
    if n_ignored:
        ignored = f"{format_count(n_ignored, 'occurrences')} of {len(senses):,}"
        log.warning(f"{path}: ignoring {ignored}, in files that are not in the corpus.")
    return labels


def is_word(token: str) -> bool:
    """Tell whether a token has a letter or a digit, and is not special, as `<S>` is."""
    has_letter = any(character.isalnum() for character in token)
    return has_letter and token not in SPECIAL_TOKENS
