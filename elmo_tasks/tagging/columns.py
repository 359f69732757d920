"""Sentences in columns, as those of the CoNLL tasks: a token a line, a blank line between sentences.

Columns are separated by tabs or, in lines without a tab, by blanks. White space in a token becomes `_`. A line that begins
with -DOCSTART- ends a sentence like a blank one. Comments of CoNLL-U before a sentence are passed over.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_tasks.tagging.data import Sentence

Rows = list[tuple[str, list[str]]]  # the lines of a sentence, and their columns
SEGMENTATION = ("none", "strip", "feature")
PLACED = re.compile(r"(.|\D+)(\d+)")
COMMENT = re.compile(r"# ?(newdoc\b|newpar\b|\S+( =|:))[^\t]*$")  # before a sentence of CoNLL-U


class Token(str):
    """A token, and what else its file says of it: a character's place in its word, from 0; the feature in its column."""

    place = -1
    feature = ""


def token_reader(segmentation: str = "none"):
    """A function that turns what a file has into a token.

    segmentation: whether a character is followed by its place in its word, as in `科0 技1`. "strip" leaves the place out,
    "feature" leaves it to the tagger to read.
    """

    def read(text: str) -> str:
        if segmentation == "none":
            return re.sub(r"\s+", "_", text) or "_"
        match = PLACED.fullmatch(text)
        if not match:
            raise UserError(f"found {text!r:.40}, expected a character and its place in its word, as in 科0.")
        token = Token(re.sub(r"\s+", "_", match[1]))
        token.place = int(match[2])
        return token if segmentation == "feature" else str(token)

    return read


def sentence_rows(lines: Iterable[str], source: str | Path, *needed: int) -> Iterator[tuple[int, Rows]]:
    """The sentences in lines of columns, each with the number of its first line. needed: columns that must be there."""
    rows: Rows = []
    for number, line in enumerate(chain(lines, [""]), 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if rows:
                yield number - len(rows), rows
            rows = []
            continue
        if not rows and COMMENT.match(line):
            continue
        columns = line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
        if lacking := [k for k in needed if not -len(columns) <= k < len(columns)]:
            raise UserError(f"{source}:{number}: {len(columns)} columns, there is no column {lacking[0]}: {line!r:.60}")
        rows.append((line, [column.strip(" ") for column in columns]))


def tokens_of(
    rows: Rows, column: int, read, source: str | Path, first: int, step: int = 1, feature: int | None = None
) -> list[str]:
    """The tokens in a column, as `read` makes them. first: the number of the first row's line; step: to the next.

    feature: the column of the tokens' features, if they have any.
    """
    try:
        found = []
        for _, columns in rows:
            token = read(columns[column])
            if feature is not None:
                place, token = getattr(token, "place", -1), Token(token)
                token.place, token.feature = place, columns[feature] or "_"
            found.append(token)
        return found
    except UserError as error:
        raise UserError(f"{source}:{first + step * len(found)}: {error}") from error


def read_columns(
    path: str | Path, token: int = 0, label: int = -1, segmentation: str = "none", feature: int | None = None
) -> list[Sentence]:
    """The sentences of a file. token, label, feature: their columns, from 0, or from the end if negative."""
    disk.check_input(Path(path), "columns, a token and its label in each line")
    found, read = [], token_reader(segmentation)
    for first, rows in sentence_rows(read_lines(path), path, token, label, feature or 0):
        labels = [columns[label].strip() for _, columns in rows]
        for number, ((_, columns), name) in enumerate(zip(rows, labels, strict=True), first):
            n = len(columns)
            if n == 1 or name.split() != [name]:
                raise UserError(f"{path}:{number}: found {columns!r:.80}, expected a token and its label.")
            if token % n == label % n:
                raise UserError(
                    f"{path}:{number}: column {label} of {columns!r:.80} is that of the tokens, not a label."
                )
        found.append(Sentence(tokens_of(rows, token, read, path, first, feature=feature), labels))
    if not found:
        raise UserError(f"{path}: no sentence. Expected a token and its label in each line.")
    return found
