"""Precision, recall and F1 of labelled spans, as `conlleval` and Paddle's `chunk_eval` count them."""

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

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

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(1, self.predicted + self.gold)

    def to_dict(self, unit: str) -> dict[str, float | int]:
        precision, recall = self.correct / max(1, self.predicted), self.correct / max(1, self.gold)
        return {"precision": precision, "recall": recall, "f1": self.f1, unit: self.gold}


@dataclass
class Score:
    """Counts of all spans, by tag, and of unknown words: those that do not occur in the training sentences.

    of_words: spans are words, joined from their tokens; otherwise a span is unknown if one of its tokens is.
    """

    scheme: str
    of_words: bool
    known: Collection[str]  # words of the training sentences
    total: Counts = field(default_factory=Counts)
    tags: dict[str, Counts] = field(default_factory=dict)
    unknown: Counts = field(default_factory=Counts)
    n_tokens: int = 0
    n_correct: int = 0  # tokens

    def add(self, tokens: Sequence[str], gold: Sequence[Label], predicted: Sequence[Label]) -> None:
        """Count a sentence: its tokens, their gold and predicted labels."""
        gold_spans, predicted_spans = set(spans(gold, self.scheme)), set(spans(predicted, self.scheme))
        self.n_tokens += len(gold)
        self.n_correct += sum(map(operator.eq, gold, predicted))
        for span in gold_spans | predicted_spans:
            begin, end, tag = span
            words = ["".join(tokens[begin:end])] if self.of_words else tokens[begin:end]
            unknown = [] if all(word in self.known for word in words) else [self.unknown]
            for counts in [self.total, self.tags.setdefault(tag or "words", Counts()), *unknown]:
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

    def to_dict(self) -> dict[str, Any]:
        tags = {name: self.tags[name].to_dict(self.unit) for name in sorted(self.tags)}
        values = {"accuracy": self.n_correct / max(1, self.n_tokens), "unknown": self.unknown.to_dict(self.unit)}
        return {**self.total.to_dict(self.unit), **values, "tags": tags}

    def table(self) -> str:
        """One line per tag, the most frequent first, then totals: all spans, unknown words."""
        rows = sorted(self.tags.items(), key=lambda pair: (-pair[1].gold, pair[0]))
        unknown = [("unknown words", self.unknown)] if self.unknown.gold else []
        lines = []
        for name, counts in [*rows, ("all", self.total), *unknown]:
            precision, recall, f1, _ = counts.to_dict("").values()
            scores = f"precision {precision:6.2%}  recall {recall:6.2%}  F1 {f1:6.2%}"
            lines.append(f"{pad(name, 14)} {scores}  {format_count(counts.gold, self.unit)}")
        return "\n".join(lines)
