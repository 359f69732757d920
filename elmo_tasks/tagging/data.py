"""Labelled sentences: their labels, words and language, and batches of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text.language import AUTO, HAN, SAMPLE, choose_language, recognise
from elmo_core.text.segmenter import warn_if_traditional
from elmo_core.text.text_files import read_entries
from elmo_core.text.tokenise import CHINESE
from elmo_core.text.tokens import UNK_ID, Vocabulary, digest, pad_rows, shuffled_batches
from elmo_core.weights import checkpoint
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.tagging.pieces import joined_words
from elmo_tasks.tagging.scheme import are_of_words, forbidden_transitions, split_lac_label


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


class Labels(list[str]):
    """A tagger's labels, in the order of their ids."""

    @classmethod
    def from_file(cls, path: Path) -> "Labels":
        disk.check_input(path, "labels, one per line")
        return cls(read_entries(path))

    def save(self, path: Path) -> None:
        with disk.atomic_write(path) as file:
            file.writelines(f"{name}\n" for name in self)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self)}

    @property
    def fingerprint(self) -> str:
        return digest(self)


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
    if language not in CHINESE:
        return language
    if words:
        warn_if_traditional("".join(tokens[:SAMPLE]), words)
    return "characters" if all(len(token) == 1 for token in tokens if HAN.search(token)) else "zh"


def known_words(sentences: Sequence[Sentence], scheme: str) -> Vocabulary | None:
    """The words of training sentences, joined from their tokens; None if the labels are not of words."""
    if not are_of_words({label for sentence in sentences for label in sentence.labels}, scheme):
        return None
    words = (joined_words(sentence.tokens, sentence.labels, scheme) for sentence in sentences)
    return Vocabulary.frequent(word for word, _ in chain.from_iterable(words))


def make_labels(sentences: Sequence[Sentence]) -> Labels:
    """The labels of training sentences."""
    labels = Labels(sorted({label for sentence in sentences for label in sentence.labels}))
    if len(labels) < 2:
        raise UserError(f"`sentences` have only one label, {labels[0]}. Is `label_column` right?")
    return labels


def pieces_of(scheme: str, labels: Labels, pretrained: PretrainedBiLM | None, words: Vocabulary) -> Vocabulary | None:
    """The vocabulary whose pieces the tokens are: in LAC's scheme, if words are spread over tokens, the biLM's."""
    if scheme != "lac" or not any(split_lac_label(name)[1] for name in labels):
        return None
    vocabulary = Path(pretrained.folder) / checkpoint.VOCABULARY if pretrained else None
    return Vocabulary.from_file(vocabulary) if vocabulary and vocabulary.is_file() else words


def warn_about_labels(
    labels: Labels, scheme: str, sentences: Sequence[Sentence], others: Mapping[str, Sequence[Sentence]]
) -> None:
    """Warn about labels that break the scheme or cannot be predicted. sentences: to train on; others: to score, by name."""
    for name, scored in others.items():
        if unknown := {label for sentence in scored for label in sentence.labels} - labels.ids.keys():
            log.warning(
                f"{name}: labels that do not occur in the training sentences, and cannot be predicted: "
                f"{join_names(sorted(unknown))}."
            )
    table, last = forbidden_transitions(labels, scheme)
    broken = []
    for sentence in sentences:
        row = [labels.ids[label] for label in sentence.labels]
        faults = np.flatnonzero([*table[[-1, *row[:-1]], row], last[row[-1]]])
        if len(faults):
            before, label = ["the beginning", *sentence.labels, "the end"][faults[0] :][:2]
            broken.append(f"{label} after {before} in the sentence at {sentence.where}")
    if broken:
        log.warning(
            f"{len(broken):,} of {format_count(len(sentences), 'training sentences')} break the rules of the scheme "
            f"{scheme}, which predictions never do: are there mistakes in the labels, or is `scheme` wrong? The first: "
            f"{broken[0]}."
        )


def training_batches(
    words: Vocabulary, labels: Labels, sentences: Sequence[Sentence], batch_size: int
) -> Callable[[np.random.Generator], list[Batch]]:
    """A function that draws an epoch's batches. A word seen n times becomes <UNK> with probability 1 / (n + 1)."""
    counts = Counter(token for sentence in sentences for token in sentence.tokens)
    unk_probability = np.array([1 / (1 + counts[word]) for word in words.tokens])
    tokens = [sentence.tokens for sentence in sentences]
    ids = [[labels.ids[label] for label in sentence.labels] for sentence in sentences]

    def draw(random: np.random.Generator) -> list[Batch]:
        batches = []
        for indices in shuffled_batches(list(map(len, tokens)), batch_size, random):
            batch = make_batch([tokens[k] for k in indices], words, [ids[k] for k in indices])
            unknown = (random.random(batch.ids.shape) < unk_probability[batch.ids]) & (batch.ids > UNK_ID)
            batch.ids[unknown] = UNK_ID
            batches.append(batch)
        return batches

    return draw
