"""A text in windows of lines: the units in which it is embedded, stored, and resumed."""

import itertools
import json
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import WINDOW, sentence_windows


class Span(NamedTuple):
    """The size and checksum of a window."""

    lines: int
    tokens: int
    index_bytes: int  # of its entries in sentence_to_index
    checksum: int  # of its sentences


class CountedText:
    """A text whose windows a first pass has counted. Later passes must find the same."""

    def __init__(self, path: Path, batch_size: int):
        self.path, self._size = path, WINDOW * batch_size
        self.spans: list[Span] = []
        self.lines = self.blank = 0
        with progress("counting", " lines") as bar:
            for sentences in sentence_windows(read_sentences(path), self._size):
                tokens, entries = sum(map(len, sentences)), index_entries(self.lines, sentences)
                self.spans.append(Span(len(sentences), tokens, len(entries), _checksum(sentences)))
                self.lines += len(sentences)
                self.blank += sentences.count([])
                bar.update(len(sentences))
        self.tokens = sum(span.tokens for span in self.spans)
        if not self.tokens:
            found = f"nothing but {self.blank:,} blank lines" if self.lines else "the file is empty"
            raise UserError(f"{path}: {found}. Expected one sentence a line.")

    def __str__(self) -> str:
        checksum = zlib.crc32(str([span.checksum for span in self.spans]).encode())
        return f"{self.lines:,} lines, {self.tokens:,} tokens (CRC-32 {checksum:08x})"

    def windows(self, wanted: Collection[int]) -> Iterator[tuple[int, int, list[list[str]]]]:
        """The wanted windows: number, number of the first line, sentences."""
        found, line = sentence_windows(read_sentences(self.path), self._size), 0
        for number, span in enumerate(self.spans[: max(wanted) + 1]):
            sentences = next(found, [])
            if _checksum(sentences) != span.checksum:
                raise UserError(f"{self.path} has changed while it was read, before line {line + span.lines + 1}.")
            if number in wanted:
                yield number, line, sentences
            line += span.lines


def _checksum(sentences: list[list[str]]) -> int:
    return zlib.crc32("\n".join(map(" ".join, sentences)).encode())


def index_entries(first_line: int, sentences: Sequence[Sequence[str]]) -> bytes:
    """The lines' entries in sentence_to_index, `,"the sentence":"7"`. A blank line has none."""
    numbered = zip(itertools.count(first_line), map(" ".join, sentences), strict=False)
    return "".join(f',{json.dumps(text, ensure_ascii=False)}:"{line}"' for line, text in numbered if text).encode()


def progress(what: str, unit: str, total: int | None = None, iterable: Iterable | None = None) -> tqdm:
    """A bar with the time left, which vanishes at the end. In a log file it appears every half minute."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    often = {"mininterval": seconds, "maxinterval": max(10, seconds), "delay": seconds}
    return tqdm(iterable, total=total, desc=what, unit=unit, unit_scale=True, leave=False, ncols=110, **often)
