"""Labelled sentences: their formats, and their labels.

columns    a token and its label per line, separated by tabs or, in lines without a tab, by spaces; a blank line, or one that
           begins with -DOCSTART-, ends a sentence; a first line such as "token<TAB>label" is a header
conllu     CoNLL-U: columns with comments, ranges and empty nodes, which are left out
json       objects in an array, jsonl: one per line; of tokens and labels, {"tokens": [...], "ner_tags": [...]}, or of a text
           and its spans, as doccano and CLUENER write them, where each line of the text is a sentence:
           {"text": "Anna lives in Paris.", "label": [[0, 4, "PER"], [14, 19, "LOC"]]}, or "spans" or "entities" of objects
           {"text": "叶老桂是北京人。", "label": {"name": {"叶老桂": [[0, 2]]}}}, where 2 is the last character
tagged     a sentence per line, as word/TAG word/TAG; the last slash of a word counts
segmented  a sentence per line, as words with spaces between them; the characters are tokens, labelled B, M, E, or S
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.checks import as_list, check_sentence, describe
from elmo_core.files import disk
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.language import AUTO, recognise
from elmo_core.text.offsets import token_offsets
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks import records
from elmo_tasks.records import Label, Record, check_label, check_text, label_ids, value_of
from elmo_tasks.tagging.scheme import OUTSIDE
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import PieceSplitter

BY_ENDING = {"json": "json", "jsonl": "jsonl", "conllu": "conllu"}  # others are columns
TOKEN_KEYS = ("token", "tokens", "word", "words")
LABEL_KEYS = ("labels", "ner_tags", "tags", "pos_tags", "chunk_tags", "label", "tag", "pos", "ner")
SPAN_KEYS = ("label", "labels", "spans", "entities")
CharSpan = tuple[int, int, str]  # begin, end and label


@dataclass
class Sentence:
    """A sentence's tokens and their labels, if these are known. where: its file and line.

    is_tagged: read as `word/TAG`; the tokens are whole words, which are not yet split into pieces.
    """

    tokens: list[str]
    labels: list[Label] | None
    where: str = field(default="", compare=False, repr=False)
    is_tagged: bool = field(default=False, compare=False, repr=False)


@dataclass
class SentenceReader:
    """Reads labelled sentences, as the settings say."""

    settings: TaggerSettings

    def __post_init__(self):
        columns = self.settings.columns
        self.columns = (
            [*map(str.strip, columns.split(","))] if isinstance(columns, str) else columns
        )
        if self.columns is not None and len(self.columns) != 2:
            raise UserError(
                f"`columns` is {columns!r}, expected two: of the tokens, and of the labels."
            )

    def read(self, data: Any, name: str) -> list[Sentence]:
        """The sentences of a file, of a table, or of a pair of sentences and labels. name: of the argument."""
        if isinstance(data, str | Path):
            name, sentences = str(data), self._read_file(Path(data))
        elif records.is_table(data):
            sentences = self._of_records(records.table_records(data, name))
        else:
            given = enumerate(records.labelled(data, name))
            sentences = [
                self._sentence(check_sentence(x, k, of_texts=""), labels, at)
                for k, (at, x, labels) in given
            ]
        sentences = [sentence for sentence in sentences if sentence.tokens]
        if not sentences:
            raise UserError(f"{name}: there are no sentences with tokens.")
        return sentences

    def format_of(self, path: Path) -> str:
        if records.ending(path) == "csv" and not self.settings.data_format:
            raise UserError(
                f"{path}: taggers read no CSV. Write a token and its label per line, with a tab between."
            )
        return self.settings.data_format or BY_ENDING.get(records.ending(path), "columns")

    def _read_file(self, path: Path) -> Iterator[Sentence]:
        disk.check_input(path, "labelled sentences")
        format_name = self.format_of(path)
        if format_name in ("columns", "conllu"):
            return self._read_columns(path, format_name == "conllu")
        if format_name in ("json", "jsonl"):
            return self._of_records(records.read_records(path, (), format_name))
        make = tagged_sentence if format_name == "tagged" else segmented_sentence
        return (make(line, f"{path}:{k}") for k, line in enumerate(read_lines(path), 1))

    def _sentence(self, tokens: Sequence[str], labels: Any, where: str) -> Sentence:
        """Check tokens and labels."""
        names = as_list(labels)
        if names is None:
            raise UserError(
                f"{where}: found {describe(labels)}, expected a list of labels, one for each token."
            )
        if len(tokens) != len(names):
            raise UserError(
                f"{where}: {len(tokens)} tokens and {len(names)} labels, expected as many."
            )
        tokens = [
            check_text(token, f"{where}, token {k}", "token") for k, token in enumerate(tokens)
        ]
        return Sentence(
            tokens, [check_label(x, f"{where}, token {k}") for k, x in enumerate(names)], where
        )

    def _read_columns(self, path: Path, is_conllu: bool) -> Iterator[Sentence]:
        try:
            pair = self.columns or ((1, 3) if is_conllu else (0, -1))
            token, label = map(int, pair)
        except ValueError as error:
            raise UserError(
                f"{path} has columns: `columns` are numbers, not {self.columns}."
            ) from error
        tokens, labels, first, width = [], [], 0, 0
        for number, line in enumerate(chain(read_lines(path), [""]), 1):
            if not line.strip() or line.startswith("-DOCSTART-"):
                if tokens:
                    yield Sentence(tokens, labels, f"{path}:{first}")
                tokens, labels = [], []
                continue
            names = line.lower().split()
            is_header = number == 1 and names[0] in TOKEN_KEYS and names[-1] in LABEL_KEYS
            if is_header or (is_conllu and re.match(r"#|\d+[-.]\d+\t", line)):
                continue
            columns = (
                line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
            )
            n, where, first = len(columns), f"{path}:{number}", first if tokens else number
            if not (is_conllu or self.columns):
                is_tagged = number == 1 and all("/" in part[1:-1] for part in columns)
                if (
                    other := "tagged"
                    if is_tagged
                    else "conllu"
                    if n > 9 and columns[0] == "1"
                    else ""
                ):
                    raise UserError(
                        f"{where}: {line!r:.60} looks like `data_format={other}`. Set that, or `columns`."
                    )
            width = n if self.columns else width or n
            if n != width or not (-n <= token < n and -n <= label < n) or token % n == label % n:
                expected = f"a token in column {token}, a label in {label}, and as many columns in all lines"
                raise UserError(f"{where}: found {line!r:.60}, expected {expected}. Use tabs.")
            tokens.append(re.sub(r"\s+", "_", columns[token].strip(" ")) or "_")
            labels.append(check_label(columns[label].strip(), where))

    def _of_records(self, given: Iterator[Record]) -> Iterator[Sentence]:
        """Yield the sentences of records of tokens and labels, or of texts and spans."""
        given, faults, user_dict = list(given), defaultdict(list), self.settings.user_dict
        token, label = map(str, self.columns or ("", ""))
        texts = [
            record[token or "text"]
            for _, record in given
            if isinstance(record.get(token or "text"), str)
        ]
        language = self.settings.lang
        if language == AUTO:
            language = recognise(texts).replace("zh", "characters")
        tokeniser = Tokeniser(language, Segmenter.from_file(user_dict) if user_dict else None)
        for where, record in given:
            if isinstance(text := record.get(token or "text"), str):
                spans = find_spans(record, text, [label] if label else SPAN_KEYS, where)
                yield from label_tokens(check_text(text, where), spans, tokeniser, where, faults)
                continue
            key = label or next((key for key in LABEL_KEYS if key in record), "labels")
            try:
                tokens = check_sentence(
                    value_of(record, token or "tokens", where), where, of_texts=""
                )
            except TypeError as error:
                raise UserError(str(error)) from error
            yield self._sentence(tokens, value_of(record, key, where), where)
        for fault, places in faults.items():
            log.warning(f"{fault}: {len(places):,}. The first: {places[0]}")


def tagged_sentence(line: str, where: str) -> Sentence:
    """The words of a line, with their tags."""
    sentence = Sentence([], [], where, is_tagged=True)
    for text in line.split():
        word, _, tag = text.rpartition("/")
        if not word or not tag:
            expected = "a word, a slash and its tag, as in 故事/n"
            raise UserError(f"{where}: {text!r:.60}, expected {expected}.")
        sentence.tokens.append(word)
        sentence.labels.append(tag)
    return sentence


def in_pieces(sentences: Sequence[Sentence], splitter: PieceSplitter) -> list[Sentence]:
    """The sentences with their tagged words split into pieces, which have labels in LAC's scheme."""
    return [
        _split(sentence, splitter) if sentence.is_tagged else sentence for sentence in sentences
    ]


def _split(sentence: Sentence, splitter: PieceSplitter) -> Sentence:
    tokens = []
    labels = []
    for word, tag in zip(sentence.tokens, sentence.labels, strict=True):
        pieces = splitter.split(word)
        tokens += pieces
        if len(pieces) == 1 or tag == OUTSIDE:
            labels += [tag] * len(pieces)
        else:
            labels.append(f"{tag}-B")
            labels += [f"{tag}-I"] * (len(pieces) - 1)
    return Sentence(tokens, labels, sentence.where)


def segmented_sentence(line: str, where: str) -> Sentence:
    """The characters of a line of words."""
    labels = ["S" if len(word) == 1 else f"B{'M' * (len(word) - 2)}E" for word in line.split()]
    return Sentence(list("".join(line.split())), list("".join(labels)), where)


def find_spans(
    record: Mapping[str, Any], text: str, keys: Sequence[str], where: str
) -> list[CharSpan]:
    """The spans of a text, in order. keys: one of them holds the spans."""
    value = next((record[key] for key in keys if key in record), None)
    try:
        if isinstance(value, dict):  # of CLUENER
            mentions = [
                (label, mention)
                for label, mentions in value.items()
                for mention in mentions.items()
            ]
            spans = [
                (at[0], at[0] + len(name), label)
                for label, (name, places) in mentions
                for at in places
            ]
            valid = all(text[begin:end] in value[label] for begin, end, label in spans)
        else:
            spans = [_span(item) for item in value]
            valid = all(
                0 <= begin < end <= len(text) and isinstance(label, str)
                for begin, end, label in spans
            )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise UserError(
            f"{where}: found the spans {value!r:.80}, expected offsets in the {len(text)} characters of the text, and "
            f"labels, as in [[0, 4, 'PER']]. Its keys are {list(record)}."
        )
    return [(begin, end, check_text(label, where)) for begin, end, label in sorted(spans)]


def _span(item: Any) -> CharSpan:
    if isinstance(item, dict):
        begin, end = ("start_offset", "end_offset") if "start_offset" in item else ("start", "end")
        item = item[begin], item[end], item["label"]
    begin, end, label = item
    return index(begin), index(end), label


def _within_lines(
    text: str, spans: Sequence[CharSpan], where: str, faults: dict[str, list[str]]
) -> list[CharSpan]:
    """The spans without those that cross a line break: each line is a sentence, of which a span is a part."""
    kept = []
    for begin, end, label in spans:
        marked = text[begin:end]
        if "\n" in marked.strip():
            faults["spans over a line break, left out"].append(f"{where}: {marked!r:.40}")
        else:
            kept.append((begin, end, label))
    return kept


def label_tokens(
    text: str,
    spans: Sequence[CharSpan],
    tokeniser: Tokeniser,
    where: str,
    faults: dict[str, list[str]],
) -> Iterator[Sentence]:
    """Yield the sentences of a text, one per line, with labels in BIO. faults: spans that could not be encoded."""
    begin, encoded = 0, set()
    spans = _within_lines(text, spans, where, faults)
    for line in text.split("\n"):
        tokens = tokeniser(line)
        labels, offsets = [OUTSIDE] * len(tokens), token_offsets(tokens, line) + begin
        for span in spans:
            first, end, label = span
            covered = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > first))
            if not len(covered):
                continue
            encoded.add(span)
            place = f"{where}: {text[first:end]!r:.40}"
            if {labels[k] for k in covered} != {OUTSIDE}:
                faults["spans that overlap others, left out"].append(place)
                continue
            if offsets[covered[0], 0] < first or offsets[covered[-1], 1] > end:
                faults["spans that begin or end within a token, extended to whole ones"].append(
                    place
                )
            for k in covered:
                labels[k] = f"{'B' if k == covered[0] else 'I'}-{label}"
        yield Sentence(tokens, labels, where)
        begin += len(line) + 1
    if missing := [f"{where}: {span}" for span in spans if span not in encoded]:
        faults["spans without a token, left out"] += missing


def with_known_labels(
    labels: Sequence[Label], sentences: Sequence[Sentence], name: str
) -> list[Sentence]:
    """The sentences with their labels as in training, 1 for "1". Warn about labels that cannot be predicted."""
    known = {label: labels[k] for label, k in label_ids(labels).items()}
    sentences = [
        replace(sentence, labels=[known.get(x, x) for x in sentence.labels])
        for sentence in sentences
    ]
    if unknown := {label for sentence in sentences for label in sentence.labels}.difference(labels):
        names = join_names(sorted(map(str, unknown)))
        log.warning(
            f"{name}: labels that do not occur in the training sentences, and cannot be predicted: {names}."
        )
    return sentences
