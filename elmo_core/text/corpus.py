"""A corpus: UTF-8 text, plain or gzip, one sentence per line, tokens separated by white space."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.characters import BOS, EOS
from elmo_core.text.language import warn_if_unreadable
from elmo_core.text.speller import UnknownWords
from elmo_core.text.text_files import (
    BLOCK_BYTES,
    blocks,
    read_sentences,
    split_lines,
    text_files,
)
from elmo_core.text.vocabulary import UNK, Vocabulary

EMPTY = "the file is empty. Expected one sentence per line. Fill it, or remove it."
ANNOUNCE_BYTES = 1 << 28  # counting takes long enough to be announced
UNKNOWN_WORDS = 200_000  # whose counts are kept, at most
COUNTED_BYTES = 1 << 28  # of the text in which they are counted, at most about so many


@dataclass
class Counts:
    """Statistics of a corpus."""

    sentences: int = 0
    tokens: int = 0
    looked_up: int = 0  # tokens that were looked up in the vocabulary
    unknown: int = 0  # out-of-vocabulary tokens among them
    blank_lines: int = 0
    markers: int = 0  # <S> and </S> in the text, where they should not be

    @property
    def predictions(self) -> int:
        """Predictions per direction: every token, and the end of every sentence."""
        return self.tokens + self.sentences

    def add_sentence(self, tokens: int, unknown: int) -> None:
        self.sentences += 1
        self.tokens += tokens
        self.looked_up += tokens
        self.unknown += unknown

    @property
    def unknown_share(self) -> float:
        return self.unknown / max(1, self.looked_up)

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            sentences=self.sentences + other.sentences,
            tokens=self.tokens + other.tokens,
            looked_up=self.looked_up + other.looked_up,
            unknown=self.unknown + other.unknown,
            blank_lines=self.blank_lines + other.blank_lines,
            markers=self.markers + other.markers,
        )


class Corpus:
    """Text files, one sentence per line: a file, a folder, a glob, or several of these."""

    def __init__(self, source: str | Path | Iterable[str | Path]):
        sources = [source] if isinstance(source, (str, Path)) else source
        self.paths: list[Path] = []
        for path_or_glob in sources:
            self.paths.extend(text_files(path_or_glob))
        for path in self.paths:
            if not path.stat().st_size:
                raise UserError(f"{path}: {EMPTY}")
            if Vocabulary.is_vocabulary_file(path):
                example = path.parent / "train" / "*"
                raise UserError(f"{path} is a vocabulary. Expected text, for instance {example}.")

    @cached_property
    def identity(self) -> str:
        """Number, size and digest of the files, to detect a changed corpus. Reads all of them."""
        size = sum(path.stat().st_size for path in self.paths)
        digests = json.dumps([(path.name, disk.sha256(path)) for path in self.paths])
        digest = hashlib.sha256(digests.encode()).hexdigest()[:12]
        return f"{format_count(len(self.paths), 'files')} of {size:,} bytes (SHA-256 {digest})"

    def sentences(self) -> Iterator[list[str]]:
        """Yield the tokens of all sentences, without the blank lines."""
        for path in self.paths:
            for words in read_sentences(path):
                if words:
                    yield words

    def check(self, where: str | Path, counts: Counts) -> None:
        """Raise if there are no sentences. Warn about skipped lines and suspicious content."""
        if not counts.sentences and not counts.blank_lines:
            raise UserError(f"{where}: {EMPTY}")
        if not counts.sentences:
            raise UserError(
                f"{where}: only blank lines ({counts.blank_lines:,}). "
                "Expected one sentence per line."
            )
        if counts.blank_lines:
            log.warning(f"{where}: {format_count(counts.blank_lines, 'blank lines')}: skipped.")
        if counts.markers:
            log.warning(
                f"{where}: {format_count(counts.markers, 'markers')}: "
                "remove <S> and </S> from the text, they are added automatically."
            )

    def count(self, vocabulary: Vocabulary, sample: bool = False) -> Counts:
        """Count all files.

        sample: look up only the first few megabytes of each file in the vocabulary.
        """
        if sum(path.stat().st_size for path in self.paths) > ANNOUNCE_BYTES:
            log.info(f"Counting the tokens of {format_count(len(self.paths), 'files')} ...")
        total = Counts()
        for path in self.paths:
            counts = Counts()
            for number, text in enumerate(blocks(path)):
                is_looked_up = not sample or number == 0
                counts += _count(text, vocabulary if is_looked_up else None)
            if not counts.sentences:
                self.check(path, counts)
            total += counts
        where = self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"
        self.check(where, total)
        warn_if_unreadable(self.paths[0], words=vocabulary.words if vocabulary else ())
        return total

    def unknown_words(self, vocabulary: Vocabulary, limit: int = UNKNOWN_WORDS) -> UnknownWords:
        """Count the words outside the vocabulary.

        Only in the first part of each file if they are long, and in some of them if they are many.

        limit: the counts of the most frequent ones are kept, of so many; of equally frequent ones
        those that come first.
        """
        n_blocks = COUNTED_BYTES // BLOCK_BYTES
        paths = self.paths[:: math.ceil(len(self.paths) / n_blocks)]
        blocks_of_file = n_blocks // len(paths)
        counts: Counter[str] = Counter()
        for path in paths:
            for text in islice(blocks(path), blocks_of_file):
                counts.update(text.split())
        for token in vocabulary.tokens:
            counts.pop(token, None)
        words = sorted(counts, key=lambda word: -counts[word])  # a stable order
        return UnknownWords(
            counts={word: counts[word] for word in words[:limit]}, total=counts.total()
        )


def _count(text: str, vocabulary: Vocabulary | None) -> Counts:
    lines = split_lines(text)
    tokens = text.split()
    # lists, not generators: all text is counted, and they are faster
    n_blank = lines.count("") + sum([line.isspace() for line in lines])
    counts = Counts(
        sentences=len(lines) - n_blank,
        tokens=len(tokens),
        blank_lines=n_blank,
        markers=sum(tokens.count(marker) for marker in (BOS, EOS) if marker in text),
    )
    if vocabulary:
        known = vocabulary.index
        n_known = sum([token in known for token in tokens])
        counts.looked_up = len(tokens)
        counts.unknown = len(tokens) - n_known + tokens.count(UNK)
    return counts


def read_ids(corpus: Corpus, vocabulary: Vocabulary, every: int = 1) -> list[np.ndarray]:
    """Read the ids of all sentences, with special tokens.

    every: read only the first of so many lines.
    """
    ids = []
    for path in corpus.paths:
        for words in islice(read_sentences(path), 0, None, every):
            if words:
                ids.append(vocabulary.ids([BOS, *words, EOS]))
    return ids
