"""Formats of labelled sentences, recognised by their content.

columns   a token and its label per line, see columns.py
tsv       a sentence per line, its tokens and its labels: `The cat<TAB>B-NP I-NP`, `我爱北京<TAB>O O B I`
tagged    a sentence per line, as `word/TAG word/TAG`, see tagged_text.py
json      a sentence per object, `{"tokens": [...], "ner_tags": [...]}`: JSON lines, or an array of objects
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, format_count, log
from elmo_core.text.text_files import JSON_ARRAY, parse_array, parse_json, read_lines
from elmo_tasks.tagging.columns import parse_token, read_columns
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.tagged_text import read_tagged

FORMATS = ("columns", "tsv", "tagged", "json")
SAMPLE = 100  # lines by which a format is recognised
HEADER = "text_a\tlabel"  # of PaddleNLP's files, which also separate tokens by \x02
LABEL_KEYS = ("labels", "ner_tags", "tags", "pos_tags", "chunk_tags")


@dataclass
class SentenceReader:
    """Reads labelled sentences.

    format: one of FORMATS; by default recognised. token, label: columns, or keys of JSON. segmentation, feature: see
    columns.py. label_names: the names of labels that are numbers. pieces: splits tagged words.
    """

    format: str | None = None
    token: int | str = 0
    label: int | str = -1
    segmentation: str = "none"
    feature: int | None = None
    label_names: Sequence[str] = ()
    pieces: PieceSplitter | None = None

    def read(self, path: Path) -> list[Sentence]:
        disk.check_input(path, "labelled sentences")
        format_name = self.format_of(path)
        if format_name == "columns":
            columns = [column if isinstance(column, int) else None for column in (self.token, self.label)]
            if None in columns:
                raise UserError(f"{path} has columns: `token_column` and `label_column` are numbers, not keys of JSON.")
            return read_columns(path, *columns, self.segmentation, self.feature)
        if self.feature is not None:
            raise UserError(f"{path} is {format_name}, which has no `feature_column`. Expected columns.")
        sentences = [sentence for sentence in self.parse(read_lines(path), path, format_name) if sentence.tokens]
        if not sentences:
            raise UserError(f"{path}: no sentences.")
        if not self.format:
            log.info(f"{path}: {format_count(len(sentences), 'sentences')}, read as {format_name}")
        return sentences

    def format_of(self, path: Path) -> str:
        return self.format or detect_format(list(islice(read_lines(path), SAMPLE)))

    def parse(
        self, lines: Iterable[str], source: str | Path, format_name: str, labelled: bool = True
    ) -> Iterator[Sentence]:
        """Yield the sentences of lines in a format other than columns. labelled: whether labels are required."""
        if format_name == "tagged":
            yield from read_tagged(lines, source, self.pieces or PieceSplitter((), whole=True))
            return
        for tokens, labels, where in (
            self._records(lines, source, labelled) if format_name == "json" else _tsv_rows(lines, source)
        ):
            if labelled and len(tokens) != len(labels):
                counts = f"{format_count(len(tokens), 'tokens')} and {format_count(len(labels), 'labels')}"
                raise UserError(f"{where}: {counts}, expected as many labels as tokens.")
            tokens = [parse_token([token], 0, self.segmentation, None, where) for token in tokens]
            yield Sentence(tokens, ["_".join(label.split()) for label in labels], where)

    def _records(
        self, lines: Iterable[str], source: str | Path, labelled: bool
    ) -> Iterator[tuple[list[str], list[str], str]]:
        names = list(self.label_names)
        for where, record in _objects(lines, source):
            names = record.get("names", names)
            key = self.token if isinstance(self.token, str) else "tokens"
            if key not in record and "names" in record:
                continue
            tokens, labels = record.get(key), self._labels(record) if labelled else []
            for value, what in ((tokens, key), (labels, "labels"), (names, "names")):
                if not isinstance(value, list) or not all(isinstance(item, str | int) for item in value):
                    raise UserError(f"{where}: {what} is {value!r:.60}, expected a list. Its keys are {list(record)}.")
            if numbers := [label for label in labels if isinstance(label, int) and not 0 <= label < len(names)]:
                raise UserError(f"{where}: the label {numbers[0]} has no name. Give the names with `label_names`.")
            yield (
                list(map(str, tokens)),
                [label if isinstance(label, str) else str(names[label]) for label in labels],
                where,
            )

    def _labels(self, record: dict[str, Any]) -> Any:
        keys = [self.label] if isinstance(self.label, str) else LABEL_KEYS
        return next((record[key] for key in keys if key in record), [])


def detect_format(lines: Sequence[str]) -> str:
    """The format of a file that begins with these lines; columns if in doubt."""
    lines = [line for line in lines if line.strip()]
    if lines and (lines[0].lstrip().startswith('{"') or JSON_ARRAY.match(lines[0])):
        return "json"
    rows = [split_tsv(line) for line in lines if line != HEADER]
    if any(len(tokens) == len(labels) > 1 for tokens, labels in rows):
        return "tsv"
    items = list(chain.from_iterable(line.split() for line in lines))
    return "tagged" if items and all(all(item.rpartition("/")[::2]) for item in items) else "columns"


def split_tsv(line: str) -> tuple[list[str], list[str]]:
    """The tokens and labels of a line; without spaces between tokens, each character is one. Without a tab, no labels."""
    separator = "\2" if "\2" in line else None
    text, _, labels = line.partition("\t")
    tokens, labels = text.split(separator), [] if "\t" in labels else labels.split(separator)
    if len(tokens) != len(labels):
        characters = [character for character in text if not character.isspace()]
        tokens = characters if len(characters) == len(labels) else tokens
    return tokens, labels


def _tsv_rows(lines: Iterable[str], source: str | Path) -> Iterator[tuple[list[str], list[str], str]]:
    for number, line in enumerate(lines, 1):
        if line.strip() and line != HEADER:
            yield *split_tsv(line), f"{source}:{number}"


def _objects(lines: Iterable[str], source: str | Path) -> Iterator[tuple[str, dict]]:
    """The objects of JSON lines or of an array, with file and line or number, which error messages name."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, (1, ""))
    if JSON_ARRAY.match(first[1]):
        objects = parse_array("\n".join([first[1], *(line for _, line in numbered)]), source)
        yield from ((f"{source}: object {number}", value) for number, value in enumerate(objects, 1))
        return
    for number, line in chain([first] if first[1] else [], numbered):
        where = f"{source}:{number}"
        try:
            value = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: invalid JSON ({error}), expected an object per line.") from error
        if not isinstance(value, dict):
            raise UserError(f"{where}: found {value!r:.60}, expected an object.")
        yield where, value
