"""Labelled texts and text pairs from user files, and their tokenisation.

A file is TSV, without quotes, or JSON: an object per line, or an array of objects. Each line or object has a text, its label
and, for a pair, a second text. JSON keys or a header may name them as one of LAYOUTS; columns without a header are in the
order of the first. Others need --columns. Texts to predict may be bare lines.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, format_count, join_names, log
from elmo_core.text import text_files
from elmo_core.text.tokenise import TOKENISERS
from elmo_tasks.classification.scores import CLASSES

LAYOUTS = (
    ("text", "label", "text2"),
    ("text_a", "label", "text_b"),
    ("sentence1", "label", "sentence2"),
    ("sentence", "label"),
)
LINES_PER_GROUP = 4096
HAN = re.compile("[\u4e00-\u9fff]")
MAX_CLASSES = 50  # more labels, and more than half as many as texts: probably the wrong column
EXPECTED = "texts with labels, as TSV or JSON"


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


@dataclass
class Texts:
    """n labelled texts, or pairs of texts.

    texts: as in the files; a pair is two, separated by a tab.
    sentences: the tokens of each text; for pairs those of all first texts, then those of all second ones.
    labels: (n,) indices of classes.
    unit: what the texts are called.
    n_dev, n_test: how many texts at the end come from the dev file and, behind those, from the test file.
    """

    texts: list[str]
    sentences: list[list[str]]
    labels: np.ndarray
    classes: Sequence[str] = CLASSES
    unit: str = "reviews"
    n_dev: int = 0
    n_test: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def are_pairs(self) -> bool:
        return len(self.sentences) > len(self.texts)

    @cached_property
    def identity(self) -> str:
        """Identifies the texts by content, order and labels, however they are tokenised."""
        digest = hashlib.sha1("\n".join(self.texts).encode("utf-8"))
        digest.update(self.labels.astype(np.int8).tobytes())
        return f"{len(self):,} {self.unit} (SHA-1 {digest.hexdigest()[:12]})"


# Files


def read_texts(
    train: Path, dev: Path | None, test: Path | None, columns: Sequence[str] | None, lang: str, max_tokens: int
) -> Texts:
    """Read all files. The classes are the labels of the training file. columns: see `read_file`."""
    examples = read_file(train, columns)
    classes, pairs = _classes(train, examples, bool(columns) or isinstance(train, Given)), len(examples[0].texts) == 2
    if isinstance(dev, Path) and isinstance(test, Path) and dev.samefile(test):
        log.warning(f"{test} is both --dev_file and --test_file: test scores will be optimistic.")
    dev, test = (read_known(path, columns, classes, pairs) if path else [] for path in (dev, test))
    data = as_texts([*examples, *dev, *test], classes, lang, max_tokens, train)
    tokens = list(chain.from_iterable(data.sentences[:1000]))
    if lang == "en" and len(HAN.findall("".join(tokens))) > 3 * len(tokens):
        log.warning(f"{train}: this looks like Chinese, which --lang=en does not segment. Use --lang=zh.")
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
            "Set --columns=TEXT,LABEL."
        )
    if not has_columns and counts[first.label] == 1 and not any(" " in text for text in first.texts):
        raise UserError(
            f"{path}: its first text, {first.texts[0]!r:.60}, is the only one with the label {first.label!r:.60}. If this "
            "line names the columns, give --columns=TEXT,LABEL with their names; else correct the label or remove the text."
        )
    return sorted(counts)


def read_known(path: Path, columns: Sequence[str] | None, classes: Sequence[str], pairs: bool) -> list[Example]:
    """Read a file whose labels must be among the classes."""
    examples = read_file(path, columns)
    if unknown := sorted({example.label for example in examples}.difference(classes)):
        names = join_names([f"{name:.30}" for name in unknown], 3)
        raise UserError(f"{path}: the label {names} does not occur in training. --columns says which column it is.")
    if (len(examples[0].texts) == 2) != pairs:
        raise UserError(f"{path} has {'single texts' if pairs else 'pairs of texts'}, unlike the training file.")
    return examples


def as_texts(examples: Sequence[Example], classes: Sequence[str], lang: str, max_tokens: int, source: Path) -> Texts:
    """Tokenise examples. source: their file, for messages."""
    sides = list(zip(*(example.texts for example in examples), strict=True))
    sentences = tokenise_texts(list(chain.from_iterable(sides)), lang, max_tokens, source)
    index = {name: k for k, name in enumerate(classes)}
    labels = np.array([index[example.label] for example in examples])
    texts = ["\t".join(example.texts) for example in examples]
    return Texts(texts, sentences, labels, classes, unit="pairs" if len(sides) > 1 else "texts")


def read_file(path: Path, columns: Sequence[str] | None = None) -> list[Example]:
    """Read the labelled texts of a file.

    columns: those of text, label and second text: JSON keys, names in a header, or numbers from 0 without a header.
    """
    if isinstance(path, Given):
        return path.examples
    disk.check_input(path, EXPECTED)
    (rows,) = _row_groups([text_files.read_lines(path)], path)
    rows = [(where, row) for where, row in rows if row != ""]
    if not rows:
        raise UserError(f"{path}: it has no texts. Expected {EXPECTED}.")
    header, is_json = _header(rows[0][1]), isinstance(rows[0][1], dict)
    names = _resolve_columns(columns, header)
    if names and not is_json:
        rows = rows[1:]
    elif not is_json:  # without a header, columns have numbers
        header = [str(k) for k in range(len(header))]
        names = _resolve_columns(columns or header, header) if columns or len(header) in (2, 3) else []
    if not names:
        raise UserError(
            f"{path}: found the columns {join_names(header)}, expected {' and '.join(columns or ('text', 'label'))}. "
            "Columns are separated by tabs; --columns=TEXT,LABEL names them, or TEXT,LABEL,TEXT2 for pairs."
        )
    if not rows:
        raise UserError(f"{path}: there is nothing below the header. Expected {EXPECTED}.")
    examples = []
    for where, row in rows:
        text, label, *text2 = _fields(row, header, names, where)
        if not label:
            raise UserError(f"{where}: the label is empty.")
        examples.append(Example(label, (text, *text2)))
    return examples


def iter_texts(
    groups: Iterable[Iterable[str]], source: str | Path, classes: Sequence[str], pairs: bool
) -> Iterator[list[tuple[str, ...]]]:
    """Yield the texts to be classified in each group of lines: one, or two for pairs, per line; () for a blank line.

    The first line shows whether these are bare texts, pairs separated by tabs, or labelled texts, whose labels are ignored.
    """
    header: list[str] | None = None
    for rows in _row_groups(groups, source):
        texts = []
        for where, row in rows:
            if row == "":
                texts.append(())
                continue
            if header is None:
                header, names, has_header = _text_columns(row, classes, pairs)
                _check_text_columns(row, header, names, pairs, where, source)
                if has_header:
                    continue
            texts.append(_fields(row, header, names, where) if names else (row.strip(),))
        yield texts


def _check_text_columns(row: str | dict, header: list[str], names: list[str], pairs: bool, where: str, source) -> None:
    """Raise if the first row does not have the texts. Log which of its columns are classified."""
    if len(names) != 1 + pairs and (pairs or isinstance(row, dict)):
        expected = "two texts, separated by a tab or in columns text and text2" if pairs else "a column text"
        raise UserError(f"{where}: found {row!r:.60}, expected {expected}.")
    if len(header) > len(names) > 0:
        others = join_names([name for name in header if name not in names])
        log.info(f"{source}: columns {join_names(header)}. Classified: {' and '.join(names)}; ignored: {others}.")
    elif not names and len(header) > 1:
        log.warning(f"{source}: lines have tabs and are classified whole. If these are columns, name them in a header.")


def _row_groups(groups: Iterable[Iterable[str]], source: str | Path) -> Iterator[list[tuple[str, str | dict]]]:
    """Yield, for each group of lines, the lines, "" if they are blank, with their positions for messages.

    If the first line is JSON, yield the objects.
    """
    lines_of_groups, number, is_json = iter(groups), 0, None
    for group in lines_of_groups:
        rows, lines = [], iter(group)
        for line in lines:
            number += 1
            where = f"{source}:{number}"
            if not line.strip():
                rows.append((where, ""))
            elif is_json is None and text_files.JSON_ARRAY.match(line):
                text = "\n".join([line, *lines, *chain.from_iterable(lines_of_groups)])
                objects = text_files.parse_array(text, source)
                rows += ((f"{source}: object {k}", values) for k, values in enumerate(objects, 1))
            else:
                values = None if is_json is False else _json_object(line)
                if is_json and values is None:
                    raise UserError(f"{where}: found {line!r:.60}, expected a JSON object as in the first line.")
                is_json = values is not None
                rows.append((where, values if is_json else line))
        yield rows


def _header(row: str | dict) -> list[str]:
    """The JSON keys, or what would be the names of columns if the line is a header."""
    return list(row) if isinstance(row, dict) else [name.strip() for name in row.split("\t")]


def _resolve_columns(columns: Sequence[str] | None, header: Sequence[str]) -> list[str]:
    """The names of the columns of text, label and, for pairs, second text; [] if the header does not have them."""
    for layout in [columns] if columns else LAYOUTS:
        if set(columns or layout[:2]) <= set(header):
            return [name for name in layout if name in header]
    return []


def _array_rows(lines: Iterable[str], source: str | Path) -> list[tuple[str, dict]]:
    """The objects of a JSON array, each with its position for messages."""
    objects = text_files.parse_array("\n".join(lines), source)
    return [(f"{source}: object {number}", row) for number, row in enumerate(objects, 1)]


def _text_columns(row: str | dict, classes: Sequence[str], pairs: bool) -> tuple[list[str], list[str], bool]:
    """From the first row, all columns, those of the texts (none: each line is one text), and whether it is a header."""
    header, is_json = _header(row), isinstance(row, dict)
    for text, _, *text2 in LAYOUTS:
        names = [text, *text2][: 1 + pairs]
        if len(names) == 1 + pairs and set(names) <= set(header) and (is_json or len(header) > 1):
            return header, names, not is_json
    numbers = [str(k) for k in range(len(header))]
    label = next((numbers[k] for k in (1, 0) if header[k] in classes), None) if len(header) == 2 + pairs else None
    if is_json or not (pairs or label):
        return header, [], False
    return numbers, [number for number in numbers if number != label], False


def _fields(row: str | dict, header: Sequence[str], names: Sequence[str], where: str) -> tuple[str, ...]:
    """The named values of a row."""
    if isinstance(row, str):
        values = row.split("\t")
        if len(values) != len(header):
            raise UserError(f"{where}: found {row!r:.60}, expected {len(header)} columns as in the first line.")
        row = dict(zip(header, values, strict=True))
    for name in names:
        if not isinstance(row.get(name), str | int):
            raise UserError(f"{where}: {name} is not a string or an integer: found {row!r:.80}.")
    return tuple(" ".join(str(row[name]).split()) for name in names)


def _json_object(line: str) -> dict | None:
    try:
        value = text_files.parse_json(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_lines(path: Path) -> Iterable[str]:
    """The lines of a file in UTF-8 or, like the sentence polarity dataset, in Latin-1."""
    disk.check_input(path, "one text per line")
    try:
        for _ in text_files.blocks(path):
            pass
    except text_files.NotUTF8 as error:
        if error.likely != "latin-1":
            raise
        return text_files.read_lines(path, encoding="latin-1")
    return text_files.read_lines(path)


def read_groups(path: Path) -> Iterator[list[str]]:
    """The same, in groups of LINES_PER_GROUP."""
    lines = iter(read_lines(path))
    return iter(lambda: list(islice(lines, LINES_PER_GROUP)), [])


# Tokens


def tokenise_texts(texts: Sequence[str], lang: str, max_tokens: int, source: str | Path = "") -> list[list[str]]:
    """The first tokens of each text. Logs how many texts are cut; without `source`, their file, only once."""
    sentences = list(map(TOKENISERS[lang], texts))
    if long := sum(len(sentence) > max_tokens for sentence in sentences):
        if source:
            log.warning(
                f"{source}: {long:,} of {format_count(len(texts), 'texts')} cut after `max_seq_len`, {max_tokens} tokens."
            )
        else:
            _warn_of_long_texts(max_tokens)
    return [sentence[:max_tokens] for sentence in sentences]


@cache
def _warn_of_long_texts(max_tokens: int) -> None:
    log.warning(f"Texts are cut after {max_tokens} tokens, the `max_seq_len` of the training. This is logged once.")
