"""Labelled texts, and pairs of texts, of any task: files, tables and lists.

The formats of files: see records.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from elmo_core.checks import as_list, check_text, describe
from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks import records
from elmo_tasks.records import check_label, value_of

TEXT_COLUMNS = ("text", "sentence", "text_a", "sentence1")  # usual names
LABEL_COLUMNS = ("label", "labels")
TEXT2_COLUMNS = ("text2", "text_b", "sentence2")
SIDES = ("first text", "second text")  # of a pair


@dataclass
class Text:
    """A text, or a pair of texts, and its label, if this is known; or a tuple of its labels.

    tokens: of each text. all_tokens: with those that are cut off. where: its file and line.
    """

    texts: tuple[str, ...]
    label: Any = None
    where: str = field(default="", repr=False)
    tokens: tuple[list[str], ...] = field(default=(), repr=False)
    all_tokens: tuple[list[str], ...] = field(default=(), repr=False)

    @property
    def labels(self) -> tuple[Any, ...]:
        """Its labels, or its only one."""
        return self.label if isinstance(self.label, tuple) else (self.label,)


def as_text(value: Any, where: str, label: Any = None) -> Text:
    """A text, from a string, or a pair, from two. White space becomes single spaces."""
    parts = _parts(value)
    names = SIDES if len(parts) == 2 else ("text",) * len(parts)
    checked = [check_text(part, where, name) for part, name in zip(parts, names, strict=True)]
    return Text(tuple(" ".join(part.split()) for part in checked), label, where)


def given_text(value: Any, number: int, is_pair: bool = False) -> Text:
    """A text that a user gives to `predict`, or a pair.

    Raise a TypeError unless it is one. number: of the text.
    """
    parts = _parts(value)
    n_expected = 2 if is_pair else 1
    if len(parts) != n_expected or not all(isinstance(part, str) for part in parts):
        one = "a string. Join tokens with spaces, and set `lang=none`"
        expected = "a tuple of two strings" if is_pair else one
        raise TypeError(f"text {number}: found {describe(value)}, expected {expected}.")
    return as_text(value, f"text {number}")


def _parts(value: Any) -> Sequence[Any]:
    """The items of a pair; a value alone of anything else."""
    if isinstance(value, str):
        return [value]
    return as_list(value) or [value]


def tokenise(text: Text, tokeniser: Tokeniser, maximum: int) -> bool:
    """Set the tokens of a text.

    Returns whether there are more than the maximum, which are cut off.
    """
    text.all_tokens = tuple(tokeniser(part) for part in text.texts)
    text.tokens = tuple(part[:maximum] for part in text.all_tokens)
    return text.tokens != text.all_tokens


def with_tokens(texts: Sequence[Text], tokeniser: Tokeniser, maximum: int) -> list[Text]:
    """The texts, after `tokenise`."""
    for text in texts:
        tokenise(text, tokeniser, maximum)
    return list(texts)


class Columns(NamedTuple):
    """The names of a table's columns. text2: of pairs."""

    text: str
    label: str
    text2: str | None = None


class TextReader:
    """Reads labelled texts.

    columns: TEXT,LABEL or, of pairs, TEXT,LABEL,TEXT2, if not usual names. data_format: of files,
    if not that of the ending.
    check: returns the value of a label, or raises; it receives the label and where it is.
    """

    def __init__(
        self,
        columns: str | Sequence[str | int] | None = None,
        data_format: str = "",
        check: Callable[[Any, str], Any] = check_label,
    ):
        names = columns.split(",") if isinstance(columns, str) else columns
        self.names = [str(name).strip() for name in names] if columns else []
        if self.names[2:] == [""]:  # after a comma at the end
            self.names.pop()
        self.data_format = data_format
        self.check = check
        are_distinct = len(set(self.names)) == len(self.names)
        is_valid = len(self.names) in (2, 3) and are_distinct and all(self.names)
        if columns and not is_valid:
            raise UserError(
                f"`columns` is {columns!r}, expected TEXT,LABEL or, of pairs, TEXT,LABEL,TEXT2."
            )

    def read(self, data: Any, name: str) -> list[Text]:
        """The texts of a file, of a table, or of a pair of texts and labels.

        name: of the argument.
        """
        texts = []
        is_file = isinstance(data, str | Path)
        if is_file or records.is_table(data):
            rows = self._records(Path(data)) if is_file else records.table_records(data, name)
            for where, record in rows:
                columns = self._columns(record, where)
                values = [value_of(record, columns.text, where)]
                if columns.text2 is not None:
                    values.append(value_of(record, columns.text2, where))
                label = self.check(value_of(record, columns.label, where), where)
                texts.append(as_text(values, where, label))
        else:
            for where, text, label in records.labelled(data, name):
                texts.append(as_text(text, where, self.check(label, where)))
        if not texts:
            raise UserError(f"{data if is_file else name}: there are no texts.")
        _check_alike(texts)
        return texts

    def _records(self, path: Path) -> Iterator[records.Record]:
        """The records of a file."""
        if not self.names:
            return records.read_records(
                path,
                names=TEXT_COLUMNS + LABEL_COLUMNS + TEXT2_COLUMNS,
                format_name=self.data_format,
                unnamed=(TEXT_COLUMNS[0], LABEL_COLUMNS[0], TEXT2_COLUMNS[0]),
            )
        are_numbers = all(name.isdecimal() for name in self.names)
        names = () if are_numbers else self.names
        return records.read_records(path, names, self.data_format)

    def _columns(self, record: Mapping[str, Any], where: str) -> Columns:
        """The columns of a record, whose names are given or usual ones."""
        if self.names:
            return Columns(*self.names)
        keys = {str(key).lower() for key in record}
        text = first_of(TEXT_COLUMNS, keys)
        label = first_of(LABEL_COLUMNS, keys)
        if text is None or label is None:
            raise UserError(_unknown_columns(record, where))
        return Columns(text, label, first_of(TEXT2_COLUMNS, keys))


def _check_alike(texts: Sequence[Text]) -> None:
    """Raise unless all are single texts, or all are pairs and complete."""
    first = texts[0]
    for text in texts:
        if len(text.texts) != len(first.texts):
            raise UserError(
                f"{text.where}: found {_found(text)}, but {_found(first)} in {first.where}. "
                "Expected a string each or, of pairs, a tuple of two strings each. "
                "Join tokens with spaces, and set `lang=none`."
            )
        if len(text.texts) == 2 and not all(text.texts):
            name = SIDES[text.texts.index("")]
            found = f"the pair {text.texts!r:.60} has no {name}"
            raise UserError(f"{text.where}: {found}. Complete the pair, or remove it.")


def _found(text: Text) -> str:
    """What was read, in words."""
    if len(text.texts) == 1:
        return f"one text, {text.texts[0]!r:.40}"
    return f"{len(text.texts)} texts, {text.texts!r:.40}"


def _unknown_columns(record: Mapping[str, Any], where: str) -> str:
    """What is said of columns without usual names."""
    columns = ", ".join(str(key) for key in record)
    found = f"found the columns {columns:.80}, expected text and label and, of pairs, text2"
    advice = "In training, `columns` names others: TEXT,LABEL[,TEXT2]."
    if isinstance(record, records.Row):
        advice += (
            " A .csv needs a first line with such names; "
            "without one, the columns of a .tsv have numbers."
        )
    return f"{records.header_position(record, where)}: {found}. {advice}"


def first_of(names: Sequence[str], keys: set[str]) -> str | None:
    """The first name that is a key."""
    return next((name for name in names if name in keys), None)
