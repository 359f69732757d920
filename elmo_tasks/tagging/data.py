"""Labelled sentences, label lists and batches."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, format_count
from elmo_core.text.language import AUTO, HAN, choose_language, recognise
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokens import Vocabulary, digest, pad_rows
from elmo_tasks.tagging.text import CHARACTERS


@dataclass
class Sentence:
    """A sentence's tokens and their labels. where: its file and line."""

    tokens: list[str]
    labels: list[str]
    where: str = field(default="", compare=False)

    def __post_init__(self):
        if len(self.tokens) != len(self.labels):
            counts = f"{format_count(len(self.tokens), 'tokens')} and {format_count(len(self.labels), 'labels')}"
            raise UserError(f"{self.where}: {counts}, expected as many labels as tokens.")


class Labels:
    """A tagger's labels, in the order of their ids."""

    def __init__(self, names: Iterable[str]):
        self.names = list(names)
        self.index = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def from_file(cls, path: Path) -> "Labels":
        disk.check_input(path, "labels, one per line")
        return cls(read_lines(path))

    def save(self, path: Path) -> None:
        with disk.atomic_write(path) as file:
            file.write("\n".join(self.names) + "\n")

    @cached_property
    def fingerprint(self) -> str:
        return digest(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


@dataclass
class Batch:
    """B sentences of at most T tokens."""

    tokens: list[list[str]]
    ids: np.ndarray  # (B, T) int64 token ids in the tagger's vocabulary; padding is 0
    lengths: np.ndarray  # (B,) int64
    labels: np.ndarray | None  # (B, T) int64; padding is 0


def make_batch(tokens: Sequence[list[str]], words: Vocabulary, labels: Sequence[list[int]] | None = None) -> Batch:
    """Make a batch of sentences, none of them empty."""
    lengths = np.array([len(sentence) for sentence in tokens], dtype=np.int64)

    def table(rows: Iterable[Sequence[int]]) -> np.ndarray:
        return pad_rows(np.concatenate(list(rows)), lengths, lengths.max())

    ids = table(words.ids(sentence) for sentence in tokens)
    return Batch(list(tokens), ids, lengths, None if labels is None else table(labels))


def detect_language(
    sentences: Iterable[Sequence[str]], segmentation: str, words: Sequence[str] = (), lang: str = AUTO
) -> str:
    """How raw text has to be split into tokens like these: as `lang` says or, if it is "auto", into Chinese characters or
    as `recognise` says. words: see there.

    Characters that carry their positions in the word cannot be made from raw text.
    """
    tokens = [token for sentence in sentences for token in sentence]
    if lang != AUTO:
        return choose_language(lang, tokens, words)
    if segmentation == "feature":
        return "none"
    language = recognise(tokens, words)
    single = language == "zh" and all(len(token) == 1 for token in tokens if HAN.search(token))
    return CHARACTERS if single else language
