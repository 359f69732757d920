"""What labels mean, and precision, recall and F1 of the words that they mark.

A label is a tag alone (`n`), for a word that is one token, or a tag with -B or -I, for the first token and the others of a
word that is spread over several. Words are counted as Paddle's `chunk_eval` counts chunks.
"""

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, field

OUTSIDE = "O"  # the label of a token that belongs to no word


def split_label(label: str) -> tuple[str, str]:
    """A label's tag and part: B, I, or "" for the bare tag."""
    return (label[:-2], label[-1]) if label.endswith(("-B", "-I")) and len(label) > 2 else (label, "")


def spans(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """The words that labels mark, as (begin, end, tag), end excluded.

    B and a bare tag begin a word, and so does a tag other than the one before. I continues a word of its tag, unless that
    has a bare tag and is complete.
    """
    found, before = [], ("", "")
    for k, label in enumerate(labels):
        tag, part = split_label(label)
        if part == "I" and before[0] == tag and before[1]:
            found[-1] = (found[-1][0], k + 1, tag)
        elif label != OUTSIDE:
            found.append((k, k + 1, tag))
        before = (tag, part)
    return found


def words_of(tokens: Sequence[str], labels: Sequence[str]) -> list[tuple[str, str]]:
    """The words that the labels make of the tokens, with their tags. A token outside is a word with the tag O."""
    words, done = [], 0
    for begin, end, tag in spans(labels):
        words += [(token, OUTSIDE) for token in tokens[done:begin]]
        words.append(("".join(tokens[begin:end]), tag))
        done = end
    return words + [(token, OUTSIDE) for token in tokens[done:]]


@dataclass
class Counts:
    """Numbers of words: predicted, expected, and correct, that is, with the same place and tag."""

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
    """Counts by tag, and those of unknown words: the ones that the training sentences do not have."""

    tags: dict[str, Counts] = field(default_factory=dict)
    unknown: Counts = field(default_factory=Counts)

    @property
    def total(self) -> Counts:
        return sum(self.tags.values(), Counts())

    def add(
        self, tokens: Sequence[str], expected: Sequence[str], predicted: Sequence[str], known: Collection[str] = ()
    ) -> None:
        """Count a sentence: its tokens, their labels, the predicted ones; `known`: the words of the training sentences."""
        expected_spans, predicted_spans = set(spans(expected)), set(spans(predicted))
        for span in expected_spans | predicted_spans:
            begin, end, tag = span
            counts = Counts(
                span in expected_spans and span in predicted_spans, span in predicted_spans, span in expected_spans
            )
            self.tags[tag] = self.tags.get(tag, Counts()) + counts
            if "".join(tokens[begin:end]) not in known:
                self.unknown += counts

    def figures(self) -> dict:
        """All as numbers for JSON."""
        tags = {tag: self.tags[tag].figures() for tag in sorted(self.tags)}
        return {**self.total.figures(), "unknown_words": self.unknown.figures(), "tags": tags}

    def table(self) -> str:
        """A line for each tag, the most frequent first, then all words and the unknown ones."""
        rows = sorted(self.tags.items(), key=lambda pair: -pair[1].expected)
        return "\n".join(
            f"{name:<14} precision {counts.precision:6.2%}  recall {counts.recall:6.2%}  F1 {counts.f1:6.2%}  "
            f"{counts.expected:,} words"
            for name, counts in [*rows, ("all", self.total), ("unknown words", self.unknown)]
        )
