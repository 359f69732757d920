"""Regions: the surprisal of parts of an experiment's sentences; word frequencies and n-grams of a corpus."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.messages import UserError
from elmo_core.network.surprisal import Surprisals
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_lines, read_sentences
from elmo_core.text.tokens import BOS, EOS, Vocabulary
from experiments.kneser_ney import KneserNey, read_ids

COLUMNS = "item", "condition", "region", "words"
BASELINES = "log_frequency", "kneser_ney"
ORDER = 5  # of the n-grams


class Region(NamedTuple):
    """A part of a sentence. region: its number or name; "" if its words are read, but not reported."""

    item: str
    condition: str
    region: str
    words: str
    tokens: list[str]


def read_regions(path: Path, tokenise: Callable[[str], list[str]]) -> list[list[Region]]:
    """Read the regions of each sentence from a table of item, condition (may be missing), region and words.

    Successive rows of an item and condition are a sentence, and those of a region among them are this region.
    """
    table, rows = csv.DictReader(read_lines(path), delimiter="\t", strict=True), []
    try:
        if missing := {*COLUMNS} - {"condition", *(table.fieldnames or ())}:
            raise csv.Error(f"no column {', '.join(sorted(missing))}")
        for row in table:
            rows.append([row.get(name, "") for name in COLUMNS])
            if None in rows[-1]:
                raise csv.Error(f"found {rows[-1]}")
    except csv.Error as error:
        wanted = f"a header of {', '.join(COLUMNS)}, tabs between, quotation marks as in CSV"
        raise UserError(f"{path}:{table.line_num}: {error}. Expected {wanted}.") from error
    regions = []
    for names, parts in groupby(rows, lambda row: row[:3]):
        words = " ".join(row[3] for row in parts)
        regions.append(Region(*names, words, tokenise(words)))
    sentences = [list(sentence) for _, sentence in groupby(regions, lambda region: region[:2])]
    for names, n in Counter(sentence[0][:2] for sentence in sentences).items():
        if n > 1:
            raise UserError(f"{path}: item, condition {names} is in {n} places. Put its rows together.")
    return sentences


class Baselines:
    """Log frequency of words in a corpus, and their surprisal under its 5-grams, forward, in bits."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary):
        self.counts = Counter(word for path in corpus.paths for words in read_sentences(path) for word in words)
        self.total, self.vocabulary = self.counts.total(), vocabulary
        self.ngrams = KneserNey(read_ids(corpus, vocabulary), len(vocabulary), ORDER)

    def __call__(self, tokens: Sequence[str]) -> np.ndarray:
        """The values (n, 2) of n words. Each is counted once more than it occurs, so that new words have a logarithm."""
        frequencies = np.array([self.counts[token] + 1 for token in tokens]) / self.total
        probabilities = self.ngrams.probabilities([self.vocabulary.ids([BOS, *tokens, EOS])])[:-1]
        return np.stack([np.log2(frequencies), -np.log2(probabilities)], axis=1)


def region_rows(
    sentences: Sequence[list[Region]], surprisals: Iterable[Surprisals], baselines: Baselines | None = None
) -> Iterator[list]:
    """Yield a header, and for each region its sums over its words."""
    yield [*COLUMNS, "forward", "backward", "unknown", *(BASELINES if baselines else ())]
    for regions, records in zip(sentences, surprisals, strict=True):
        tokens = list(chain.from_iterable(region.tokens for region in regions))
        values, end = baselines(tokens) if baselines else np.zeros((len(tokens), 0)), 0
        for region in regions:
            begin, end = end, end + len(region.tokens)
            part = Surprisals(records[begin:end])
            forward, backward, *others = [f"{x:.6f}" for x in (*part.total(), *values[begin:end].sum(axis=0))]
            unknown = sum(not record.in_vocabulary for record in part)
            if region.region:
                yield [*region[:4], forward, backward, unknown, *others]
