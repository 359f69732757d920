"""Precision, recall and F1 of labelled spans, as `conlleval` and Paddle's `chunk_eval` count them."""

import operator
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, field

from elmo_core.display.terminal import pad
from elmo_core.messages import format_count
from elmo_tasks.records import Label
from elmo_tasks.tagging.scheme import spans


@dataclass
class Counts:
    """Numbers of correct (same position and tag), predicted and gold spans."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.correct / (self.predicted + self.gold) if self.correct else 0.0

    def to_dict(self, unit: str) -> dict[str, float | int]:
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, unit: self.gold}


@dataclass
class Score:
    """Counts per tag, and of unknown words: those that do not occur in the training sentences.

    of_words: spans are words, joined from their tokens; otherwise a span is unknown if one of its tokens is.
    """

    tags: dict[str, Counts] = field(default_factory=dict)
    unknown: Counts = field(default_factory=Counts)
    scheme: str = "lac"
    of_words: bool = False  # always in LAC's scheme
    n_tokens: int = 0
    n_correct: int = 0  # tokens

    def __post_init__(self):
        self.of_words |= self.scheme == "lac"

    @property
    def total(self) -> Counts:
        return sum(self.tags.values(), Counts())

    def add(
        self,
        tokens: Sequence[str],
        gold: Sequence[Label],
        predicted: Sequence[Label],
        known: Collection[str] | None = (),
    ) -> None:
        """Count a sentence: its tokens, their gold and predicted labels.

        known: the words of the training sentences; None if not available: then none counts as unknown.
        """
        gold_spans, predicted_spans = set(spans(gold, self.scheme)), set(spans(predicted, self.scheme))
        self.n_tokens += len(gold)
        self.n_correct += sum(map(operator.eq, gold, predicted))
        for span in sorted(gold_spans | predicted_spans):
            begin, end, tag = span
            words = ["".join(tokens[begin:end])] if self.of_words else tokens[begin:end]
            is_known = known is None or all(word in known for word in words)
            for counts in [self.tags.setdefault(tag or "words", Counts()), *([] if is_known else [self.unknown])]:
                counts.correct += span in gold_spans and span in predicted_spans
                counts.predicted += span in predicted_spans
                counts.gold += span in gold_spans

    @property
    def unit(self) -> str:
        """The things that are counted."""
        return "words" if self.of_words else "tokens" if self.scheme == "plain" else "spans"

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return self.total.f1

    @property
    def summary(self) -> str:
        return f"{'accuracy' if self.scheme == 'plain' else 'F1'} {self.value:6.2%}"

    @property
    def accuracy(self) -> float:
        """Share of tokens with the correct label."""
        return self.n_correct / self.n_tokens if self.n_tokens else 0.0

    def to_dict(self) -> dict:
        """The scores as numbers, for JSON."""
        tags = {name: self.tags[name].to_dict(self.unit) for name in sorted(self.tags)}
        values = {"accuracy": self.accuracy, "unknown": self.unknown.to_dict(self.unit), "tags": tags}
        return self.total.to_dict(self.unit) | values

    def table(self) -> str:
        """One line per tag, the most frequent first, then totals: all spans, unknown words."""
        rows = sorted(self.tags.items(), key=lambda pair: -pair[1].gold)
        unknown = [("unknown words", self.unknown)] if self.unknown.gold else []
        return "\n".join(
            f"{pad(name, 14)} precision {counts.precision:6.2%}  recall {counts.recall:6.2%}  F1 {counts.f1:6.2%}  "
            f"{format_count(counts.gold, self.unit)}"
            for name, counts in [*rows, ("all", self.total), *unknown]
        )
