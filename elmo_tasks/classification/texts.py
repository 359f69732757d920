"""Labelled texts and text pairs from user files, and their tokenisation.

A file is TSV, without quotes, or JSON lines: in each line a text, its label and, of a pair, the second text. Keys or a
header may name them as one of LAYOUTS; columns without a header are in the order of the first. Others need --columns.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, join_names, log
from elmo_core.text import text_files
from elmo_core.text.tokenise import TOKENISERS
from elmo_tasks.classification.scores import CLASSES

LAYOUTS = (
    ("text", "label", "text2"),
    ("text_a", "label", "text_b"),
    ("sentence1", "label", "sentence2"),
    ("sentence", "label"),
)
HAN = re.compile("[\u4e00-\u9fff]")
MAX_CLASSES = 50  # more labels, and more than half as many as texts: the wrong column
EXPECTED = "a text, its label and perhaps a second text in each line, as TSV or JSON"


@dataclass
class Texts:
    """n labelled texts, or pairs of texts.

    texts: as they are in the files; a pair is two, separated by a tab.
    sentences: the tokens of each text; of pairs those of all first texts, then those of all second ones.
    labels: (n,), numbers of classes.
    unit: what one of them is called, in the plural.
    n_dev, n_test: how many come from a dev and a test file. They are the last, those of the test file behind the others.
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
    """The texts of all files. The classes are the labels of the first. columns: see `read_file`."""
    examples = read_file(train, columns)
    classes, pairs = _classes(train, examples, bool(columns)), len(examples[0]) == 3
    if dev and test and dev.samefile(test):
        log.warning(f"{test} is both --dev_file and --test_file: test scores will be optimistic.")
    dev, test = (read_known(path, columns, classes, pairs) if path else [] for path in (dev, test))
    data = as_texts([*examples, *dev, *test], classes, lang, max_tokens, train)
    data.n_dev, data.n_test = len(dev), len(test)
    counts = np.bincount(data.labels)
    log.info(f"classes       {join_names([f'{name} {n:,}' for name, n in zip(classes, counts, strict=True)])}")
    return data


def _classes(path: Path, examples: Sequence[Sequence[str]], has_columns: bool) -> list[str]:
    """The labels of the training file, unless they look like texts or like a header."""
    counts = Counter(label for label, *_ in examples)
    classes, (first, *words) = sorted(counts), examples[0]
    if len(classes) < 2:
        raise UserError(f"{path}: all texts have the label {first!r:.60}. Expected two labels or more.")
    if len(classes) > max(MAX_CLASSES, len(examples) / 2):
        raise UserError(
            f"{path}: {len(classes):,} labels for {len(examples):,} texts, as {first!r:.60}. Is this the text column? "
            "Set --columns=TEXT,LABEL."
        )
    if not has_columns and counts[first] == 1 and not any(" " in word for word in words):
        raise UserError(
            f"{path}: its first text, {words[0]!r:.60}, is the only one with the label {first!r:.60}. If this line names "
            "the columns, give --columns=TEXT,LABEL with their names; else correct the label or leave the text out."
        )
    return classes


def read_known(path: Path, columns: Sequence[str] | None, classes: Sequence[str], pairs: bool) -> list[tuple[str, ...]]:
    """The examples of a file whose labels must be among the classes."""
    examples = read_file(path, columns)
    if unknown := sorted({label for label, *_ in examples}.difference(classes)):
        names = join_names([f"{name:.30}" for name in unknown], 3)
        raise UserError(f"{path}: the label {names} does not occur in training. --columns says which column it is.")
    if (len(examples[0]) == 3) != pairs:
        raise UserError(f"{path} has {'single texts' if pairs else 'pairs of texts'}, unlike the training file.")
    return examples


def as_texts(
    examples: Sequence[Sequence[str]], classes: Sequence[str], lang: str, max_tokens: int, source: Path
) -> Texts:
    sides = list(zip(*(texts for _, *texts in examples), strict=True))
    sentences = tokenised(list(chain.from_iterable(sides)), lang, max_tokens, source)
    if lang == "en" and len(HAN.findall("".join(sides[0][:1000]))) > 3 * sum(map(len, sentences[:1000])):
        log.warning(f"{source}: this looks like Chinese, which --lang=en does not segment. Give --lang=zh.")
    number = {name: k for k, name in enumerate(classes)}
    labels = np.array([number[label] for label, *_ in examples])
    texts = ["\t".join(texts) for _, *texts in examples]
    return Texts(texts, sentences, labels, classes, unit="pairs" if len(sides) > 1 else "texts")


def read_file(path: Path, columns: Sequence[str] | None = None) -> list[tuple[str, ...]]:
    """Label and text, or label and both texts, of every line that is not blank.

    columns: those of text, label and second text: keys, names in a header, or numbers from 0 where there is no header.
    """
    disk.check_input(path, EXPECTED)
    lines = [(number, line) for number, line in enumerate(text_files.read_lines(path), 1) if line.strip()]
    if not lines:
        raise UserError(f"{path}: it has no texts. Expected {EXPECTED}.")
    first, is_json = lines[0][1], _json_object(lines[0][1]) is not None
    header = list(_json_object(first)) if is_json else [name.strip() for name in first.split("\t")]
    names = _column_names(columns, header)
    if names and not is_json:
        lines = lines[1:]
    elif not is_json:  # without a header, columns have numbers
        header = list(map(str, range(len(header))))
        names = _column_names(columns, header) if columns else header if len(header) in (2, 3) else []
    if not names:
        raise UserError(
            f"{path}: found the columns {join_names(header)}, expected {' and '.join(columns or ('text', 'label'))}. "
            "Columns are separated by tabs; --columns=TEXT,LABEL names them, or TEXT,LABEL,TEXT2 for pairs."
        )
    examples = []
    for number, line in lines:
        values = _json_object(line) if is_json else line.split("\t")
        if values is None or not (is_json or len(values) == len(header)):
            expected = "a JSON object" if is_json else f"{len(header)} columns"
            raise UserError(f"{path}:{number}: found {line!r:.60}, expected {expected} as in the first line.")
        record = values if is_json else dict(zip(header, values, strict=True))
        if missing := [name for name in names if not isinstance(record.get(name), str | int)]:
            raise UserError(f"{path}:{number}: {missing[0]} is not a string or an integer: found {record!r:.80}.")
        text, label, *second = (" ".join(str(record[name]).split()) for name in names)
        if not label:
            raise UserError(f"{path}:{number}: the label is empty.")
        examples.append((label, text, *second))
    if not examples:
        raise UserError(f"{path}: there is nothing below the header. Expected {EXPECTED}.")
    return examples


def _json_object(line: str) -> dict | None:
    try:
        value = text_files.parse_json(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _column_names(columns: Sequence[str] | None, header: Sequence[str]) -> list[str]:
    """The columns of text, label and, of pairs, second text. None if the header does not name them."""
    for layout in [columns] if columns else LAYOUTS:
        if set(columns or layout[:2]) <= set(header):
            return [name for name in layout if name in header]
    return []


def read_lines(path: Path) -> Iterable[str]:
    """The lines of a file in UTF-8 or, as the sentence polarity dataset is, in latin-1."""
    disk.check_input(path, "text, one in each line")
    try:
        for _ in text_files.blocks(path):
            pass
    except text_files.NotUTF8 as error:
        if error.likely != "latin-1":
            raise
        return text_files.read_lines(path, encoding="latin-1")
    return text_files.read_lines(path)


# Tokens


def tokenised(texts: Sequence[str], lang: str, max_tokens: int, source: str | Path) -> list[list[str]]:
    """The first tokens of every text. Logs how many texts are cut."""
    sentences = list(map(TOKENISERS[lang], texts))
    if long := sum(len(sentence) > max_tokens for sentence in sentences):
        log.warning(f"{source}: {long:,} texts have more than --max_seq_len {max_tokens} tokens and are cut there.")
    return [sentence[:max_tokens] for sentence in sentences]
