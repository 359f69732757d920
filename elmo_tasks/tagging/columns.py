"""Sentences in columns, as in the CoNLL tasks: one token per line, a blank line between sentences.

Columns are separated by tabs or, in lines without a tab, by spaces. White space in a token becomes `_`. A line that begins
with -DOCSTART- ends a sentence, as a blank one does. CoNLL-U comments before a sentence are skipped.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from elmo_core.messages import UserError, format_count
from elmo_core.text.text_files import read_lines
from elmo_tasks.tagging.data import Sentence

Row = tuple[int, str, list[str]]  # line number, line, columns
CHARACTER_WITH_POSITION = re.compile(r"(.|\D+)(\d+)")
CONLLU_COMMENT = re.compile(r"# ?(newdoc\b|newpar\b|\S+( =|:))[^\t]*$")


class Token(str):
    """A token with a character's position in its word, from 0 (-1: unknown), and its value in the feature column."""

    position_in_word = -1
    feature = ""


def parse_token(text: str, segmentation: str, where: str, feature: str = "") -> str:
    """Return the token that a text stands for.

    segmentation: whether a character is followed by its position in the word, as in `科0 技1`. "strip" drops the
    position, "feature" keeps it for the tagger.
    where: file and line, used in error messages. feature: the token's value in the feature column.
    """
    position = -1
    if segmentation != "none":
        match = CHARACTER_WITH_POSITION.fullmatch(text)
        if not match:
            raise UserError(
                f"{where}: found {text!r:.40}, expected a character and its position in the word, as in 科0."
            )
        text, position = match[1], int(match[2]) if segmentation == "feature" else -1
    text = re.sub(r"\s+", "_", text) or "_"
    if position < 0 and not feature:
        return text
    token = Token(text)
    token.position_in_word, token.feature = position, feature
    return token


def sentence_rows(lines: Iterable[str], source: str | Path, *required: int | str) -> Iterator[list[Row]]:
    """Yield the rows of a sentence for the line that ends it, [] for all others. required: columns of every row."""
    if any(isinstance(column, str) for column in required):
        raise UserError(f"{source} has columns: `token_column` and `label_column` are numbers, not keys of JSON.")
    rows: list[Row] = []
    for number, line in enumerate(chain(lines, [""]), 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            yield rows
            rows = []
            continue
        if rows or not CONLLU_COMMENT.match(line):
            columns = line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
            if missing := [k for k in required if not -len(columns) <= k < len(columns)]:
                raise UserError(
                    f"{source}:{number}: {format_count(len(columns), 'columns')}, no column {missing[0]}: {line!r:.60}"
                )
            rows.append((number, line, [column.strip(" ") for column in columns]))
        yield []


def row_tokens(rows: list[Row], source: str | Path, token: int, segmentation: str, feature: int | None) -> list[str]:
    """The tokens of a sentence's rows. token, feature: their columns."""
    return [
        parse_token(row[token], segmentation, f"{source}:{number}", "" if feature is None else row[feature] or "_")
        for number, _, row in rows
    ]


def read_columns(
    path: str | Path, token: int = 0, label: int = -1, segmentation: str = "none", feature: int | None = None
) -> list[Sentence]:
    """Read a file's sentences. token, label, feature: their columns, from 0, or from the end if negative."""
    sentences = []
    for rows in filter(None, sentence_rows(read_lines(path), path, token, label, feature or 0)):
        labels = []
        for number, _, columns in rows:
            n, name = len(columns), columns[label].strip()
            if n == 1 or name.split() != [name]:
                raise UserError(f"{path}:{number}: found {columns!r:.80}, expected a token and its label.")
            if token % n == label % n:
                raise UserError(f"{path}:{number}: column {label} of {columns!r:.80} holds the tokens, not labels.")
            labels.append(name)
        tokens = row_tokens(rows, path, token, segmentation, feature)
        sentences.append(Sentence(tokens, labels, f"{path}:{rows[0][0]}"))
    return sentences
