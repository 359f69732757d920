"""Records of users' data: files whose ending names their format, and tables and lists of dictionaries in Python.

.csv           columns separated by commas, names in the first line, fields in quotes where they need them
.tsv           columns separated by tabs, quotes are characters; names in the first line if they are known ones
.json, .jsonl  objects: in an array, or one per line

Each file may also end in .gz. A record is a dictionary, with its position, which error messages name.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.checks import Label, as_list, describe
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import MAX_LINE, parse_json, read_lines

Record = tuple[str, Mapping[str, Any]]  # a position, and the values by name
UNSAVABLE = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of surrogate pairs


def ending(path: str | Path) -> str:
    """The ending that names a file's format, without .gz: csv, tsv, json, ... or ""."""
    return Path(str(path).lower().removesuffix(".gz")).suffix.removeprefix(".")


def read_records(
    path: Path, names: Sequence[str] = (), format_name: str = "", unnamed: Sequence[str] = ()
) -> Iterator[Record]:
    """Yield the records of a file.

    names: of columns, which show that the first line of a .tsv is its header. format_name: if not that of the ending.
    unnamed: names of the columns of a .tsv without a header; if it has more columns, these have numbers, from 0.
    """
    disk.check_input(path, "data in CSV, TSV or JSON")
    format_name = format_name or ending(path)
    if format_name in ("json", "jsonl"):
        for where, value in _read_values(path, format_name == "json"):
            if not isinstance(value, dict):
                raise UserError(f"{where}: found {value!r:.60}, expected a JSON object.")
            yield where, value
    elif format_name in ("csv", "tsv"):
        yield from _read_table(path, names if format_name == "tsv" else None, unnamed)
    else:
        raise UserError(f"{path}: expected a file that ends in .csv, .tsv, .json or .jsonl, or set `data_format`.")


def _read_values(path: Path, is_one: bool) -> Iterator[tuple[str, Any]]:
    """Yield the items of an array or, unless the whole file is one value, the values of lines."""
    lines, more = read_lines(path), ""
    if is_one:
        lines = list(lines)
        try:
            value = parse_json("\n".join(lines))
            items = enumerate(value if isinstance(value, list) else [value], 1)
            yield from ((f"{path}: object {k}", item) for k, item in items)
            return
        except ValueError as error:  # an object per line, in a file that is called .json
            more = f" or one array or object ({error})"
    for k, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield f"{path}:{k}", parse_json(line)
            except ValueError as error:
                raise UserError(f"{path}:{k}: invalid JSON ({error}), expected an object per line{more}.") from error


def _read_table(path: Path, names: Sequence[str] | None, unnamed: Sequence[str]) -> Iterator[Record]:
    rows = _rows(path, names is not None)
    where, first = next(rows, ("", []))
    header = [name.strip() for name in first]
    if names is None or set(map(str.lower, header)) & set(map(str.lower, names)):
        if len(set(header)) != len(header):
            raise UserError(f"{where}: found the header {first}, expected names that differ.")
    elif first:
        header = list(unnamed[: len(first)] if len(first) <= len(unnamed) else map(str, range(len(first))))
        yield where, dict(zip(header, map(str.strip, first), strict=True))
    for where, row in rows:
        if len(row) != len(header):
            raise UserError(f"{where}: found {len(row)} columns, {row!r:.60}, but {len(header)} in the first line.")
        yield where, dict(zip(header, map(str.strip, row), strict=True))


def _rows(path: Path, is_tsv: bool) -> Iterator[tuple[str, list[str]]]:
    if is_tsv:
        yield from ((f"{path}:{k}", line.split("\t")) for k, line in enumerate(read_lines(path), 1) if line.strip())
        return
    csv.field_size_limit(MAX_LINE)  # by default 128 KB, less than a long text
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    try:
        yield from ((f"{path}:{reader.line_num}", row) for row in reader if row)
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: this is not CSV ({error}). Double quotes within quotes.") from error


def is_table(data: Any) -> bool:
    """Whether data has named columns: a DataFrame, a `datasets.Dataset`, or a list of dictionaries."""
    if isinstance(data, list | tuple):
        return len(data) > 0 and isinstance(data[0], Mapping)
    return hasattr(data, "columns") or hasattr(data, "column_names")


def table_records(data: Any, name: str) -> Iterator[Record]:
    """Yield the records of a table, also of polars. name: of the argument, used in error messages.

    Labels that a `datasets.Dataset` stores as integers get their names.
    """
    rows = data.to_dict("records") if hasattr(data, "iloc") else data.to_dicts() if hasattr(data, "to_dicts") else data
    label_names = _label_names(data)
    for k, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"`{name}`, row {k}: found {describe(row)}, expected a dictionary. Is it a DatasetDict?")
        where = f"{name}, row {k}"
        named = {column: _named(row[column], label_names[column], where) for column in row if column in label_names}
        yield where, {**row, **named}


def _label_names(data: Any) -> dict[str, list[str]]:
    """The names of the labels in each column of a `datasets.Dataset` whose type is ClassLabel, or a list of these."""
    features = getattr(data, "features", None) if hasattr(data, "column_names") else None
    found = {}
    for column, feature in (features or {}).items():
        of_items = getattr(feature, "feature", feature)
        if names := getattr(of_items, "names", None):
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
        raise UserError(f"{where}: the label is {value}, expected 0 to {len(names) - 1}: {names!r:.60}.")
    return names[value]


def value_of(record: Mapping[str, Any], column: str, where: str) -> Any:
    """The value in a column, which is found regardless of case."""
    if column in record:
        return record[column]
    for name, value in record.items():
        if str(name).lower() == column.lower():
            return value
    found = ", ".join(map(str, record))
    raise UserError(f"{where}: there is no {column!r}. Found {found:.80}. In training, `columns` names them.")


def check_label(value: Any, where: str) -> Label:
    """The label as a string, an integer or a boolean of Python. Missing ones (None, NaN, NA, "") are errors."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():  # pandas makes floats of integers
        value = int(value)
    if isinstance(value, str) and value.strip():
        return check_text(value, where)
    if isinstance(value, int):
        return value
    raise UserError(f"{where}: the label is {describe(value)}, expected a string, an integer or a boolean.")


def label_ids(labels: Sequence[Label]) -> dict[Label, int]:
    """The number of each label, also of an integer as a string, or of such a string as an integer."""
    numbers = {label: k for k, label in enumerate(labels)}
    as_strings = {str(label): k for label, k in numbers.items()}
    as_integers = {int(label): k for label, k in as_strings.items() if label.removeprefix("-").isdecimal()}
    return {**as_integers, **as_strings, **numbers}


def distinct_labels(labels: Iterable[Label]) -> list[Label]:
    """The labels, each once and in order, numbers first. Raise unless there are two or more."""
    distinct = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    if len({*map(str, distinct)}) < len(distinct):
        raise UserError(f"the labels {distinct!r:.60} differ only in type, as 1 and '1'. Make all of them strings.")
    if len(distinct) < 2:
        raise UserError(f"all labels are {distinct[0]!r:.60}, expected two or more. Are the columns right?")
    return distinct


def check_text(value: Any, where: str, what: str = "text") -> str:
    """The string, without characters that cannot be saved: NUL, and halves of surrogate pairs."""
    if not isinstance(value, str):
        raise UserError(f"{where}: found {describe(value)}, expected a {what}.")
    if UNSAVABLE.search(value):
        raise UserError(f"{where}: found {value!r:.60}, which has a NUL or half of a surrogate pair. Remove it.")
    return str(value)  # not NumPy's


def labelled(data: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the position of each example, the example and its label, of a pair of lists. name: of the data."""
    pair = as_list(data) or ()
    examples, labels = map(as_list, pair) if len(pair) == 2 else (None, None)
    if examples is None or labels is None:
        wrong = next((part for part in pair if as_list(part) is None), data)
        expected = "a file, a table or list of dictionaries, or a list and its labels"
        raise TypeError(f"`{name}`: found {describe(wrong)}, expected {expected}.")
    if not examples or len(examples) != len(labels):
        raise UserError(f"`{name}`: found {len(examples)}, and {len(labels)} labels, expected as many, at least one.")
    return ((f"{name} {k}", example, label) for k, (example, label) in enumerate(zip(examples, labels, strict=True)))
