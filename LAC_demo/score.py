"""Precision, recall and F1 of words with their tags, counted as Paddle's `chunk_eval` counts chunks."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, field

import root  # noqa: F401
from reader import chunks


@dataclass
class Counts:
    """Words found, words that are there, and those that are both: same place, same tag."""

    correct: int = 0
    predicted: int = 0
    expected: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.expected if self.expected else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.correct / (self.predicted + self.expected) if self.correct else 0.0

    def figures(self) -> dict[str, float | int]:
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "words": self.expected}


@dataclass
class Score:
    """Counts by tag, and those of words that the tagger has not met in training."""

    tags: dict[str, Counts] = field(default_factory=dict)
    unknown: Counts = field(default_factory=Counts)

    @property
    def total(self) -> Counts:
        return sum(self.tags.values(), Counts())

    def add(
        self, pieces: Sequence[str], expected: Sequence[str], predicted: Sequence[str], known: Collection[str] = ()
    ) -> None:
        """Count a sentence: its pieces, the labels it has and those it was given; `known`: words met in training."""
        there, found = set(chunks(expected)), set(chunks(predicted))
        for begin, end, tag in there | found:
            chunk = begin, end, tag
            counts = Counts(chunk in there and chunk in found, chunk in found, chunk in there)
            self.tags[tag] = self.tags.get(tag, Counts()) + counts
            if "".join(pieces[begin:end]) not in known:
                self.unknown += counts

    def figures(self) -> dict:
        """All as numbers for JSON."""
        tags = {tag: self.tags[tag].figures() for tag in sorted(self.tags)}
        return {**self.total.figures(), "unknown_words": self.unknown.figures(), "tags": tags}


def table(score: Score) -> str:
    """Tag by tag, the most frequent first, as lines of text."""
    rows = sorted(score.tags.items(), key=lambda pair: -pair[1].expected)
    return "\n".join(line(tag, counts) for tag, counts in rows)


def line(name: str, counts: Counts) -> str:
    return (
        f"{name:<14} precision {counts.precision:6.2%}  recall {counts.recall:6.2%}  F1 {counts.f1:6.2%}  "
        f"{counts.expected:,} words"
    )


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float]:
    """The mean and the standard deviation of a sample, 0 of a single value."""
    values = list(values)
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return mean, (squares / (len(values) - 1)) ** 0.5 if len(values) > 1 else 0.0
