"""Sentences in columns, as those of the CoNLL tasks: a token a line, a blank line between sentences.

Columns are separated by tabs or, in lines without a tab, by blanks. White space in a token becomes `_`. A line that begins
with -DOCSTART- ends a sentence like a blank one. Comments of CoNLL-U before a sentence are passed over.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_tasks.tagging.data import Sentence

Row = tuple[int, str, list[str]]  # the number of a line, the line, its columns
SEGMENTATION = ("none", "strip", "feature")
PLACED = re.compile(r"(.|\D+)(\d+)")
COMMENT = re.compile(r"# ?(newdoc\b|newpar\b|\S+( =|:))[^\t]*$")  # before a sentence of CoNLL-U


class Token(str):
    """A token, and what else its file says of it: a character's place in its word, from 0; the feature in its column."""

    position_in_word = -1
    feature = ""


def parse_token(columns: Sequence[str], column: int, segmentation: str, feature: int | None, where: str) -> str:
    """The token in a column.

    segmentation: whether a character is followed by its place in its word, as in `科0 技1`. "strip" leaves the place out,
    "feature" leaves it to the tagger to read.
    feature: the column of the tokens' features, if they have any.
    where: file and line, for messages.
    """
    text, place = columns[column], -1
    if segmentation != "none":
        match = PLACED.fullmatch(text)
        if not match:
            raise UserError(f"{where}: found {text!r:.40}, expected a character and its place in its word, as in 科0.")
        text, place = match[1], int(match[2]) if segmentation == "feature" else -1
    text = re.sub(r"\s+", "_", text) or "_"
    if place < 0 and feature is None:
        return text
    token = Token(text)
    token.position_in_word, token.feature = place, "" if feature is None else columns[feature] or "_"
    return token


def sentence_rows(lines: Iterable[str], source: str | Path, *needed: int) -> Iterator[list[Row]]:
    """The sentences in lines of columns. needed: columns that must be there."""
    rows: list[Row] = []
    for number, line in enumerate(chain(lines, [""]), 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if rows:
                yield rows
            rows = []
            continue
        if not rows and COMMENT.match(line):
            continue
        columns = line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
        if lacking := [k for k in needed if not -len(columns) <= k < len(columns)]:
            raise UserError(f"{source}:{number}: {len(columns)} columns, there is no column {lacking[0]}: {line!r:.60}")
        rows.append((number, line, [column.strip(" ") for column in columns]))


def read_columns(
    path: str | Path, token: int = 0, label: int = -1, segmentation: str = "none", feature: int | None = None
) -> list[Sentence]:
    """The sentences of a file. token, label, feature: their columns, from 0, or from the end if negative."""
    disk.check_input(Path(path), "columns, a token and its label in each line")
    sentences = []
    for rows in sentence_rows(read_lines(path), path, token, label, feature or 0):
        sentence = Sentence([], [])
        for number, _, columns in rows:
            n, name, where = len(columns), columns[label].strip(), f"{path}:{number}"
            if n == 1 or name.split() != [name]:
                raise UserError(f"{where}: found {columns!r:.80}, expected a token and its label.")
            if token % n == label % n:
                raise UserError(f"{where}: column {label} of {columns!r:.80} is that of the tokens, not a label.")
            sentence.tokens.append(parse_token(columns, token, segmentation, feature, where))
            sentence.labels.append(name)
        sentences.append(sentence)
    if not sentences:
        raise UserError(f"{path}: no sentence. Expected a token and its label in each line.")
    return sentences
