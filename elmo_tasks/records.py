"""Records of users' files: JSON lines, an array of JSON objects, CSV, TSV, or lines of text; plain or gzip.

A record comes with its position, which error messages name: file and line, or the number of an object of an array. It is
a dictionary, a row of columns, a line of text, or "" for a blank line.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from elmo_core.messages import UserError
from elmo_core.text.text_files import parse_json

JSON, TEXT = "json", "text"  # formats; those of columns are named by what separates these
JSON_START = re.compile(r'\s*(\{\s*("|$)|\[\s*(\{|$))')
Record = tuple[str, dict[str, Any] | list[str] | str]
Item = TypeVar("Item")


class Lines:
    """Lines that come in groups, such as all that have arrived.

    number: of the latest line, from 1. left: how many lines, or objects of an array, of its group are still to be read.
    """

    def __init__(self, groups: Iterable[Iterable[str]]):
        self.number = self.left = 0
        self._lines = self._read(groups)

    def _read(self, groups: Iterable[Iterable[str]]) -> Iterator[str]:
        for group in map(list, groups):
            for self.left, line in zip(range(len(group) - 1, -1, -1), group, strict=True):
                self.number += 1
                yield line

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def batches(self, items: Iterable[Item]) -> Iterator[list[Item]]:
        """Yield the items made from the lines, at most one from each, in one list per group."""
        batch = []
        for item in items:
            batch.append(item)
            if not self.left:
                yield batch
                batch = []
        if batch:
            yield batch


def read_records(
    lines: Lines, source: str | Path, recognise: Callable[[str], str] = lambda line: JSON
) -> Iterator[Record]:
    """Yield the records of lines of one format. source: the file, used in error messages.

    recognise: returns the format, by the first line that is not blank.
    """
    format_name, n_columns = None, 0
    for line in lines:
        where = f"{source}:{lines.number}"
        if not line.strip():
            yield where, ""
            continue
        is_first, format_name = format_name is None, format_name or recognise(line)
        if format_name == TEXT:
            yield where, line
        elif format_name == JSON:
            yield from _objects(line, lines, source, is_first)
        else:
            row = split_columns(line, format_name, n_columns, lines, where)
            n_columns = n_columns or len(row)
            if len(row) != n_columns:
                raise UserError(f"{where}: found {line!r:.60}, expected {n_columns} columns as in the first line.")
            yield where, row


def _objects(line: str, lines: Lines, source: str | Path, is_first: bool) -> Iterator[Record]:
    """The object of a line. If it is the first and not complete, those of all lines: of an array, or a single one."""
    where = f"{source}:{lines.number}"
    try:
        try:
            value = parse_json(line)
        except ValueError:
            if not is_first:
                raise
            value, where = parse_json("\n".join([line, *lines])), str(source)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where}: invalid JSON ({error}), expected an object per line, or an array of them."
        ) from error
    if not isinstance(value, dict | list):
        raise UserError(f"{where}: found {value!r:.60}, expected a JSON object.")
    if isinstance(value, dict):
        yield where, value
        return
    for k, record in enumerate(number_records(value, source), 1):
        lines.left = len(value) - k
        yield record


def number_records(values: Iterable[dict[str, Any]], source: str | Path) -> Iterator[Record]:
    """Make records of dictionaries. source: where they come from, used in error messages."""
    for k, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise UserError(f"{source}: object {k}: found {value!r:.60}, expected a dictionary.")
        yield f"{source}: object {k}", value


def name_columns(records: Iterable[Record], is_header: Callable[[list[str]], bool]) -> Iterator[Record]:
    """Replace rows by dictionaries. Their names are in the first row, if it is a header, else numbers from 0."""
    names: list[str] = []
    for where, row in records:
        if isinstance(row, list):
            if not names:
                names = row if is_header(row) else list(map(str, range(len(row))))
                if names is row:
                    continue
            row = dict(zip(names, row, strict=True))
        yield where, row


def find_columns(names: Iterable[str], header: Iterable[str]) -> list[str]:
    """Find names in a header or an object, ignoring case. Return them as written there, or [] unless all exist."""
    written = {name.strip().lower(): name for name in header}
    found = [written.get(name.lower(), "") for name in names]
    return found if all(found) else []


def is_csv(source: str | Path) -> bool:
    return str(source).lower().removesuffix(".gz").endswith(".csv")


def is_json(line: str) -> bool:
    """Whether lines that begin with this one hold JSON objects."""
    return bool(JSON_START.match(line))


def find_format(line: str, source: str | Path = "") -> str:
    """The format of lines that begin with this one: JSON, text, or what separates their columns.

    That is a tab or, outside quotes, the more frequent of comma and semicolon; a source that is_csv may have one column.
    """
    delimiters = "\t" if "\t" in line else ",;"
    n, best = max((len(split_columns(line, delimiter)), delimiter) for delimiter in delimiters)
    return JSON if is_json(line) else best if n > 1 or is_csv(source) else TEXT


def possible_columns(line: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each delimiter that may divide a line, a comma or semicolon only without a space after it, and the columns."""
    for delimiter in "\t,;":
        row = split_columns(line, delimiter)
        if len(row) > 1 and (delimiter == "\t" or not any(column.startswith(" ") for column in row)):
            yield delimiter, row


def split_columns(
    line: str, delimiter: str, n_columns: int = 0, more: Iterable[str] = (), where: str = ""
) -> list[str]:
    """The columns of a line. more: the lines below it, in which a field in quotes may continue.

    Tabs separate even within quotes, and quotes are kept, unless they are needed, as pandas writes them: a field has doubled
    quotes in it, all fields are in quotes, or only so the record has n_columns.
    """
    columns, is_tsv = line.split(delimiter), delimiter == "\t"
    quoted = [column for column in columns if column.startswith('"')]
    if not quoted:
        return columns
    if is_tsv and not (len(columns) < n_columns and columns[-1].count('"') % 2):
        more = ()
    lines = (f"{text}\n" for text in chain([line], more))
    try:
        row = next(csv.reader(lines, delimiter=delimiter, strict=is_tsv or more != ()))
    except csv.Error as error:
        if is_tsv:
            return columns
        raise UserError(f"{where}: found {line!r:.60}, expected CSV ({error}). Double quotes within quotes.") from error
    is_needed = len(quoted) == len(columns) or any('""' in column[1:-1] for column in quoted)
    return row if not is_tsv or is_needed or len(row) == n_columns != len(columns) else columns
