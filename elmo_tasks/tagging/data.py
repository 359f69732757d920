"""Labelled sentences: the list of labels, files of sentences, batches.

tag.dic     one label a line; or a number, a tab and a label
TSV         `t1 t2 ...<TAB>l1 l2 ...`: the tokens of a sentence, and a label for each
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokens import Vocabulary, padded
from elmo_tasks.tagging.scheme import impossible


@dataclass
class Sentence:
    """The tokens of a sentence and their labels."""

    tokens: list[str]
    labels: list[str]


class BadLines:
    """Lines that cannot be used: an error, or skipped and counted."""

    def __init__(self, skip: bool = False):
        self.skip, self.found = skip, []

    def add(self, path: str | Path, line: int, fault: str) -> None:
        if not self.skip:
            raise UserError(f"{path}:{line}: {fault} (--skip_bad_lines leaves such lines out.)")
        self.found.append(f"{path}:{line}: {fault}")

    def report(self) -> None:
        """Log how many lines were skipped, and the first of them."""
        if self.found:
            log.warning(f"{len(self.found):,} bad lines skipped. The first: {self.found[0]}")

    def numbered(self, lines: Iterable[str], path: str | Path) -> Iterator[tuple[int, str | None]]:
        """The lines with their numbers, None for one that is not UTF-8. lines: decoded with "surrogateescape"."""
        for number, line in enumerate(lines, 1):
            try:
                line.encode("utf-8")
            except UnicodeEncodeError:
                self.add(path, number, "the line is not UTF-8. Convert the file, as in `iconv -f gb18030 -t utf-8`.")
                line = None
            yield number, line

    def read(self, path: Path, expected: str) -> Iterator[tuple[int, str]]:
        """The lines of a file that are UTF-8, with their numbers. expected: what the file should hold, for messages."""
        disk.check_input(path, expected)
        lines = self.numbered(read_lines(path, "surrogateescape"), path)
        return ((number, line) for number, line in lines if line is not None)


class Labels:
    """The labels that a tagger gives, in the order of their numbers, and their scheme."""

    def __init__(self, names: Iterable[str], source: str | Path = "labels", scheme: str = "lac"):
        self.names, self.scheme = list(names), scheme
        self.source = source
        self.index: dict[str, int] = {}
        for line, name in enumerate(self.names, 1):
            if name.split() != [name]:
                raise UserError(f"{source}:{line}: found {name!r}, expected one label a line, without white space.")
            if self.index.setdefault(name, line - 1) != line - 1:
                raise UserError(f"{source}:{line}: the label {name} occurs twice.")
        if not self.names:
            raise UserError(f"{source}: no label. Expected one a line: n, n-B, n-I ...")

    @classmethod
    def from_file(cls, path: Path, scheme: str = "lac") -> "Labels":
        """Read a tag.dic, whose lines are in the order of the numbers."""
        disk.check_input(path, "labels, one a line, as prepare.py --make_label_dict writes them")
        pairs = (line.partition("\t") for line in read_lines(path))
        names = [label if tab and number.isdecimal() else number + tab + label for number, tab, label in pairs]
        return cls(names, path, scheme)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha1("\n".join(self.names).encode("utf-8")).hexdigest()

    def __len__(self) -> int:
        return len(self.names)

    def impossible(self) -> tuple[np.ndarray, np.ndarray]:
        """(K + 1, K), whether label j cannot follow label i, or, in the last row, come first; (K,), whether it cannot
        come last. n-I needs n-B or n-I before it.
        """
        return impossible(self.names, self.scheme)


def read_tsv(path: str | Path, labels: Labels, bad_lines: BadLines) -> list[Sentence]:
    """The sentences of a TSV file, of a folder of such files, or of a glob."""
    found = []
    for part in Corpus(path).paths:
        for number, line in bad_lines.read(part, "labelled sentences"):
            left, tab, right = line.rpartition("\t")
            sentence = Sentence(left.split(), right.split())
            unknown = next((label for label in sentence.labels if label not in labels.index), None)
            if not line.strip():
                continue
            if not tab:
                bad_lines.add(part, number, "no tab. Expected words, a tab, and a label for each word.")
            elif len(sentence.tokens) != len(sentence.labels) or not sentence.tokens:
                bad_lines.add(part, number, f"{len(sentence.tokens)} words and {len(sentence.labels)} labels.")
            elif unknown is not None:
                bad_lines.add(part, number, f"the label {unknown!r} is not in {labels.source}.")
            else:
                found.append(sentence)
    if not found:
        raise UserError(f"{path}: no sentence. Expected lines of words, a tab, and a label for each word.")
    return found


@dataclass
class Batch:
    """B sentences of at most T tokens."""

    tokens: list[list[str]]
    ids: np.ndarray  # (B, T) int64 numbers of the tokens in the tagger's vocabulary; padding is 0
    lengths: np.ndarray  # (B,) int64
    labels: np.ndarray | None  # (B, T) int64; padding is 0
    places: np.ndarray  # (B, T) int64 places of characters in their words, plus one; 0 where they are not known


def batch_of(tokens: Sequence[list[str]], words: Vocabulary, labels: Sequence[list[int]] | None = None) -> Batch:
    """Sentences, none of them empty, as a batch."""
    lengths = np.array([len(sentence) for sentence in tokens], dtype=np.int64)

    def table(rows: Iterable[Sequence[int]]) -> np.ndarray:
        return padded(np.concatenate(list(rows)), lengths, lengths.max())

    ids = table(words.ids(sentence) for sentence in tokens)
    places = table([getattr(token, "place", -1) + 1 for token in sentence] for sentence in tokens)
    return Batch(list(tokens), ids, lengths, None if labels is None else table(labels), places)
