"""Labelled texts and text pairs from user files, and their tokenisation.

A file has records, see elmo_tasks/records.py, of a text, its label and, for a pair, a second text. JSON keys or a header may
name them as one of LAYOUTS; columns without a header are in the order of the first. Others have to be named. Texts to
predict may be bare lines.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

import elmo_tasks.records as records
from elmo_core.checks import check_pair, check_texts
from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text import text_files
from elmo_core.text.language import make_tokeniser
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import digest
from elmo_tasks.classification.scores import CLASSES

PAIRS = (("text", "label", "text2"), ("text_a", "label", "text_b"), ("sentence1", "label", "sentence2"))
LAYOUTS = (*PAIRS, *(layout[:2] for layout in PAIRS), ("sentence", "label"))
LINES_PER_GROUP = 4096
MAX_CLASSES = 50  # more labels, and more than half as many as texts: probably the wrong column
EXPECTED = "texts with labels, as TSV, CSV or JSON"
_warn_once = cache(log.warning)
Labelled = Path | str | tuple[Sequence, Sequence]  # a file, or texts and labels


@dataclass(frozen=True)
class Example:
    """A label with its text, or with the two texts of a pair."""

    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Given:
    """Examples that were passed as an argument, and its name, where other functions take a file."""

    name: str
    examples: list[Example]

    def __str__(self) -> str:
        return f"`{self.name}`"


def load_texts(source: Labelled, name: str) -> Path | Given:
    """A file, or the examples that texts and their labels are. name: of the argument, used in error messages."""
    if isinstance(source, Path | str):
        return Path(source)
    texts, labels = check_pair(source, name)
    is_pair = not isinstance(texts[0], str)
    check_texts(texts, ("text", "text2") if is_pair else ("text",))
    pairs = [tuple(" ".join(part.split()) for part in (text if is_pair else (text,))) for text in texts]
    return Given(name, [Example(str(label), text) for label, text in zip(labels, pairs, strict=True)])


@dataclass
class Texts:
    """n labelled texts, or pairs of texts.

    texts: as in the files; a pair is two, separated by a tab.
    sentences: the tokens of each text; for pairs those of all first texts, then those of all second ones.
    labels: (n,) indices of classes.
    tokeniser: by which.
    unit: what the texts are called.
    n_dev, n_test: how many texts at the end come from the dev file and, behind those, from the test file.
    """

    texts: list[str]
    sentences: list[list[str]]
    labels: np.ndarray
    classes: Sequence[str] = CLASSES
    tokeniser: Tokeniser = field(default_factory=lambda: Tokeniser("none"))
    unit: str = "reviews"
    n_dev: int = 0
    n_test: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def n_train(self) -> int:
        return len(self) - self.n_dev - self.n_test

    @property
    def are_pairs(self) -> bool:
        return len(self.sentences) > len(self.texts)

    def sentences_of(self, indices: Sequence[int]) -> list[list[str]]:
        """The tokens of some of the texts; for pairs, those of the second texts follow."""
        rows = [*indices, *(k + len(self) for k in indices if self.are_pairs)]
        return [self.sentences[k] for k in rows]

    @cached_property
    def identity(self) -> str:
        """Identifies the texts by content, order and labels, however they are tokenised."""
        return f"{len(self):,} {self.unit} (SHA-1 {digest(self.texts, self.labels.astype(np.int64))[:12]})"


# Files


def read_texts(
    train: Path,
    dev: Path | None,
    test: Path | None,
    columns: Sequence[str] | None,
    lang: str,
    max_tokens: int,
    words: Sequence[str] = (),
    user_dict: Path | str | Sequence[str] | None = None,
) -> Texts:
    """Read all files. The classes are the labels of the training file. columns: see `read_file`; others: see there."""
    examples = read_file(train, columns)
    classes, pairs = _classes(train, examples, bool(columns) or isinstance(train, Given)), len(examples[0].texts) == 2
    if isinstance(dev, Path) and isinstance(test, Path) and dev.samefile(test):
        log.warning(f"{test} is both `dev` and `test`: test scores will be optimistic.")
    dev, test = (read_known(path, columns, classes, pairs) if path else [] for path in (dev, test))
    tokeniser = make_tokeniser(lang, chain.from_iterable(example.texts for example in examples), words, user_dict)
    data = as_texts([*examples, *dev, *test], classes, tokeniser, max_tokens, train)
    data.n_dev, data.n_test = len(dev), len(test)
    counts = np.bincount(data.labels)
    log.info(f"classes       {join_names([f'{name} {n:,}' for name, n in zip(classes, counts, strict=True)])}")
    return data


def _classes(path: Path, examples: Sequence[Example], has_columns: bool) -> list[str]:
    """The labels of the training file. Raise if they look like texts or like a header."""
    counts, first = Counter(example.label for example in examples), examples[0]
    if len(counts) < 2:
        raise UserError(f"{path}: all texts have the label {first.label!r:.60}. Expected two labels or more.")
    if len(counts) > max(MAX_CLASSES, len(examples) / 2):
        raise UserError(
            f"{path}: {len(counts):,} labels for {len(examples):,} texts, as {first.label!r:.60}. Is this the text column? "
            "Set `columns=TEXT,LABEL`."
        )
    if not has_columns and counts[first.label] == 1 and not any(" " in text for text in first.texts):
        raise UserError(
            f"{path}: its first text, {first.texts[0]!r:.60}, is the only one with the label {first.label!r:.60}. If this "
            "line names the columns, set `columns=TEXT,LABEL` to their names; else correct the label or remove the text."
        )
    return sorted(counts)


def read_known(
    path: Path, columns: Sequence[str] | None, classes: Sequence[str], pairs: bool, usual: Sequence[str] = ()
) -> list[Example]:
    """Read a file whose labels must be among the classes."""
    examples = read_file(path, columns, usual)
    if unknown := sorted({example.label for example in examples}.difference(classes)):
        names = join_names([f"{name:.30}" for name in unknown], 3)
        raise UserError(f"{path}: the label {names} does not occur in training. `columns` says which column it is.")
    if (len(examples[0].texts) == 2) != pairs:
        raise UserError(f"{path} has {'single texts' if pairs else 'pairs of texts'}, unlike the training file.")
    return examples


def as_texts(
    examples: Sequence[Example], classes: Sequence[str], tokeniser: Tokeniser, max_tokens: int, source: Path
) -> Texts:
    """Tokenise examples. source: their file, used in error messages."""
    sides = list(zip(*(example.texts for example in examples), strict=True))
    sentences = tokenise_texts(list(chain.from_iterable(sides)), tokeniser, max_tokens, source)
    index = {name: k for k, name in enumerate(classes)}
    labels = np.array([index[example.label] for example in examples])
    texts = ["\t".join(example.texts) for example in examples]
    return Texts(texts, sentences, labels, classes, tokeniser, "pairs" if len(sides) > 1 else "texts")


def read_file(path: Path, columns: Sequence[str] | None = None, usual: Sequence[str] = ()) -> list[Example]:
    """Read the labelled texts of a file.

    columns: those of text, label and second text: JSON keys, names in a header, or numbers from 0 without a header. usual:
    columns that are tried first if these are not given.
    """
    if isinstance(path, Given):
        return path.examples
    disk.check_input(path, EXPECTED)
    rows = records.read_records(records.Lines(text_files.line_groups(path)), path, records.find_format)
    rows = records.name_columns(rows, lambda row: bool(_find_columns(row, columns, usual)))
    rows = [(where, record) for where, record in rows if record != ""]
    if not rows:
        raise UserError(f"{path}: found no texts, at most a header. Expected {EXPECTED}.")
    first = rows[0][1]
    names = _find_columns(first, columns, usual) if isinstance(first, dict) else []
    if not names and not columns and len(first) in (2, 3) and "0" in first:
        names = list(first)
    if not names:
        raise UserError(
            f"{path}: found {_shown_columns(first)}, expected {' and '.join(columns or ('text', 'label'))}, as JSON or in "
            "columns separated by tabs or, in CSV, by commas or semicolons. Name other columns: `columns=TEXT,LABEL` or, "
            "for pairs, `columns=TEXT,LABEL,TEXT2`."
        )
    examples = []
    for where, record in rows:
        text, label, *text2 = _fields(record, names, where)
        if not label:
            raise UserError(f"{where}: the label is empty.")
        examples.append(Example(label, (text, *text2)))
    return examples


def iter_texts(
    groups: Iterable[Iterable[str]],
    source: str | Path,
    classes: Sequence[str],
    pairs: bool,
    columns: Sequence[str] | None = None,
    usual: Sequence[str] = (),
) -> Iterator[list[tuple[str, ...]]]:
    """Yield the texts to be classified in each group of lines: one, or two for pairs, per record; () for a blank line.

    The first record shows whether these are bare texts, pairs separated by tabs, or labelled texts, whose labels are not
    read. columns, usual: see `read_file`.
    """
    lines, names = records.Lines(groups), None
    finder = _TextColumns(source, classes, pairs, columns, usual)
    rows = records.read_records(lines, source, finder.recognise)
    for batch in lines.batches(records.name_columns(rows, lambda row: bool(finder.named(row)))):
        texts = []
        for where, record in batch:
            if record and names is None:
                names = finder.find(record, where)
            texts.append(() if record == "" else _fields(record, names, where) if names else (record.strip(),))
        yield texts


@dataclass
class _TextColumns:
    """Finds the columns of the texts in input to be classified, by its first record."""

    source: str | Path
    classes: Sequence[str]
    pairs: bool
    columns: Sequence[str] | None
    usual: Sequence[str]

    def find(self, record: str | dict, where: str) -> list[str]:
        """The columns of the texts; none if the record is a bare text. Log which are classified."""
        names = []
        if isinstance(record, dict):
            names = self.named(record) or ("0" in record and self.numbered(list(record.values()))) or []
        if not names and (self.pairs or self.columns or isinstance(record, dict)):
            expected = "two texts, separated by a tab or in columns text and text2" if self.pairs else "a column text"
            expected = f"the columns {join_names(self.columns)}" if self.columns else expected
            raise UserError(
                f"{where}: found {_shown_columns(record)}, expected {expected}. Other `columns` have to be named."
            )
        if names and len(record) > len(names):
            others = join_names([name for name in record if name not in names])
            log.info(
                f"{self.source}: columns {join_names(list(record))}. Classified: {' and '.join(names)}; ignored: {others}."
            )
        elif not names and "\t" in record:
            log.warning(
                f"{self.source}: lines have tabs and are classified whole. If these are columns, name them in a header."
            )
        return names

    def recognise(self, line: str) -> str:
        """The format of lines that begin with this one."""
        if records.is_json(line) or records.is_csv(self.source):
            return records.find_format(line, self.source)
        for delimiter, row in records.possible_columns(line):
            if self.named(row) or ((self.columns or delimiter == "\t") and self.numbered(row)):
                return delimiter
        return records.TEXT

    def named(self, header: Iterable[str]) -> list[str]:
        """The columns of the texts, by their names in a header."""
        return _find_columns(header, self.columns, self.usual, self.pairs)

    def numbered(self, row: Sequence[str]) -> list[str]:
        """The columns of the texts, by their numbers. That of the labels is one that holds a class, unless it is given."""
        numbers = list(map(str, range(len(row))))
        text, label, *text2 = self.columns or self.usual or ("", "")
        labels = [k for k in (label, "1", "0", "2") if k in numbers and row[int(k)] in self.classes]
        if {text, *text2} <= set(numbers) and (self.columns or labels[:1] == [label]):
            return [text, *text2]
        if self.columns or len(row) != 1 + self.pairs + bool(labels):
            return []
        return [number for number in numbers if number not in labels[:1]]


def _find_columns(
    header: Iterable[str], columns: Sequence[str] | None, usual: Sequence[str], pairs: bool | None = None
) -> list[str]:
    """The columns of text, label and, for pairs, second text; [] if some are missing. pairs: only those of the texts."""
    layouts = filter(None, [columns] if columns else [usual, *LAYOUTS])
    if pairs is not None:
        layouts = ([text, *text2][: 1 + pairs] for text, _, *text2 in layouts if len(text2) >= pairs)
    return next(filter(None, (records.find_columns(layout, header) for layout in layouts)), [])


def _shown_columns(record: dict | str) -> str:
    """The names of the columns or, without names, what they contain; or the text. For error messages."""
    if isinstance(record, str):
        return f"{record!r:.60}"
    return f"the columns {join_names([f'{name!s:.30}' for name in (record.values() if '0' in record else record)])}"


def _fields(record: dict[str, Any], names: Sequence[str], where: str) -> tuple[str, ...]:
    """The named values of a record."""
    for name in names:
        if not isinstance(record.get(name), str | int):
            raise UserError(f"{where}: {name} is not a string or an integer: found {record!r:.80}.")
    return tuple(" ".join(str(record[name]).split()) for name in names)


def read_lines(path: Path) -> Iterable[str]:
    """The lines of a file in UTF-8 or, like the sentence polarity dataset, in Latin-1."""
    disk.check_input(path, "one text per line")
    try:
        for _ in text_files.blocks(path):
            pass
    except text_files.NotUTF8 as error:
        if error.likely:
            raise
        return text_files.read_lines(path, encoding="latin-1")
    return text_files.read_lines(path)


def read_groups(path: Path) -> Iterator[list[str]]:
    """The same, in groups of LINES_PER_GROUP."""
    lines = iter(read_lines(path))
    return iter(lambda: list(islice(lines, LINES_PER_GROUP)), [])


# Tokens


def tokenise_texts(
    texts: Sequence[str], tokeniser: Tokeniser, max_tokens: int, source: str | Path = ""
) -> list[list[str]]:
    """The first tokens of each text. Logs how many texts are cut; without `source`, their file, only once."""
    sentences = list(map(tokeniser, texts))
    if long := sum(len(sentence) > max_tokens for sentence in sentences):
        if source:
            log.warning(
                f"{source}: {long:,} of {format_count(len(texts), 'texts')} cut after `max_seq_len`, {max_tokens} tokens."
            )
        else:
            _warn_once(
                f"Texts are cut after {max_tokens} tokens, the `max_seq_len` of the training. This is logged once."
            )
    return [sentence[:max_tokens] for sentence in sentences]
