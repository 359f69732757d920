"""Records of users' data.

They are in files whose ending names their format, or in tables and lists of dictionaries in Python.

.csv           columns separated by commas, names in the first line, fields in quotes where they
               need them
.tsv           columns separated by tabs, quotes are characters; names in the first line if they are
               known ones
.json, .jsonl  objects: in an array, or one per line

Each file may also end in .gz. A record is a dictionary, with its position, which error messages
name.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np

from elmo_core.checks import Label, as_list, check_text, describe
from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, join_names
from elmo_core.text.text_files import MAX_LINE, parse_json, read_lines

Record = tuple[str, Mapping[str, Any]]  # a position, and the values by name
FORMATS = "a file that ends in .csv, .tsv, .json or .jsonl, or set `data_format`"
SPREADSHEETS = ("xlsx", "xls", "xlsm", "ods", "et")  # the last one is WPS's
# What may separate columns instead of commas.
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", "，": "full-width commas"}


class Row(dict[str, str]):
    """A row of a table in a file. header: the position of the names of its columns."""

    header: str = ""


def ending(path: str | Path) -> str:
    """The ending that names a file's format, without .gz: csv, tsv, json, ... or ""."""
    return Path(str(path).lower().removesuffix(".gz")).suffix.removeprefix(".")


def read_records(
    path: Path, names: Sequence[str] = (), format_name: str = "", unnamed: Sequence[str] = ()
) -> Iterator[Record]:
    """Yield the records of a file.

    names: of columns, which show that the first line of a .tsv is its header.
    format_name: if not that of the ending.
    unnamed: names of the columns of a .tsv without a header; if it has more columns, these have
    numbers, from 0.
    """
    disk.check_input(path, "data in CSV, TSV or JSON")
    format_name = format_name or ending(path)
    if format_name in ("json", "jsonl"):
        values = _json_values if format_name == "json" else _json_lines
        for where, value in values(path, read_lines(path)):
            if not isinstance(value, dict):
                raise UserError(f"{where}: found {value!r:.60}, expected a JSON object.")
            yield where, value
    elif format_name == "csv":
        yield from _read_csv(path)
    elif format_name == "tsv":
        yield from _read_tsv(path, names, unnamed)
    elif format_name in SPREADSHEETS:
        advice = "Save it as CSV UTF-8: in Excel or WPS, File, Save As"
        raise UserError(f"{path} is a spreadsheet, expected {FORMATS}. {advice}.")
    else:
        raise UserError(f"{path}: expected {FORMATS}.")


def _json_values(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the items of an array, or the only value; or else the values of lines."""
    lines = list(lines)
    try:
        value = parse_json("\n".join(lines))
    except ValueError as error:  # an object per line, in a file that is called .json
        yield from _json_lines(path, lines, f" or one array or object ({error})")
        return
    items = value if isinstance(value, list) else [value]
    for k, item in enumerate(items, 1):
        yield f"{path}: object {k}", item


def _json_lines(path: Path, lines: Iterable[str], or_else: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of lines. or_else: what else the file could have been, for messages."""
    for k, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            raise UserError(
                f"{path}:{k}: invalid JSON ({error}), expected an object per line{or_else}."
            ) from error
        yield f"{path}:{k}", value


def _read_csv(path: Path) -> Iterator[Record]:
    rows = _csv_rows(path)
    where, header = next(rows, ("", []))
    if len(header) == 1:
        _check_separator(path, where, header[0])
    advice = "A field that has commas needs double quotes around it."
    yield from _with_names(rows, header, where, advice)


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    csv.field_size_limit(MAX_LINE)  # by default 128 KB, less than a long text
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    try:
        for row in reader:
            if row:
                yield f"{path}:{reader.line_num}", row
    except csv.Error as error:
        raise UserError(
            f"{path}:{reader.line_num}: this is not CSV ({error}). Double quotes within quotes."
        ) from error


def _check_separator(path: Path, where: str, header: str) -> None:
    """Raise if other characters than commas separate the names of a header."""
    for separator, name in SEPARATORS.items():
        if separator in header:
            reading = f"pandas.read_csv({path.name!r}, sep={separator!r})"
            raise UserError(
                f"{where}: the columns are separated by {name}, expected commas. "
                "Convert the file, for instance in Python: "
                f"{reading}.to_csv('data.csv', index=False)"
            )


def _read_tsv(path: Path, names: Sequence[str], unnamed: Sequence[str]) -> Iterator[Record]:
    """Yield the rows. The first one is the header if it has one of the names."""
    rows = _tsv_rows(path)
    where, first = next(rows, ("", []))
    if not first:
        return
    header = [name.strip() for name in first]
    known = {name.lower() for name in names}
    if any(name.lower() in known for name in header):
        header_at = where
    else:
        rows = chain([(where, first)], rows)
        header = list(unnamed[: len(first)])
        if len(first) > len(unnamed):
            header = [str(k) for k in range(len(first))]
        header_at = ""
    advice = "Tabs separate columns: a text must not have any."
    yield from _with_names(rows, header, header_at, advice)


def _tsv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    for k, line in enumerate(read_lines(path), 1):
        if line.strip():
            yield f"{path}:{k}", line.split("\t")


def _with_names(
    rows: Iterable[tuple[str, list[str]]], header: Sequence[str], header_at: str, advice: str
) -> Iterator[Record]:
    """Yield rows as dictionaries.

    header_at: the header's position. advice: on rows of other lengths.
    """
    names = [name.strip() for name in header]
    if len(set(names)) != len(names):
        raise UserError(f"{header_at}: found the header {header}, expected names that differ.")
    for where, row in rows:
        if len(row) != len(names):
            raise UserError(
                f"{where}: found {len(row)} columns, but {len(names)} in the first line. {advice}"
            )
        record = Row({name: value.strip() for name, value in zip(names, row, strict=True)})
        record.header = header_at
        yield where, record


def header_position(record: Mapping[str, Any], where: str) -> str:
    """Where the names of a record's columns are. where: the position of the record itself."""
    return getattr(record, "header", "") or where


def is_table(data: Any) -> bool:
    """Whether data has named columns.

    It is a DataFrame, a `datasets.Dataset`, or a list of dictionaries.
    """
    if isinstance(data, list | tuple):
        return len(data) > 0 and isinstance(data[0], Mapping)
    return hasattr(data, "columns") or hasattr(data, "column_names")


def table_records(data: Any, name: str) -> Iterator[Record]:
    """Yield the records of a table, also of polars. name: of the argument, used in error messages.

    Labels that a `datasets.Dataset` stores as integers get their names.
    """
    label_names = _label_names(data)
    for k, row in enumerate(_table_rows(data)):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"`{name}`, row {k}: found {describe(row)}, expected a dictionary. "
                "Is it a DatasetDict?"
            )
        where = f"{name}, row {k}"
        record = dict(row)
        for column, names in label_names.items():
            if column in record:
                record[column] = _named(record[column], names, where)
        yield where, record


def _table_rows(data: Any) -> Iterable[Any]:
    """The rows of a table, which are dictionaries unless the user has given something else."""
    if hasattr(data, "iloc"):  # pandas
        return data.to_dict("records")
    if hasattr(data, "to_dicts"):  # polars
        return data.to_dicts()
    return data


def _label_names(data: Any) -> dict[str, list[str]]:
    """The names of the labels in each column of a `datasets.Dataset` that has such names.

    Its type is ClassLabel, or a list of these.
    """
    if not hasattr(data, "column_names"):
        return {}
    found = {}
    for column, feature in (getattr(data, "features", None) or {}).items():
        of_items = getattr(feature, "feature", feature)  # of a list
        names = getattr(of_items, "names", None)
        if names:
            found[column] = list(names)
    return found


def _named(value: Any, names: Sequence[str], where: str) -> Any:
    """The name of a label, or of each in a list. None stays as it is."""
    items = as_list(value)
    if items is not None:
        return [_named(item, names, where) for item in items]
    if not isinstance(value, int | np.integer):
        return value
    if not 0 <= value < len(names):
        raise UserError(
            f"{where}: the label is {value}, expected 0 to {len(names) - 1}: {names!r:.60}."
        )
    return names[value]


def value_of(record: Mapping[str, Any], column: str, where: str) -> Any:
    """The value in a column, which is found regardless of case."""
    if column in record:
        return record[column]
    for name, value in record.items():
        if str(name).lower() == column.lower():
            return value
    found = join_names([str(name) for name in record])
    if column.isdecimal():
        advice = (
            "A .csv needs a first line with the names of its columns; "
            "only those of a .tsv may have numbers."
        )
    else:
        advice = "In training, `columns` names them."
    raise UserError(
        f"{header_position(record, where)}: there is no column {column!r}. "
        f"Found {found:.80}. {advice}"
    )


def check_label(value: Any, where: str) -> Label:
    """The label as a string, an integer or a boolean of Python.

    Missing ones (None, NaN, NA, "") are errors.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():  # pandas makes floats of integers
        value = int(value)
    if isinstance(value, str) and value.strip():
        return check_text(value, where)
    if isinstance(value, int):
        return value
    is_nan = isinstance(value, float) and math.isnan(value)
    is_empty = value is None or is_nan or isinstance(value, str)
    found = "empty" if is_empty else describe(value)
    raise UserError(f"{where}: the label is {found}, expected a string, an integer or a boolean.")


def check_labels(value: Any, where: str, separator: str = "") -> Label | tuple[Label, ...]:
    """The label of a text, see `check_label`; or its labels, of a list or set of them.

    separator: between the labels of a string; with it, a text always has a list of labels.
    """
    items = list(value) if isinstance(value, Set) else as_list(value)
    if items is None and separator:
        items = split_labels(value, separator) if isinstance(value, str) else [value]
    if items is None:
        label = check_label(value, where)
        if isinstance(label, str) and label.startswith(("['", '["')):  # as pandas writes lists
            raise UserError(
                f"{where}: found the label {label!r:.60}, a list that was written as text. Save "
                "lists as JSON; or join the labels, as in x|y, and set `label_separator`."
            )
        return label
    labels = [check_label(item, where) for item in items]
    if isinstance(value, Set):
        labels.sort(key=_order)
    for label, n in Counter(labels).items():
        if n > 1:
            raise UserError(
                f"{where}: found the labels {labels!r:.60}, of which {label!r:.60} occurs "
                f"{n} times, expected each once. The rows of an indicator matrix are for "
                "`ELMoClassifier`."
            )
    return tuple(labels)


def split_labels(text: str, separator: str) -> list[str]:
    """The labels in a column, without spaces around them; none in a blank one."""
    if not text.strip():
        return []
    return [part.strip() for part in text.split(separator)]


def _order(label: Label) -> tuple[bool, Label]:
    """Sorts labels: numbers first."""
    return isinstance(label, str), label


def label_ids(labels: Sequence[Label]) -> dict[Label, int]:
    """The number of each label, also of an integer as a string, or such a string as an integer."""
    numbers = {}
    for k, label in enumerate(labels):
        as_string = str(label)
        numbers[as_string] = k
        if as_string.removeprefix("-").isdecimal():
            numbers[int(as_string)] = k
    for k, label in enumerate(labels):
        numbers[label] = k  # as it is, whatever other labels look like
    return numbers


def distinct_labels(labels: Iterable[Label], minimum: int = 2) -> list[Label]:
    """The labels, each once and in order, numbers first. Raise unless there are enough."""
    distinct = sorted(set(labels), key=_order)
    as_strings = {str(label) for label in distinct}
    if len(as_strings) < len(distinct):
        raise UserError(
            f"the labels {distinct!r:.60} differ only in type, as 1 and '1'. "
            "Make all of them strings."
        )
    if len(distinct) < minimum:
        raise UserError(
            f"all labels are {distinct[0]!r:.60}, expected two or more. Are the columns right?"
        )
    return distinct


def check_parts(
    parts: Mapping[str, Any], name: str, kinds: type | UnionType, expected: str
) -> None:
    """Raise unless a part of a model is a list of values of these types.

    It may have been read from a file. expected: what the values are, for messages.
    """
    values = parts[name]
    if not isinstance(values, list) or not all(isinstance(value, kinds) for value in values):
        raise UserError(f"`{name}` is {values!r:.60}, expected a list of {expected}.")


def labelled(data: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """The position of each example, the example and its label, of a pair of lists.

    name: of the data.
    """
    pair = as_list(data) or ()
    lists = [as_list(part) for part in pair]
    if len(lists) != 2 or None in lists:
        wrong = next((part for part in pair if as_list(part) is None), data)
        expected = "a file, a table or list of dictionaries, or a list and its labels"
        raise TypeError(f"`{name}`: found {describe(wrong)}, expected {expected}.")
    examples, labels = lists
    if not examples:
        raise UserError(f"`{name}` is empty, expected examples and their labels.")
    if len(examples) != len(labels):
        n_examples = format_count(len(examples), "examples")
        n_labels = format_count(len(labels), "labels")
        raise UserError(f"`{name}`: found {n_examples} and {n_labels}, expected as many.")
    numbered = enumerate(zip(examples, labels, strict=True))
    return ((f"{name} {k}", example, label) for k, (example, label) in numbered)
