"""Formats of labelled sentences, recognised by their content.

columns    a token and its label per line, see columns.py
tsv        a sentence per line, its tokens and its labels: `The cat<TAB>B-NP I-NP`, `我爱北京<TAB>O O B I`
tagged     a sentence per line, as `word/TAG word/TAG`, as in LAC's corpora and the People's Daily. A word may contain `/`,
           the last one counts. The latter's numbers of paragraphs, `19980101-01-001-001/m`, and brackets,
           `[中国/ns 银行/n]nt`, are left out.
segmented  a sentence per line, as words with spaces between them, as in SIGHAN's corpora. Their characters are tokens,
           labelled B, M, E, or S
json       objects, one per line or in an array, of tokens and labels, `{"tokens": [...], "ner_tags": [...]}`, or of a text
           and its spans, see text_spans.py
csv        columns with a header, one of which is the text; only for prediction
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import elmo_tasks.records as records
from elmo_core.checks import check_pair, check_sentences
from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.language import AUTO, HAN, recognise
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.text_files import line_groups, read_lines
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.tagging.columns import CHARACTER_WITH_POSITION, parse_token, read_columns
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import OUTSIDE, split_lac_label
from elmo_tasks.tagging.text_spans import SPAN_KEYS, Faults, find_spans, label_tokens

FORMATS = ("columns", "tsv", "tagged", "segmented", "json", "csv")
SAMPLE = 100  # lines by which a format is recognised
HEADER = "text_a\tlabel"  # of PaddleNLP's files, which also separate tokens by \x02
LABEL_KEYS = ("labels", "ner_tags", "tags", "pos_tags", "chunk_tags", "label")
MAX_WIDTHS = 5  # lines with more different numbers of columns are text
PARAGRAPH = re.compile(r"\s*\d{8}-\d\d-\d{3}-\d{3}/m\s")
BRACKETED = re.compile(r"(.*/[^/\]]+)\](/?\w*)")
LabelledSentences = Path | str | tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]  # a file, or tokens and labels
LabelNames = Path | str | Sequence[str] | None


@dataclass
class SentenceReader:
    """Reads labelled sentences.

    format: one of FORMATS; by default recognised. token, label: columns, or keys of JSON. segmentation, feature: see
    columns.py. label_names: the names of labels that are numbers, or a file of them. pieces: splits tagged words. lang,
    segment: how texts with spans are tokenised, see `Tokeniser`; auto: recognised by the first file of them.
    """

    format: str | None = None
    token: int | str = 0
    label: int | str = -1
    segmentation: str = "none"
    feature: int | None = None
    label_names: LabelNames = None
    pieces: PieceSplitter | None = None
    lang: str = AUTO
    segment: Segmenter | None = None
    faults: Faults = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self):
        names = self.label_names
        self.label_names = list(read_lines(names) if isinstance(names, Path | str) else names or ())

    def read(self, path: Path) -> list[Sentence]:
        """The sentences of a file. Logs what looks wrong in them."""
        disk.check_input(path, "labelled sentences")
        format_name = self.format_of(path)
        if format_name == "columns":
            sentences = read_columns(path, self.token, self.label, self.segmentation, self.feature)
        elif self.feature is not None:
            raise UserError(f"{path} is {format_name}, which has no `feature_column`. Expected columns.")
        else:
            sentences = self._read_records(path, format_name)
        if not sentences:
            raise UserError(f"{path}: no sentences, read as {format_name}.")
        if not self.format and format_name != "columns":
            log.info(f"{path}: {format_count(len(sentences), 'sentences')}, read as {format_name}")
        for fault, places in self.faults.items():
            if places:
                log.warning(f"{path}: {fault}: {len(places):,}. The first: {places.pop(0)}")
                places.clear()
        tokens = list(islice((token for sentence in sentences for token in sentence.tokens), SAMPLE))
        is_numbered = all(map(CHARACTER_WITH_POSITION.fullmatch, tokens)) and any(map(HAN.search, tokens))
        if self.segmentation == "none" and is_numbered:
            log.warning(
                f"{path}: tokens are characters with numbers, as in {' '.join(tokens[:3])}. If these are positions in "
                "words, set `segmentation` to strip or feature."
            )
        return sentences

    def read_or_pair(self, data: LabelledSentences, name: str) -> list[Sentence]:
        """Read a file, or pair sentences with their labels. name: of the argument, used in error messages."""
        if isinstance(data, Path | str):
            return self.read(Path(data))
        sentences, labels = map(check_sentences, check_pair(data, name))
        pairs = enumerate(zip(sentences, labels, strict=True))
        labelled = (Sentence(list(tokens), list(row), f"{name} {k}") for k, (tokens, row) in pairs)
        return [sentence for sentence in labelled if sentence.tokens]

    def _read_records(self, path: Path, format_name: str) -> list[Sentence]:
        rows = [pair for pair in self.parse(records.Lines(line_groups(path)), path, format_name) if pair[1] != ""]
        texts = list(filter(None, (self.text(record) for _, record in rows if isinstance(record, dict))))
        if self.lang == AUTO and texts:
            language = recognise(texts)
            self.lang = "characters" if language == "zh" else language
        found = (self.sentences(record, where, format_name) for where, record in rows)
        return [sentence for sentence in chain.from_iterable(found) if sentence.tokens]

    def format_of(self, path: Path) -> str:
        if self.format:
            return self.format
        lines = list(islice(read_lines(path), SAMPLE))
        format_name = detect_format(lines, path)
        widths = {len(line.split()) for line in lines if line.strip() and not line.startswith("#")}
        if format_name == "columns" and len(widths) > MAX_WIDTHS and not any("\t" in line for line in lines):
            raise UserError(
                f"{path}: lines have {min(widths)} to {max(widths)} columns. Is this text without labels? Expected a token "
                "and its label per line. If these are words to learn segmentation from, set `data_format=segmented`."
            )
        return format_name

    def parse(self, lines: records.Lines, source: str | Path, format_name: str) -> Iterator[records.Record]:
        """Yield the records of lines in a format other than columns. A blank line is ""."""
        kind, text = {"json": records.JSON, "csv": None}.get(format_name, records.TEXT), self.key("text")
        rows = records.read_records(lines, source, lambda line: kind or records.find_format(line, ".csv"))
        for where, record in records.name_columns(rows, lambda row: True):
            if format_name == "csv" and (names := records.find_columns([text], record)):
                record[text] = record[names[0]]
            if record != HEADER:
                yield where, record

    def sentences(
        self, record: dict[str, Any] | str, where: str, format_name: str, labelled: bool = True
    ) -> list[Sentence]:
        """The sentences of a record: one, or those of a text with spans. labelled: whether labels are required."""
        if format_name == "tagged":
            return [tagged_sentence(record, where, self.pieces or PieceSplitter((), whole=True))]
        if format_name == "segmented":
            return [segmented_sentence(record, where)]
        if isinstance(record, str):
            tokens, labels = split_tsv(record)
        else:
            text = self.text(record)
            if text is not None:
                spans = find_spans(record, text, [self.label] if isinstance(self.label, str) else SPAN_KEYS, where)
                if spans is None:
                    self.faults["texts that were not annotated or accepted, left out"].append(where)
                tokeniser = Tokeniser(self.lang, self.segment)
                return [] if spans is None else label_tokens(text, spans, tokeniser, where, self.faults)
            self.label_names = record.get("names", self.label_names)
            if self.key("tokens") not in record and "names" in record:
                return []
            tokens, labels = self._tokens_and_labels(record, where, labelled)
        tokens = [parse_token(token, self.segmentation, where) for token in tokens]
        labels = ["_".join(label.split()) for label in labels] if labelled else [OUTSIDE] * len(tokens)
        return [Sentence(tokens, labels, where)]

    def key(self, default: str) -> str:
        """The key of tokens or of a text."""
        return self.token if isinstance(self.token, str) else default

    def text(self, record: dict[str, Any]) -> str | None:
        """The text of a record that is not split into tokens."""
        tokens = record.get(self.key("tokens"))
        if isinstance(tokens, list) and all(isinstance(token, str | int) for token in tokens):
            return None
        values = record["data"] if isinstance(record.get("data"), dict) else record  # of Label Studio
        text = values.get(self.key("text"))
        return text if isinstance(text, str) else None

    def _tokens_and_labels(self, record: dict[str, Any], where: str, labelled: bool) -> tuple[list[str], list[str]]:
        keys = [self.label] if isinstance(self.label, str) else LABEL_KEYS
        tokens = record.get(self.key("tokens"))
        labels = next((record[key] for key in keys if key in record and labelled), [])
        for value, what in ((tokens, self.key("tokens")), (labels, "labels"), (self.label_names, "names")):
            if not isinstance(value, list) or not all(isinstance(item, str | int) for item in value):
                raise UserError(
                    f"{where}: {what} is {value!r:.60}. Found {list(record)!s:.80}, expected lists of tokens and labels, or "
                    "a text and its spans."
                )
        if numbers := [label for label in labels if isinstance(label, int) and not 0 <= label < len(self.label_names)]:
            raise UserError(f"{where}: the label {numbers[0]} has no name. Give the names with `label_names`.")
        labels = [label if isinstance(label, str) else str(self.label_names[label]) for label in labels]
        return list(map(str, tokens)), labels


def detect_format(lines: Sequence[str], source: str | Path = "") -> str:
    """The format of a file that begins with these lines; columns if in doubt. source: its name."""
    lines = [line for line in lines if line.strip()]
    if lines and records.is_json(lines[0]):
        return "json"
    if records.is_csv(source):
        return "csv"
    rows = [split_tsv(line) for line in lines if line != HEADER]
    if any(len(tokens) == len(labels) > 1 for tokens, labels in rows):
        return "tsv"
    items = list(chain.from_iterable(line.split() for line in lines))
    if items and all(all(item.rpartition("/")[::2]) for item in items):
        return "tagged"
    are_words = 2 * sum(map(bool, map(HAN.search, items))) > len(items) and not any("\t" in line for line in lines)
    are_rows = len({len(line.split()) for line in lines}) == 1 < len(lines)
    return "segmented" if are_words and not are_rows else "columns"


def split_tsv(line: str) -> tuple[list[str], list[str]]:
    """The tokens and labels of a line; without spaces between tokens, each character is one. Without a tab, no labels."""
    separator = "\2" if "\2" in line else None
    text, _, labels = line.partition("\t")
    tokens, labels = text.split(separator), [] if "\t" in labels else labels.split(separator)
    if len(tokens) != len(labels):
        characters = [character for character in text if not character.isspace()]
        tokens = characters if len(characters) == len(labels) else tokens
    return tokens, labels


def labelled_pieces(word: str, tag: str, splitter: PieceSplitter) -> Sentence:
    pieces = splitter.split(word)
    if len(pieces) == 1 or tag == OUTSIDE:
        return Sentence(pieces, [tag] * len(pieces))
    return Sentence(pieces, [f"{tag}-B", *[f"{tag}-I"] * (len(pieces) - 1)])


def tagged_sentence(line: str, where: str, splitter: PieceSplitter) -> Sentence:
    """The words of a line, split into labelled pieces."""
    sentence, in_brackets = Sentence([], [], where), False
    for text in PARAGRAPH.sub("", line, count=1).split():
        if text[0] == "[" and text[1:2] not in ("", "/"):
            text, in_brackets = text[1:], True
        if in_brackets and (closed := BRACKETED.fullmatch(text)):
            text, in_brackets = closed[1], False
        word, _, tag = text.rpartition("/")
        if not word or not tag:
            raise UserError(f"{where}: {text!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
        if not splitter.whole and split_lac_label(tag)[1]:
            raise UserError(
                f"{where}: the tag {tag!r} ends with -B or -I, as the labels of pieces do. Rename it, or leave out `pieces`."
            )
        pieces = labelled_pieces(word, tag, splitter)
        sentence.tokens += pieces.tokens
        sentence.labels += pieces.labels
    return sentence


def segmented_sentence(line: str, where: str) -> Sentence:
    """The characters of a line of words."""
    words = line.split()
    labels = ["S" if len(word) == 1 else f"B{'M' * (len(word) - 2)}E" for word in words]
    return Sentence(list("".join(words)), list("".join(labels)), where)
