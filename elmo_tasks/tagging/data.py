"""Labelled sentences: their formats, and their labels.

columns    a token and its label per line, separated by tabs or, in lines without a tab, by spaces;
           a blank line, or one that begins with -DOCSTART-, ends a sentence; a first line such as
           "token<TAB>label" is a header; comments such as "# sent_id = 3" are left out
conllu     CoNLL-U: columns with comments, ranges and empty nodes, which are left out
json       objects in an array, jsonl: one per line; of tokens and labels,
           {"tokens": [...], "ner_tags": [...]}, or of a text and its spans, as doccano and CLUENER
           write them, where each line of the text is a sentence:
           {"text": "Anna lives in Paris.", "label": [[0, 4, "PER"], [14, 19, "LOC"]]},
           or "spans" or "entities" of objects;
           {"text": "叶老桂是北京人。", "label": {"name": {"叶老桂": [[0, 2]]}}},
           where 2 is the last character
tagged     a sentence per line, as word/TAG word/TAG; the last slash of a word counts
segmented  a sentence per line, as words with spaces between them; the characters are tokens,
           labelled B, M, E, or S
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

from elmo_core.checks import as_list, check_sentence, check_text, describe
from elmo_core.files import disk
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.language import AUTO, recognise
from elmo_core.text.offsets import token_offsets
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks import records
from elmo_tasks.records import Label, Record, check_label, label_ids, value_of
from elmo_tasks.tagging.scheme import OUTSIDE
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import PieceSplitter

BY_ENDING = {"json": "json", "jsonl": "jsonl", "conllu": "conllu"}  # others are columns
TOKEN_KEYS = ("token", "tokens", "word", "words")
LABEL_KEYS = ("labels", "ner_tags", "tags", "pos_tags", "chunk_tags", "label", "tag", "pos", "ner")
SPAN_KEYS = ("label", "labels", "spans", "entities")
NOT_A_WORD = re.compile(r"#|\d+[-.]\d+\t")  # of CoNLL-U: a comment, a range, an empty node
# Of CoNLL-U, in other files with columns. A line with the token # is none.
COMMENT = re.compile(r"# (?:newdoc|newpar|newdoc id = .*|newpar id = .*|sent_id = .*|text = .*)")
CharSpan = tuple[int, int, str]  # begin, end and label


@dataclass
class Sentence:
    """A sentence's tokens and their labels, if these are known.

    where: its file and line.
    is_tagged: read as `word/TAG`; the tokens are whole words, which are not yet split into pieces.
    """

    tokens: list[str]
    labels: list[Label] | None
    where: str = field(default="", compare=False, repr=False)
    is_tagged: bool = field(default=False, compare=False, repr=False)


class SentenceReader:
    """Reads labelled sentences, as the settings say."""

    def __init__(self, settings: TaggerSettings):
        self.settings = settings
        columns = settings.columns
        if isinstance(columns, str):
            columns = [column.strip() for column in columns.split(",")]
        if columns is not None and len(columns) != 2:
            raise UserError(
                f"`columns` is {settings.columns!r}, "
                "expected two: of the tokens, and of the labels."
            )
        self.columns: Sequence[str | int] | None = columns

    def read(self, data: Any, name: str) -> list[Sentence]:
        """The sentences of a file, of a table, or of a pair of sentences and labels.

        name: of the argument, for messages.
        """
        if isinstance(data, str | Path):
            name = str(data)
            found = self._read_file(Path(data))
        elif records.is_table(data):
            found = self._of_records(records.table_records(data, name))
        else:
            found = self._of_pairs(data, name)
        sentences = [sentence for sentence in found if sentence.tokens]
        if not sentences:
            raise UserError(f"{name}: there are no sentences with tokens.")
        return sentences

    def format_of(self, path: Path) -> str:
        """The format that is set or, without that, the one that the file's ending tells."""
        if self.settings.data_format:
            return self.settings.data_format
        ending = records.ending(path)
        if ending == "csv":
            raise UserError(
                f"{path}: taggers read no CSV. "
                "Write a token and its label per line, with a tab between."
            )
        return BY_ENDING.get(ending, "columns")

    def _read_file(self, path: Path) -> Iterator[Sentence]:
        disk.check_input(path, "labelled sentences")
        format_name = self.format_of(path)
        if format_name in ("columns", "conllu"):
            return self._read_columns(path, is_conllu=format_name == "conllu")
        if format_name in ("json", "jsonl"):
            return self._of_records(records.read_records(path, (), format_name))
        make = tagged_sentence if format_name == "tagged" else segmented_sentence
        return (make(line, f"{path}:{k}") for k, line in enumerate(read_lines(path), 1))

    def _of_pairs(self, data: Any, name: str) -> Iterator[Sentence]:
        """Yield the sentences of (sentences, labels)."""
        for number, (where, tokens, labels) in enumerate(records.labelled(data, name)):
            yield self._sentence(check_sentence(tokens, number, of_texts=""), labels, where)

    def _sentence(self, tokens: Sequence[str], labels: Any, where: str) -> Sentence:
        """Check tokens and labels."""
        values = as_list(labels)
        if values is None:
            raise UserError(
                f"{where}: found {describe(labels)}, expected a list of labels, one for each token."
            )
        if len(tokens) != len(values):
            raise UserError(
                f"{where}: {len(tokens)} tokens and {len(values)} labels, expected as many."
            )
        return Sentence(
            [check_text(token, f"{where}, token {k}", "token") for k, token in enumerate(tokens)],
            [check_label(value, f"{where}, token {k}") for k, value in enumerate(values)],
            where,
        )

    def _column_numbers(self, path: Path, is_conllu: bool) -> tuple[int, int]:
        """The columns of the tokens and of the labels."""
        if not self.columns:
            return (1, 3) if is_conllu else (0, -1)
        try:
            return int(self.columns[0]), int(self.columns[1])
        except ValueError as error:
            raise UserError(
                f"{path} has columns: `columns` are numbers, not {self.columns}."
            ) from error

    def _read_columns(self, path: Path, is_conllu: bool) -> Iterator[Sentence]:
        token, label = self._column_numbers(path, is_conllu)
        sentence = Sentence([], [])
        width = 0  # columns of the lines before
        for number, line in enumerate(chain(read_lines(path), [""]), 1):
            if not line.strip() or line.startswith("-DOCSTART-"):
                if sentence.tokens:
                    yield sentence
                sentence = Sentence([], [])
                continue
            if number == 1 and _is_header(line):
                continue
            if is_conllu and NOT_A_WORD.match(line):
                continue
            if COMMENT.fullmatch(line):
                continue
            where = f"{path}:{number}"
            columns = _split_columns(line)
            if not (is_conllu or self.columns):
                other = _likely_format(columns, is_first=number == 1)
                if other:
                    raise UserError(
                        f"{where}: {line!r:.60} looks like `data_format={other}`. "
                        "Set that, or `columns`."
                    )
            n = len(columns)
            if self.columns or not width:  # columns that the user chose need only be there
                width = n
            are_there = -n <= token < n and -n <= label < n
            if n != width or not are_there or token % n == label % n:
                raise UserError(
                    f"{where}: found {line!r:.60}, expected a token in column {token}, a label in "
                    f"{label}, and as many columns in all lines. Use tabs."
                )
            if not sentence.tokens:
                sentence.where = where
            sentence.tokens.append(re.sub(r"\s+", "_", columns[token].strip(" ")) or "_")
            sentence.labels.append(check_label(columns[label].strip(), where))

    def _of_records(self, given: Iterator[Record]) -> Iterator[Sentence]:
        """Yield the sentences of records of tokens and labels, or of texts and spans."""
        token_key = str(self.columns[0]) if self.columns else ""
        label_key = str(self.columns[1]) if self.columns else ""
        text_key = token_key or "text"
        read = list(given)
        texts = [record[text_key] for _, record in read if isinstance(record.get(text_key), str)]
        tokeniser = self._tokeniser(texts)
        faults: dict[str, list[str]] = defaultdict(list)
        for where, record in read:
            text = record.get(text_key)
            if isinstance(text, str):
                spans = find_spans(record, text, [label_key] if label_key else SPAN_KEYS, where)
                yield from label_tokens(
                    check_text(text, where), spans, tokeniser, where=where, faults=faults
                )
            else:
                yield self._of_tokens(record, token_key or "tokens", label_key, where)
        for fault, places in faults.items():
            log.warning(f"{fault}: {len(places):,}. The first: {places[0]}")

    def _of_tokens(
        self, record: Mapping[str, Any], token_key: str, label_key: str, where: str
    ) -> Sentence:
        """The sentence of a record of tokens and labels. label_key: "": one of the usual."""
        if not label_key:
            label_key = next((key for key in LABEL_KEYS if key in record), "labels")
        try:
            tokens = check_sentence(value_of(record, token_key, where), where, of_texts="")
        except TypeError as error:
            raise UserError(str(error)) from error
        return self._sentence(tokens, value_of(record, label_key, where), where)

    def _tokeniser(self, texts: Sequence[str]) -> Tokeniser:
        """The tokeniser of texts with spans: by the settings' language, or the one recognised."""
        language = self.settings.lang
        if language == AUTO:
            language = recognise(texts)
            if language == "zh":  # spans may begin and end within words
                language = "characters"
        user_dict = self.settings.user_dict
        segmenter = Segmenter.from_file(user_dict) if user_dict else None
        return Tokeniser(language, segmenter)


def _is_header(line: str) -> bool:
    """Whether a file's first line names the columns."""
    names = line.lower().split()
    return names[0] in TOKEN_KEYS and names[-1] in LABEL_KEYS


def _split_columns(line: str) -> list[str]:
    if "\t" in line:
        return line.split("\t")
    return [part for part in line.split(" ") if part]


def _likely_format(columns: Sequence[str], is_first: bool) -> str:
    """The format of a line that looks like another one than "columns"; else ""."""
    if is_first and all("/" in part[1:-1] for part in columns):
        return "tagged"
    if len(columns) > 9 and columns[0] == "1":
        return "conllu"
    return ""


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
    """The sentences with their tagged words in pieces, which have labels in LAC's scheme."""
    return [
        _split(sentence, splitter) if sentence.is_tagged else sentence for sentence in sentences
    ]


def _split(sentence: Sentence, splitter: PieceSplitter) -> Sentence:
    """A tagged sentence in pieces."""
    tokens = []
    labels = []
    for word, tag in zip(sentence.tokens, sentence.labels, strict=True):
        pieces = splitter.split(word)
        tokens += pieces
        if len(pieces) == 1 or tag == OUTSIDE:
            labels += [tag] * len(pieces)
        else:
            labels.append(f"{tag}-B")
            labels += [f"{tag}-I" for _ in pieces[1:]]
    return Sentence(tokens, labels, sentence.where)


def segmented_sentence(line: str, where: str) -> Sentence:
    """The characters of a line of words."""
    words = line.split()
    labels = "".join(_character_labels(len(word)) for word in words)
    return Sentence(list("".join(words)), list(labels), where)


def _character_labels(length: int) -> str:
    """The labels of a word's characters: S, or BE, BME, BMME and so on."""
    if length == 1:
        return "S"
    return "B".ljust(length - 1, "M") + "E"


def find_spans(
    record: Mapping[str, Any], text: str, keys: Sequence[str], where: str
) -> list[CharSpan]:
    """The spans of a text, in order. keys: one of them holds the spans."""
    value = next((record[key] for key in keys if key in record), None)
    try:
        spans = _mentions(value, text) if isinstance(value, dict) else _offset_spans(value, text)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{where}: found the spans {value!r:.80}, expected offsets in the {len(text)} "
            "characters of the text, and labels, as in [[0, 4, 'PER']]. "
            f"Its keys are {list(record)}."
        ) from error
    return [(begin, end, check_text(label, where)) for begin, end, label in sorted(spans)]


def _mentions(value: Mapping[str, Any], text: str) -> list[CharSpan]:
    """The spans of CLUENER: by label, each mention with its places. ValueError: not of the text."""
    spans = []
    for label, mentions in value.items():
        for mention, places in mentions.items():
            for place in places:
                begin = place[0]
                end = begin + len(mention)
                if text[begin:end] not in mentions:
                    raise ValueError("a mention is not at its place")
                spans.append((begin, end, label))
    return spans


def _offset_spans(value: Any, text: str) -> list[CharSpan]:
    """The spans of a list of triples or objects. ValueError: not of the text."""
    spans = [_span(item) for item in value]
    for begin, end, label in spans:
        if not (0 <= begin < end <= len(text) and isinstance(label, str)):
            raise ValueError("a span is not in the text")
    return spans


def _span(item: Any) -> CharSpan:
    if isinstance(item, dict):
        suffix = "_offset" if "start_offset" in item else ""
        item = (item[f"start{suffix}"], item[f"end{suffix}"], item["label"])
    begin, end, label = item
    return index(begin), index(end), label


def _within_lines(
    text: str, spans: Sequence[CharSpan], where: str, faults: dict[str, list[str]]
) -> list[CharSpan]:
    """The spans without those that cross a line break, as each line is a sentence."""
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
    """Yield the sentences of a text, one per line, with labels in BIO.

    faults: receives the places of spans that could not be encoded, by what is wrong.
    """
    spans = _within_lines(text, spans, where, faults)
    encoded = set()
    line_begin = 0
    for line in text.split("\n"):
        tokens = tokeniser(line)
        labels = [OUTSIDE] * len(tokens)
        offsets = token_offsets(tokens, line) + line_begin
        for span in spans:
            begin, end, label = span
            covered = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > begin))
            if not len(covered):  # in another line, or of spaces only
                continue
            encoded.add(span)
            place = f"{where}: {text[begin:end]!r:.40}"
            if any(labels[k] != OUTSIDE for k in covered):
                faults["spans that overlap others, left out"].append(place)
                continue
            first = covered[0]
            last = covered[-1]
            if offsets[first, 0] < begin or offsets[last, 1] > end:
                fault = "spans that begin or end within a token, extended to whole ones"
                faults[fault].append(place)
            labels[first] = f"B-{label}"
            for k in covered[1:]:
                labels[k] = f"I-{label}"
        yield Sentence(tokens, labels, where)
        line_begin += len(line) + 1
    for span in spans:
        if span not in encoded:
            faults["spans without a token, left out"].append(f"{where}: {span}")


def with_known_labels(
    labels: Sequence[Label], sentences: Sequence[Sentence], name: str
) -> list[Sentence]:
    """The sentences with their labels as in training, 1 for "1".

    Warns about labels that cannot be predicted.
    """
    known = {label: labels[k] for label, k in label_ids(labels).items()}
    result = []
    found = set()
    for sentence in sentences:
        sentence_labels = [known.get(label, label) for label in sentence.labels]
        found.update(sentence_labels)
        result.append(replace(sentence, labels=sentence_labels))
    unknown = found.difference(labels)
    if unknown:
        names = join_names(sorted(str(label) for label in unknown))
        log.warning(
            f"{name}: labels that do not occur in the training sentences, "
            f"and cannot be predicted: {names}."
        )
    return result
