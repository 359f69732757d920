"""Labelled texts, and pairs of texts: files, tables and lists. The formats of files: see elmo_tasks/records.py."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.checks import as_list
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks import records
from elmo_tasks.classification.settings import ClassifierSettings
from elmo_tasks.records import Label, check_label, check_text, value_of
from elmo_tasks.settings import HELD_OUT

USUAL = (
    ("text", "sentence", "text_a", "sentence1"),
    ("label",),
    ("text2", "text_b", "sentence2"),
)  # names of columns
POLARITY = (
    ("rt-polarity.pos", "positive"),
    ("rt-polarity.neg", "negative"),
)  # in the published order


@dataclass
class Text:
    """A text, or a pair of texts, and its label, if this is known. tokens: of each text. where: its file and line."""

    texts: tuple[str, ...]
    label: Label | None = None
    where: str = field(default="", repr=False)
    tokens: tuple[list[str], ...] = field(default=(), repr=False)


def as_text(value: Any, where: str, label: Any = None) -> Text:
    """A text, from a string, or a pair, from two."""
    parts = [value] if isinstance(value, str) else as_list(value) or [value]
    return Text(tuple(" ".join(check_text(part, where).split()) for part in parts), label, where)


class TextReader:
    """Reads labelled texts, as the settings say."""

    def __init__(self, settings: ClassifierSettings):
        columns = settings.columns or ()
        self.columns = [
            str(x).strip() for x in (columns.split(",") if isinstance(columns, str) else columns)
        ]
        self.data_format = settings.data_format
        if columns and (
            len(self.columns) not in (2, 3) or len(set(self.columns)) < len(self.columns)
        ):
            raise UserError(
                f"`columns` is {columns!r}, expected TEXT,LABEL or, of pairs, TEXT,LABEL,TEXT2."
            )

    def read(self, data: Any, name: str) -> list[Text]:
        """The texts of a file, of a table, or of a pair of texts and labels. name: of the argument."""
        texts, is_file = [], isinstance(data, str | Path)
        if is_file or records.is_table(data):
            rows = self._records(Path(data)) if is_file else records.table_records(data, name)
            for where, record in rows:
                text, label, *text2 = self._names(record, where)
                values = [value_of(record, column, where) for column in (text, *text2)]
                texts.append(
                    as_text(values, where, check_label(value_of(record, label, where), where))
                )
        else:
            triples = records.labelled(data, name)
            texts = [
                as_text(text, where, check_label(label, where)) for where, text, label in triples
            ]
        if not texts:
            raise UserError(f"{data if is_file else name}: there are no texts.")
        return texts

    def _records(self, path: Path) -> Iterator[records.Record]:
        names = self.columns or [name for names in USUAL for name in names]
        is_numbered = all(map(str.isdecimal, names))
        unnamed = () if self.columns else [usual[0] for usual in USUAL]
        return records.read_records(path, () if is_numbered else names, self.data_format, unnamed)

    def _names(self, record: Mapping[str, Any], where: str) -> list[str]:
        """The columns of a record: text, label and, of pairs, second text."""
        keys = {str(key).lower() for key in record}
        found = self.columns or [
            next((name for name in names if name in keys), "") for names in USUAL
        ]
        names = [name for k, name in enumerate(found) if name or k < 2]
        if "" in names:
            found = ", ".join(map(str, record))
            advice = ""
            if isinstance(record, records.Row):
                advice = " A .csv needs a first line with such names; without one, the columns of a .tsv have numbers."
            raise UserError(
                f"{records.header_position(record, where)}: found the columns {found:.80}, expected text and label and, "
                f"of pairs, text2. In training, `columns` names others: TEXT,LABEL[,TEXT2].{advice}"
            )
        return names


def tokenise(text: Text, tokeniser: Tokeniser, maximum: int) -> bool:
    """Set the tokens of a text. Returns whether there are more than the maximum, which are left out."""
    tokens = [tokeniser(part) for part in text.texts]
    text.tokens = tuple(part[:maximum] for part in tokens)
    return any(len(part) > maximum for part in tokens)


def hold_out(texts: Sequence[Text], seed: int) -> tuple[list[Text], list[Text]]:
    """Split texts into a training set and a dev set, which is a tenth, each with the classes in proportion."""
    from sklearn.model_selection import (
        train_test_split,
    )  # takes seconds; predictions do not need it

    labels = [text.label for text in texts]
    size = max(ceil(HELD_OUT * len(texts)), len(set(labels)))
    try:
        return train_test_split(texts, test_size=size, stratify=labels, random_state=seed)
    except ValueError as error:
        counts = f"{len(texts)} texts of {len(set(labels))} classes are too few to hold some out"
        raise UserError(f"{counts} ({error}). Give `dev`, or remove rare classes.") from error


def read_polarity(folder: Path) -> tuple[list[str], list[str]]:
    """The reviews of the sentence polarity dataset v1, which are in Latin-1, and their labels."""
    pairs, expected = (
        [],
        "the sentence polarity dataset v1, which `bash download_data.sh polarity` fetches",
    )
    for name, label in POLARITY:
        disk.check_input(folder / name, expected)
        lines = (folder / name).read_text(encoding="latin-1").split("\n")
        pairs += [(line, label) for line in lines if line.strip()]
    return [review for review, _ in pairs], [label for _, label in pairs]


def published_split(reviews: Sequence[str], labels: Sequence[str], seed: int) -> tuple[Any, Any]:
    """The training and test reviews of the published scripts, each with its labels: nine tenths, and one."""
    from sklearn.model_selection import train_test_split  # takes seconds; --help does not need it

    arrays = map(np.array, (reviews, labels))
    train, test, train_labels, test_labels = train_test_split(
        *arrays, test_size=HELD_OUT, random_state=seed
    )
    return (train, train_labels), (test, test_labels)
