"""Tagging text or files of sentences, as their lines arrive, and formatting the labels as columns, JSON or `word/TAG`."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from elmo_core.messages import log
from elmo_tasks.records import TEXT, Lines, find_columns, possible_columns
from elmo_tasks.tagging.columns import row_tokens, sentence_rows
from elmo_tasks.tagging.formats import FORMATS, HEADER, SAMPLE, SentenceReader, detect_format, split_tsv
from elmo_tasks.tagging.pieces import joined_words
from elmo_tasks.tagging.scheme import split_lac_label
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.text import Line

INPUT_FORMATS = (TEXT, *FORMATS)
OUTPUT_FORMATS = ("columns", "json", "tagged", "words")
MIN_ROWS = 5  # fewer lines than that are not recognised as columns


def tag(
    tagger: Tagger, groups: Iterable[list[str]], source: str | Path, reader: SentenceReader, lang: str, format_name: str
) -> Iterator[str]:
    """Tag groups of lines as they arrive, and yield the formatted output of each. A blank line stays blank.

    reader: its format is that of the input; by default recognised. lang: by default as in training. format_name: as below.
    """
    scheme = tagger.settings.scheme
    for lines in input_lines(tagger, groups, source, reader, lang):
        results = iter(tagger.tagged(filter(None, lines), with_spans=format_name == "json"))
        yield "".join(formatted(line, *next(results), format_name, scheme) if line else "\n" for line in lines)


def formatted(line: Line, labels: list[str], spans: list, format_name: str, scheme: str) -> str:
    """The output for a line, with a final newline.

    format_name: columns (a line per token, then a blank one), tagged (one line of `word/TAG`, in LAC's scheme), words (one
    line of words), or json (one line with the text, its tokens, their labels, and the spans).
    """
    if format_name == "words":
        return " ".join(word for word, _ in joined_words(line.words, labels, scheme)) + "\n"
    if format_name == "tagged":
        return " ".join(f"{word}/{tag}" for word, tag in joined_words(line.words, labels)) + "\n"
    if format_name == "columns":
        rows = line.rows or line.words
        separator = " " if rows and " " in rows[0] and "\t" not in rows[0] else "\t"
        return "".join(f"{row}{separator}{label}\n" for row, label in zip(rows, labels, strict=True)) + "\n"
    spans = [{**span.to_dict(), "score": round(span.score, 6)} for span in spans]
    values = {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}
    return json.dumps(values, ensure_ascii=False) + "\n"


def input_lines(
    tagger: Tagger, groups: Iterable[list[str]], source: str | Path, reader: SentenceReader, lang: str
) -> Iterator[list[Line | None]]:
    """Yield the sentences of each group of lines; None for a blank line."""
    groups = iter(groups)
    first = next(groups, [])
    format_name = reader.format or recognise(first[:SAMPLE], tagger, source, reader)
    has_tabs = any("\t" in line for line in first[:SAMPLE])
    if format_name != (reader.format or TEXT):
        log.info(f"{source} is read as {format_name}. If it has labels, they are not read: `evaluate` scores them.")
    elif format_name == TEXT and has_tabs and (lang or tagger.settings.lang) != "none":
        log.warning(f"{source} has columns, separated by tabs: all of them are tagged as text. Pass the text alone.")
    lines = Lines(chain([first], groups))
    if format_name == "columns":
        how = source, reader.token, reader.segmentation, reader.feature
        for batch in lines.batches(sentence_rows(lines, source, reader.token, reader.feature or 0)):
            yield [Line.from_tokens(row_tokens(rows, *how), [row for _, row, _ in rows]) for rows in batch if rows]
        return
    for batch in lines.batches(reader.parse(lines, source, format_name)):
        yield [_line(tagger, record, where, reader, lang, format_name) for where, record in batch]


def _line(
    tagger: Tagger, record: dict | str, where: str, reader: SentenceReader, lang: str, format_name: str
) -> Line | None:
    """The tokens of a record, of text or of tokens; None if it is blank."""
    text = reader.text(record) if isinstance(record, dict) else record if format_name == TEXT else None
    if record == "" or text is not None:
        return tagger.tokenised(text, lang, where) if text else None
    sentences = reader.sentences(record, where, format_name, labelled=False)
    return Line.from_tokens(sentences[0].tokens) if sentences else None


def recognise(lines: Sequence[str], tagger: Tagger, source: str | Path, reader: SentenceReader) -> str:
    """The format of input that begins with these lines: one of FORMATS if it is JSON, CSV with a text, or has the tagger's
    labels; else text.
    """
    if tagger.features:
        return "columns"
    lines = [line for line in lines if line.strip() and line != HEADER]
    known = {name for label in tagger.labels for name in (label, split_lac_label(label)[0])}
    format_name = detect_format(lines, source)
    if format_name == "tsv":
        labels = list(chain.from_iterable(split_tsv(line)[1] for line in lines))
    elif format_name == "tagged":
        labels = [item.rpartition("/")[2] for line in lines for item in line.split()]
    else:
        rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
        are_rows = len({len(row) for row in rows}) == 1 < len(rows[0])
        are_rows = are_rows and (len(rows) >= MIN_ROWS or all("\t" in line for line in lines))
        labels = [row[-1] for row in rows] if are_rows else []
    if format_name in ("json", "csv") or (labels and known.issuperset(labels)):
        return format_name
    has_header = any(find_columns([reader.key("text")], row) for line in lines[:1] for _, row in possible_columns(line))
    return "csv" if has_header else TEXT
