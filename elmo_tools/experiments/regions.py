"""Regions: the surprisal of parts of an experiment's sentences.

Baselines for it are word frequencies and n-grams of a corpus.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.encoding.surprisal import UNITS, Surprisals
from elmo_core.messages import UserError
from elmo_core.text.characters import BOS, EOS
from elmo_core.text.corpus import Corpus, read_ids
from elmo_core.text.kneser_ney import KneserNey
from elmo_core.text.offsets import token_offsets
from elmo_core.text.text_files import read_lines, read_sentences
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.vocabulary import UNK_ID, Vocabulary

COLUMNS = ("item", "condition", "region", "words")
BASELINES = ["log_frequency", "kneser_ney"]
ORDER = 5  # of the n-grams


class Region(NamedTuple):
    """Words of a sentence as given, and the positions of their tokens."""

    words: str
    positions: list[int]


class Item(NamedTuple):
    """A sentence. regions: by name; the one named "" is not reported."""

    item: str
    condition: str
    tokens: list[str]
    regions: dict[str, Region]


class _Row(NamedTuple):
    """A row of the table, see COLUMNS."""

    item: str
    condition: str
    region: str
    words: str


def read_items(path: Path, make_tokeniser: Callable[[list[str]], Tokeniser]) -> list[Item]:
    """Read sentences from a table of item, condition, region, by number or name, and words.

    The condition may be missing. Successive rows of an item and condition are a sentence, and all
    of a region among them are this region. make_tokeniser: of the sentences.
    """
    groups = groupby(_read_rows(path), key=lambda row: (row.item, row.condition))
    sentences = [list(rows) for _, rows in groups]
    tokenise = make_tokeniser([_text(rows) for rows in sentences])
    items = [_item(rows, tokenise) for rows in sentences]
    counts = Counter((item.item, item.condition) for item in items)
    for names, n in counts.items():
        if n > 1:
            raise UserError(
                f"{path}: item, condition {names} is in {n} places. Put its rows together."
            )
    return items


def _read_rows(path: Path) -> list[_Row]:
    """Read the rows that are not blank."""
    lines = (f"{line}\n" for line in read_lines(path))
    table = csv.DictReader(lines, delimiter="\t", strict=True)
    try:
        table.fieldnames = [name.strip().lower() for name in table.fieldnames or ()]
        missing = set(COLUMNS) - {"condition"} - set(table.fieldnames)
        if missing:
            raise csv.Error(f"no column {', '.join(sorted(missing))}")
        rows = [_checked_row(record) for record in table if any(record.values())]
        if not rows:
            raise csv.Error("no rows")
    except csv.Error as error:
        wanted = f"a header of {', '.join(COLUMNS)}, tabs between, quotation marks as in CSV"
        raise UserError(f"{path}:{table.reader.line_num}: {error}. Expected {wanted}.") from error
    return rows


def _checked_row(record: dict[str, str]) -> _Row:
    """Check a row of the table, as `csv.DictReader` reads it."""
    cells = [record.get(column, "") for column in COLUMNS]
    # A row that is too long has the key None, and one that is too short the value None.
    is_valid = None not in record and all(cell is not None and "\n" not in cell for cell in cells)
    if not is_valid:
        raise csv.Error(f"found {list(record.values())}")
    return _Row._make(cell.strip() for cell in cells)


def _text(rows: Sequence[_Row]) -> str:
    return " ".join(row.words for row in rows)


def _item(rows: Sequence[_Row], tokenise: Tokeniser) -> Item:
    """Tokenise a sentence, and add up the rows of each region."""
    tokens, positions_of_rows = tokenise_parts([row.words for row in rows], tokenise)
    regions: dict[str, Region] = {}
    for row, positions in zip(rows, positions_of_rows, strict=True):
        before = regions.get(row.region, Region("", []))
        words = f"{before.words} {row.words}".strip()
        regions[row.region] = Region(words, before.positions + positions)
    item = rows[0].item
    condition = rows[0].condition
    for name, region in regions.items():
        if name and not region.positions:
            raise UserError(
                f"item {item!r}, condition {condition!r}: region {name!r} has no words. "
                "Leave it out."
            )
    return Item(item, condition, tokens, regions)


def tokenise_parts(parts: Sequence[str], tokenise: Tokeniser) -> tuple[list[str], list[list[int]]]:
    """Tokenise a sentence as a whole, and give each token to the part in which it begins.

    Returns the tokens, and of each part the positions of its tokens.
    """
    text = " ".join(parts)
    tokens = tokenise(text)
    begins = token_offsets(tokens, text)[:, 0]
    ends = np.cumsum([len(part) + 1 for part in parts])  # each with the space after it
    part_of = np.searchsorted(ends, begins, side="right")
    positions = [np.flatnonzero(part_of == number).tolist() for number in range(len(parts))]
    return tokens, positions


class Baselines:
    """Log frequency of words in a corpus, to base 2, and their surprisal under its 5-grams.

    is_open: unknown words are spelled, by the vocabulary's speller. unit: of the surprisal, see
    UNITS.
    """

    def __init__(
        self, corpus: Corpus, vocabulary: Vocabulary, is_open: bool = False, unit: str = "bits"
    ):
        corpus.count(vocabulary)  # raises if it has no words
        self.counts: Counter[str] = Counter()
        for path in corpus.paths:
            for words in read_sentences(path):
                self.counts.update(words)
        self.total = self.counts.total()
        self.vocabulary = vocabulary
        self.is_open = is_open
        self.unit = unit
        self.ngrams = KneserNey(read_ids(corpus, vocabulary), len(vocabulary), ORDER)

    def __call__(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the values (n, 2) of n words.

        Each is counted once more than it occurs, so that new words have a logarithm.
        """
        frequencies = np.array([self.counts[token] + 1 for token in tokens]) / self.total
        ids = self.vocabulary.ids([BOS, *tokens, EOS])
        surprisals = -np.log(self.ngrams.probabilities([ids])[:-1])  # without that of </S>
        unknown = np.flatnonzero(ids[1:-1] == UNK_ID)
        if self.is_open and len(unknown):
            surprisals[unknown] += self.vocabulary.speller.surprisals([tokens[k] for k in unknown])
        return np.stack([np.log2(frequencies), surprisals / UNITS[self.unit]], axis=1)


def region_rows(
    items: Sequence[Item], surprisals: Iterable[Surprisals], baselines: Baselines | None = None
) -> Iterator[list[str | int]]:
    """Yield a header, and for each region its sums over its words."""
    header = [*COLUMNS, "forward", "backward", "unknown"]
    yield header + BASELINES if baselines else header
    for item, records in zip(items, surprisals, strict=True):
        values = baselines(item.tokens) if baselines else None
        for name, region in item.regions.items():
            if not name:
                continue
            part = Surprisals(records[k] for k in region.positions)
            forward, backward = part.total()
            unknown = sum(not record.in_vocabulary for record in part)
            row = [
                item.item,
                item.condition,
                name,
                region.words,
                f"{forward:.6f}",
                f"{backward:.6f}",
                unknown,
            ]
            if values is not None:
                sums = values[region.positions].sum(axis=0)
                row.extend(f"{x:.6f}" for x in sums)
            yield row
