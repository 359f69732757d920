"""A text, cut into windows of lines: the steps in which it is embedded, written, and taken up again when interrupted."""

import itertools
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from elmo_core.characters import MAX_BYTES, count_cut
from elmo_core.runtime import UserError
from elmo_core.text import read_sentences
from elmo_core.tokens import WINDOW, Vocabulary, windows
from embedding import vector_file


class Span(NamedTuple):
    """What a window holds."""

    lines: int
    tokens: int
    entries: int  # bytes of its part of sentence_to_index
    checksum: int  # of its sentences


class Text:
    """A text whose windows a first pass has counted. Later passes must find the same."""

    def __init__(self, path: Path, batch_size: int, vocabulary: Vocabulary | None):
        if not path.is_file():
            raise UserError(f"--input {path} {'is a folder' if path.is_dir() else 'is missing'}. Expected a text file.")
        self.path, self._window = path, WINDOW * batch_size
        self.spans: list[Span] = []
        self.lines = self.blank = self.cut = self.unknown = 0
        with progress("counting", " lines") as bar:
            for sentences in self._windows():
                self._count(sentences, vocabulary)
                bar.update(len(sentences))
        self.tokens = sum(span.tokens for span in self.spans)
        if not self.tokens:
            found = f"nothing but {self.blank:,} blank lines" if self.lines else "the file is empty"
            raise UserError(f"{path}: {found}. Expected one sentence a line.")

    def __str__(self) -> str:
        checksum = zlib.crc32(" ".join(map(str, self.spans)).encode())
        return f"{self.lines:,} lines, {self.tokens:,} tokens (CRC-32 {checksum:08x})"

    def windows(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, list[list[str]]]]:
        """The windows from number `begin` to before number `end`: the number of the first line, and the sentences."""
        line, end = 0, len(self.spans) if end is None else end
        windows = itertools.islice(self._windows(), end if end < len(self.spans) else None)
        for number, span in enumerate(self.spans[:end]):
            sentences = next(windows, [])
            if number >= begin:
                if (len(sentences), _checksum(sentences)) != (span.lines, span.checksum):
                    raise UserError(f"{self.path} has changed while it was read, before line {line + span.lines + 1}.")
                yield line, sentences
            line += span.lines
        if next(windows, None):
            raise UserError(f"{self.path} has changed while it was read: it is longer than {line} lines.")

    def share(self, number: int, of: int) -> tuple[int, int]:
        """The windows of a share, from and to before: with as many tokens as the others, as far as windows allow."""
        done = np.cumsum([0, *(span.tokens for span in self.spans)])
        begin, end = (int(np.abs(done - self.tokens * k / of).argmin()) for k in (number, number + 1))
        return begin, end if number + 1 < of else len(self.spans)

    def _windows(self) -> Iterator[list[list[str]]]:
        return windows(read_sentences(self.path), self._window)

    def _count(self, sentences: list[list[str]], vocabulary: Vocabulary | None) -> None:
        tokens = list(itertools.chain.from_iterable(sentences))
        entries = len(vector_file.entries(self.lines, sentences))
        self.spans.append(Span(len(sentences), len(tokens), entries, _checksum(sentences)))
        self.lines += len(sentences)
        self.blank += sentences.count([])
        if vocabulary:
            self.unknown += sum(token not in vocabulary for token in tokens)
        else:
            self.cut += count_cut(token for token in tokens if len(token) > MAX_BYTES // 4)


def _checksum(sentences: list[list[str]]) -> int:
    return zlib.crc32("\n".join(map(" ".join, sentences)).encode())


def progress(what: str, unit: str, total: int | None = None) -> tqdm:
    """A bar with the time left, which goes when all is done. A file is told now and then."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    often = {"mininterval": seconds, "maxinterval": max(10, seconds), "delay": seconds}
    return tqdm(total=total, desc=what, unit=unit, unit_scale=True, leave=False, ncols=110, **often)
