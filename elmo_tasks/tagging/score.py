"""Precision, recall and F1 of the spans that labels say, as `conlleval` and Paddle's `chunk_eval` count them."""

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, field

from elmo_tasks.tagging.scheme import spans


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
    """Counts by tag, and those of unknown words: the ones that the training sentences do not have.

    In LAC's scheme a span is one word, put together from its tokens; in the others it is unknown if one of its tokens is.
    """

    tags: dict[str, Counts] = field(default_factory=dict)
    unknown: Counts = field(default_factory=Counts)
    scheme: str = "lac"
    tokens: int = 0
    right: int = 0  # tokens whose label is right

    @property
    def total(self) -> Counts:
        return sum(self.tags.values(), Counts())

    def add(
        self,
        tokens: Sequence[str],
        expected: Sequence[str],
        predicted: Sequence[str],
        known: Collection[str] | None = (),
    ) -> None:
        """Count a sentence: its tokens, their labels, the predicted ones; `known`: the words of the training sentences,
        None where they are not at hand: then none is counted as unknown.
        """
        expected_spans, predicted_spans = set(spans(expected, self.scheme)), set(spans(predicted, self.scheme))
        self.tokens += len(expected)
        self.right += sum(map(str.__eq__, expected, predicted))
        for span in sorted(expected_spans | predicted_spans):
            begin, end, tag = span
            words = ["".join(tokens[begin:end])] if self.scheme == "lac" else tokens[begin:end]
            is_known = known is None or all(word in known for word in words)
            for counts in [self.tags.setdefault(tag, Counts()), *([] if is_known else [self.unknown])]:
                counts.correct += span in expected_spans and span in predicted_spans
                counts.predicted += span in predicted_spans
                counts.expected += span in expected_spans

    @property
    def subtypes(self) -> dict[str, Counts]:
        """The counts by what follows the tags' last dot, as in PER.NAM and PER.NOM, where all tags have one."""
        found: dict[str, Counts] = {}
        for tag in sorted(self.tags):
            name, dot, kind = tag.rpartition(".")
            if not (name and dot and kind):
                return {}
            found[kind] = found.get(kind, Counts()) + self.tags[tag]
        return found

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return self.total.f1

    @property
    def brief(self) -> str:
        return f"{'accuracy' if self.scheme == 'plain' else 'F1'} {self.value:6.2%}"

    @property
    def accuracy(self) -> float:
        """Share of the tokens whose label is right."""
        return self.right / self.tokens if self.tokens else 0.0

    def figures(self) -> dict:
        """The scores as numbers, for JSON."""
        tags = {tag: self.tags[tag].figures() for tag in sorted(self.tags)}
        return {
            **self.total.figures(),
            "accuracy": self.accuracy,
            "unknown_words": self.unknown.figures(),
            "tags": tags,
            **({"kinds": {kind: counts.figures() for kind, counts in self.subtypes.items()}} if self.subtypes else {}),
        }

    def table(self) -> str:
        """A line for each tag, the most frequent first, then all words, those of each kind, and the unknown ones."""
        rows = sorted(self.tags.items(), key=lambda pair: -pair[1].expected)
        kinds = [(f"all .{kind}", counts) for kind, counts in self.subtypes.items()]
        unknown = [("unknown words", self.unknown)] if self.unknown.expected else []
        unit = "words" if self.scheme == "lac" else "tokens" if self.scheme == "plain" else "spans"
        return "\n".join(
            f"{name:<14} precision {counts.precision:6.2%}  recall {counts.recall:6.2%}  F1 {counts.f1:6.2%}  "
            f"{counts.expected:,} {unit}"
            for name, counts in [*rows, ("all", self.total), *kinds, *unknown]
        )
