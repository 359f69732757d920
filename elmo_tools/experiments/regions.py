"""Regions: the surprisal of parts of an experiment's sentences; word frequencies and n-grams of a corpus."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.encoding.surprisal import Surprisals
from elmo_core.messages import UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.offsets import token_offsets
from elmo_core.text.text_files import read_lines, read_sentences
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import BOS, EOS
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.experiments.kneser_ney import KneserNey, read_ids

COLUMNS = "item", "condition", "region", "words"
BASELINES = "log_frequency", "kneser_ney"
ORDER = 5  # of the n-grams


class Item(NamedTuple):
    """A sentence. regions: of each name, its words as given and the positions of its tokens; "" is not reported."""

    item: str
    condition: str
    tokens: list[str]
    regions: dict[str, tuple[str, list[int]]]


def read_items(path: Path, make_tokeniser: Callable[[list[str]], Tokeniser]) -> list[Item]:
    """Read sentences from a table of item, condition (may be missing), region, by number or name, and words.

    Successive rows of an item and condition are a sentence, and all of a region among them are this region.
    make_tokeniser: of the sentences.
    """
    table, rows = (
        csv.DictReader((f"{line}\n" for line in read_lines(path)), delimiter="\t", strict=True),
        [],
    )
    try:
        table.fieldnames = [name.strip().lower() for name in table.fieldnames or ()]
        if missing := {*COLUMNS} - {"condition", *table.fieldnames}:
            raise csv.Error(f"no column {', '.join(sorted(missing))}")
        for row in filter(lambda row: any(row.values()), table):
            values = [row.get(name, "") for name in COLUMNS]
            if None in row or any(x is None or "\n" in x for x in values):
                raise csv.Error(f"found {list(row.values())}")
            rows.append([*map(str.strip, values)])
        if not rows:
            raise csv.Error("no rows")
    except csv.Error as error:
        wanted = f"a header of {', '.join(COLUMNS)}, tabs between, quotation marks as in CSV"
        raise UserError(f"{path}:{table.reader.line_num}: {error}. Expected {wanted}.") from error
    parts = [
        (names, [row[2:] for row in part]) for names, part in groupby(rows, lambda row: row[:2])
    ]
    tokenise = make_tokeniser([" ".join(words for _, words in part) for _, part in parts])
    items = [_item(*names, part, tokenise) for names, part in parts]
    for names, n in Counter(item[:2] for item in items).items():
        if n > 1:
            raise UserError(
                f"{path}: item, condition {names} is in {n} places. Put its rows together."
            )
    return items


def _item(item: str, condition: str, rows: Sequence[Sequence[str]], tokenise: Tokeniser) -> Item:
    text = " ".join(words for _, words in rows)
    tokens, ends = tokenise(text), np.cumsum([len(words) + 1 for _, words in rows])
    row_of, regions = np.searchsorted(ends, token_offsets(tokens, text)[:, 0], side="right"), {}
    for k, (name, words) in enumerate(rows):
        before, positions = regions.get(name, ("", []))
        regions[name] = (
            f"{before} {words}".strip(),
            positions + np.flatnonzero(row_of == k).tolist(),
        )
    if empty := [name for name, (_, positions) in regions.items() if name and not positions]:
        raise UserError(
            f"item {item!r}, condition {condition!r}: region {empty[0]!r} has no words. Leave it out."
        )
    return Item(item, condition, tokens, regions)


class Baselines:
    """Log frequency of words in a corpus, and their surprisal under its 5-grams, forward, in bits."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary):
        corpus.count(vocabulary)  # raises if it has no words
        self.counts = Counter(
            word for path in corpus.paths for words in read_sentences(path) for word in words
        )
        self.total, self.vocabulary = self.counts.total(), vocabulary
        self.ngrams = KneserNey(read_ids(corpus, vocabulary), len(vocabulary), ORDER)

    def __call__(self, tokens: Sequence[str]) -> np.ndarray:
        """The values (n, 2) of n words. Each is counted once more than it occurs, so that new words have a logarithm."""
        frequencies = np.array([self.counts[token] + 1 for token in tokens]) / self.total
        probabilities = self.ngrams.probabilities([self.vocabulary.ids([BOS, *tokens, EOS])])[:-1]
        return np.stack([np.log2(frequencies), -np.log2(probabilities)], axis=1)


def region_rows(
    items: Sequence[Item], surprisals: Iterable[Surprisals], baselines: Baselines | None = None
) -> Iterator[list]:
    """Yield a header, and for each region its sums over its words."""
    yield [*COLUMNS, "forward", "backward", "unknown", *(BASELINES if baselines else ())]
    for item, records in zip(items, surprisals, strict=True):
        values = baselines(item.tokens) if baselines else np.zeros((len(item.tokens), 0))
        for name, (words, positions) in item.regions.items():
            part = Surprisals(records[k] for k in positions)
            sums = [f"{x:.6f}" for x in (*part.total(), *values[positions].sum(axis=0))]
            unknown = sum(not record.in_vocabulary for record in part)
            if name:
                yield [item.item, item.condition, name, words, *sums[:2], unknown, *sums[2:]]
