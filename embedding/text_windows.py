"""A text in windows of lines: the units of embedding, storing and resuming."""

import itertools
import json
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from elmo_core.messages import UserError, format_count
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import BATCHES_PER_WINDOW, sentence_windows


class WindowStats(NamedTuple):
    """Size and checksum of a window."""

    lines: int
    tokens: int
    index_bytes: int  # size of its entries in sentence_to_index
    checksum: int


class CountedText:
    """A text in windows that were counted in a first pass. Later passes check that it is unchanged."""

    def __init__(self, path: Path, batch_size: int):
        self.path, self._size = path, BATCHES_PER_WINDOW * batch_size
        self.stats: list[WindowStats] = []
        self.lines = self.blank = 0
        with progress_bar("counting", " lines") as bar:
            for sentences in sentence_windows(read_sentences(path), self._size):
                tokens, entries = sum(map(len, sentences)), index_entries(self.lines, sentences)
                self.stats.append(WindowStats(len(sentences), tokens, len(entries), _checksum(sentences)))
                self.lines += len(sentences)
                self.blank += sentences.count([])
                bar.update(len(sentences))
        self.tokens = sum(window.tokens for window in self.stats)
        if not self.tokens:
            content = f"only blank lines ({self.blank:,})" if self.lines else "the file is empty"
            raise UserError(f"{path}: {content}. Expected one sentence per line.")

    def __str__(self) -> str:
        checksum = zlib.crc32(str([window.checksum for window in self.stats]).encode())
        return f"{format_count(self.lines, 'lines')}, {format_count(self.tokens, 'tokens')} (CRC-32 {checksum:08x})"

    def windows(self, selected: Collection[int]) -> Iterator[tuple[int, int, list[list[str]]]]:
        """Yield the selected windows: number, first line, sentences."""
        windows, line = sentence_windows(read_sentences(self.path), self._size), 0
        for number, stats in enumerate(self.stats[: max(selected) + 1]):
            sentences = next(windows, [])
            if _checksum(sentences) != stats.checksum:
                raise UserError(f"{self.path} has changed while it was read, before line {line + stats.lines + 1}.")
            if number in selected:
                yield number, line, sentences
            line += stats.lines


def _checksum(sentences: list[list[str]]) -> int:
    return zlib.crc32("\n".join(map(" ".join, sentences)).encode())


def index_entries(first_line: int, sentences: Sequence[Sequence[str]]) -> bytes:
    """The lines' entries in sentence_to_index, as in `,"the sentence":"7"`. Blank lines have none."""
    numbered = zip(itertools.count(first_line), map(" ".join, sentences), strict=False)
    return "".join(f',{json.dumps(text, ensure_ascii=False)}:"{line}"' for line, text in numbered if text).encode()


def progress_bar(what: str, unit: str, total: int | None = None, iterable: Iterable | None = None) -> tqdm:
    """A bar with the time left. It disappears at the end; in a log file it is printed twice a minute."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    often = {"mininterval": seconds, "maxinterval": max(10, seconds), "delay": seconds}
    return tqdm(iterable, total=total, desc=what, unit=unit, unit_scale=True, leave=False, ncols=110, **often)
