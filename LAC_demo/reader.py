"""What the demo reads: labels, sentences in three formats, and batches of them.

    tag.dic     a label a line: a tag alone (`n`), or a tag with -B and -I (`n-B`, `n-I`)
    TSV         `p1 p2 ...<TAB>l1 l2 ...`: the pieces of a sentence's words, and as many labels
    word/TAG    `word/TAG word/TAG ...`; a word may hold `/`, the last one counts
    CoNLL       a word a line, its columns separated by white space, the tag last; a blank line ends a sentence

A word that is one piece carries its bare tag, one that is spread over several pieces `n-B n-I n-I`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import root  # noqa: F401

import dataset
from elmo_core.runtime import UserError, log
from elmo_core.text import foreign_form
from elmo_core.tokens import Vocabulary, padded

OUTSIDE = "O"  # the label of a piece that belongs to no word; tag.dic need not have it

REMEDIES = {"gzip": "unpack it first, with gunzip", "UTF-16": "convert it, iconv -f utf-16 -t utf-8"}


@dataclass
class Sentence:
    """The pieces of a sentence and their labels."""

    pieces: list[str]
    labels: list[str]


Words = list[tuple[str, str]]  # a sentence's words with their tags


class Faults:
    """Lines that cannot be used: an error, or counted and told if they are to be skipped."""

    def __init__(self, skip: bool = False):
        self.skip, self.found = skip, []

    def add(self, path: str | Path, line: int, what: str) -> None:
        if not self.skip:
            raise UserError(f"{path}:{line}: {what} (--skip_bad_lines leaves such lines out.)")
        self.found.append(f"{path}:{line}: {what}")

    def report(self) -> None:
        """Tell how many lines were left out, and why the first was."""
        if self.found:
            log.warning(f"{len(self.found):,} bad lines left out. The first: {self.found[0]}")
            self.found = []


class Labels:
    """The labels that a tagger gives, in the order of their numbers."""

    def __init__(self, names: Iterable[str], source: str | Path = "labels"):
        self.names = list(names)
        self.source = source
        self.index: dict[str, int] = {}
        for line, name in enumerate(self.names, 1):
            if name.split() != [name]:
                raise UserError(f"{source}:{line}: found {name!r}, expected one label a line, without white space.")
            if self.index.setdefault(name, line - 1) != line - 1:
                raise UserError(f"{source}:{line}: the label {name} is there twice.")
        if not self.names:
            raise UserError(f"{source}: no label. Expected one a line: n, n-B, n-I ...")

    @classmethod
    def from_file(cls, path: str | Path) -> "Labels":
        """Read a tag.dic: a label a line, or a number, a tab and a label, in the numbers' order."""
        path = _existing(path, "prepare.py --make_label_dict writes one")
        lines = (text for _, text in decoded_lines(path))
        return cls([line.split("\t")[1] if _is_numbered(line) else line for line in lines], path)

    @classmethod
    def of_tags(cls, corpus: Iterable[Words], pieces: bool, source: str | Path) -> "Labels":
        """All tags in alphabetical order; with their -B and -I where words are spread over pieces.

        source: the file of the corpus, for messages.
        """
        tags = sorted({tag for words in corpus for _, tag in words})
        if not tags:
            raise UserError(f"{source}: no sentence that can be used, so no tags to make labels of.")
        taken = next((tag for tag in tags if parted(tag)[1]), None)
        if pieces and taken:
            raise UserError(
                f"{source}: the tag {taken!r} ends as the labels of a word's pieces do, with -B or -I. Rename it, or give "
                "--whole_words if the corpus's words are pieces already."
            )
        parts = ("", "-B", "-I") if pieces else ("",)
        return cls([tag + part for tag in tags for part in (parts if tag != OUTSIDE else ("",))], source)

    @property
    def fingerprint(self) -> str:
        """SHA-1 of the labels in hexadecimal."""
        return hashlib.sha1("\n".join(self.names).encode("utf-8")).hexdigest()

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, label: str) -> bool:
        return label in self.index

    def ids(self, labels: Sequence[str]) -> list[int]:
        return [self.index[label] for label in labels]

    def of_word(self, tag: str, n: int) -> list[str] | None:
        """The labels of a word of n pieces; None if a word of this tag cannot be that many pieces."""
        labels = [tag] * n if n == 1 or tag == OUTSIDE else [f"{tag}-B"] + [f"{tag}-I"] * (n - 1)
        return labels if all(label in self.index for label in labels[:2]) else None

    def impossible(self) -> np.ndarray:
        """(K + 1, K): whether label j cannot follow label i, or, in the last row, begin a sentence: n-I needs n-B or n-I."""
        table = np.zeros((len(self) + 1, len(self)), dtype=bool)
        for name, k in self.index.items():
            tag, part = parted(name)
            if part == "I":
                table[:, k] = True
                table[[self.index[p] for p in (f"{tag}-B", f"{tag}-I") if p in self.index], k] = False
        return table


def parted(label: str) -> tuple[str, str]:
    """A label's tag and part: B, I, or "" for the bare tag."""
    return (label[:-2], label[-1]) if label.endswith(("-B", "-I")) and len(label) > 2 else (label, "")


def chunks(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """(begin, end, tag) of the words that labels say, end excluded, as Paddle's `chunk_eval` finds them.

    B and a bare tag begin a word, and so does a tag other than the one before. I goes on with a word of its tag, save with
    one whose tag is bare: that is a single piece.
    """
    found, before = [], ("", "")
    for k, label in enumerate(labels):
        tag, part = parted(label)
        goes_on = part == "I" and before[0] == tag and before[1] != ""
        if goes_on:
            found[-1] = (found[-1][0], k + 1, tag)
        elif label != OUTSIDE:
            found.append((k, k + 1, tag))
        before = (tag, part)
    return found


def decoded_lines(path: str | Path, faults: Faults | None = None) -> Iterator[tuple[int, str]]:
    """The number and text of every line of a UTF-8 file; of those that can be read, if `faults` are given."""
    with Path(path).open("rb") as file:
        for number, text in enumerate(decoded(file, path, faults), 1):
            if text is not None:
                yield number, text


def decoded(file: Iterable[bytes], source: str | Path, faults: Faults | None) -> Iterator[str | None]:
    """The text of every line of an open file; None where it cannot be read."""
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            form = foreign_form(line) if number == 1 else None
            if form:  # no line of the file is text then, so none can be left out
                raise UserError(f"{source}: the file is {form}: {REMEDIES[form]}.") from error
            what = f"byte 0x{line[error.start]:02x} is not UTF-8. Convert the file: iconv -f gb18030 -t utf-8."
            if faults is None:
                raise UserError(f"{source}:{number}: {what}") from error
            faults.add(source, number, what)
            yield None
        else:
            yield text.rstrip("\r\n")


def read_tsv(path: str | Path, labels: Labels, faults: Faults) -> list[Sentence]:
    """The sentences of a TSV file, of a folder of such files, or of a glob."""
    found = [sentence for part in dataset.Corpus(path).paths for sentence in _read_tsv_file(part, labels, faults)]
    if not found:
        raise UserError(f"{path}: no sentence. Expected lines of words, a tab, and as many labels.")
    return found


def _read_tsv_file(path: Path, labels: Labels, faults: Faults) -> Iterator[Sentence]:
    for number, line in decoded_lines(path, faults):
        if not line.strip():
            continue
        left, tab, right = line.rpartition("\t")
        sentence = Sentence(left.split(), right.split())
        unknown = next((label for label in sentence.labels if label not in labels), None)
        if not tab:
            faults.add(path, number, "no tab. Expected words, a tab, and as many labels, as prepare.py writes them.")
        elif len(sentence.pieces) != len(sentence.labels) or not sentence.pieces:
            faults.add(path, number, f"{len(sentence.pieces)} words and {len(sentence.labels)} labels.")
        elif unknown is not None:
            faults.add(
                path, number, f"the label {unknown!r} is not in {labels.source}, which has {len(labels)} labels."
            )
        else:
            yield sentence


def read_tagged(path: str | Path, faults: Faults) -> Iterator[tuple[int, Words]]:
    """The line numbers and sentences of a file of `word/TAG`; a blank line is an empty sentence."""
    for number, line in decoded_lines(_existing(path), faults):
        words = [(word, tag) for word, _, tag in (token.rpartition("/") for token in line.split())]
        if all(word and tag for word, tag in words):
            yield number, words
        else:
            token = next(token for token, pair in zip(line.split(), words, strict=True) if not all(pair))
            faults.add(path, number, f"{token!r:.60}, expected a word, a slash and its tag, as in 故事/n.")


def read_conll(path: str | Path, faults: Faults) -> Iterator[tuple[int, Words]]:
    """The same of a file of columns. Where tags are B-x and I-x, the rows of such a chunk are joined to one word."""
    words: Words = []
    bad, last = False, 0
    for number, line in chain(decoded_lines(_existing(path), faults), [(None, "")]):
        columns = line.split()
        bad = bad or (number is not None and number != last + 1)  # a line of the sentence could not be read
        if len(columns) == 1:
            faults.add(path, number, f"one column, {columns[0]!r:.40}. Expected a word and its tag.")
            bad = True
        elif columns:
            _add_row(words, columns[0], columns[-1])
        else:
            if words and not bad:
                yield last, words
            words, bad = [], False
        last = number


def _add_row(words: Words, text: str, tag: str) -> None:
    if tag.startswith("I-") and words and words[-1][1] == tag[2:]:
        words[-1] = (words[-1][0] + text, tag[2:])
    else:
        words.append((text, tag[2:] if tag.startswith(("B-", "I-")) else tag))


def read_replacements(path: str | Path) -> dict[str, str]:
    """Full-width to half-width forms, from lines of one character, a tab, and one character."""
    found = {}
    for number, line in decoded_lines(_existing(path)):
        wide, _, narrow = line.partition("\t")
        if wide.isspace():  # a space within a word there is not
            continue
        if len(wide) != 1 or len(narrow) != 1 or narrow.isspace():
            raise UserError(f"{path}:{number}: found {line!r}, expected one character, a tab, and one character.")
        found[wide] = narrow
    return found


@dataclass
class Batch:
    """B sentences of at most T pieces."""

    pieces: list[list[str]]
    ids: np.ndarray  # (B, T) int64 numbers of the pieces in the tagger's vocabulary; padding is 0
    lengths: np.ndarray  # (B,) int64
    labels: np.ndarray | None  # (B, T) int64; padding is 0


def batch_of(pieces: Sequence[list[str]], words: Vocabulary, labels: Sequence[list[int]] | None = None) -> Batch:
    """Sentences, of which none is empty, as a batch."""
    lengths = np.array([len(sentence) for sentence in pieces], dtype=np.int64)

    def table(rows: Iterable[Sequence[int]]) -> np.ndarray:
        return padded(np.concatenate(list(rows)), lengths, lengths.max())

    ids = table(words.ids(sentence) for sentence in pieces)
    return Batch(list(pieces), ids, lengths, None if labels is None else table(labels))


def _existing(path: str | Path, hint: str = "") -> Path:
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file{f'; {hint}' if hint else ''}.")
    return path


def _is_numbered(line: str) -> bool:
    number, tab, _ = line.partition("\t")
    return bool(tab) and number.isdecimal()
