"""Precision, recall and F1 of labelled spans, as `conlleval` and Paddle's `chunk_eval` count them."""

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from elmo_core.display.terminal import pad
from elmo_core.messages import format_count
from elmo_tasks.records import Label
from elmo_tasks.score import Score
from elmo_tasks.tagging.scheme import spans


def measures(counts: Sequence[int], unit: str) -> dict[str, float | int]:
    """Precision, recall and F1 of the numbers of correct (same position and tag), predicted and gold spans."""
    correct, predicted, gold = counts
    shares = {"precision": correct / max(1, predicted), "recall": correct / max(1, gold)}
    return {**shares, "f1": 2 * correct / max(1, predicted + gold), unit: gold}


@dataclass(eq=False, repr=False)
class TaggerScore(Score):
    """Counts of all spans, by tag, and of unknown words: those that do not occur in the training sentences.

    of_words: spans are words, joined from their tokens; otherwise a span is unknown if one of its tokens is.
    """

    scheme: str
    of_words: bool
    known: Collection[str]  # words of the training sentences
    total: list[int] = field(default_factory=lambda: [0, 0, 0])  # correct, predicted, gold
    unknown: list[int] = field(default_factory=lambda: [0, 0, 0])
    tags: dict[str, list[int]] = field(default_factory=dict)
    n_tokens: int = 0
    n_correct: int = 0  # tokens

    def add(self, tokens: Sequence[str], gold: Sequence[Label], predicted: Sequence[Label]) -> None:
        """Count a sentence: its tokens, their gold and predicted labels."""
        gold_spans, predicted_spans = (
            set(spans(gold, self.scheme)),
            set(spans(predicted, self.scheme)),
        )
        self.n_tokens += len(gold)
        self.n_correct += sum(map(operator.eq, gold, predicted))
        for span in gold_spans | predicted_spans:
            begin, end, tag = span
            words = ["".join(tokens[begin:end])] if self.of_words else tokens[begin:end]
            unknown = [] if all(word in self.known for word in words) else [self.unknown]
            is_gold, is_predicted = span in gold_spans, span in predicted_spans
            for counts in [self.total, self.tags.setdefault(tag or "words", [0, 0, 0]), *unknown]:
                counts[:] = map(
                    operator.add, counts, (is_gold and is_predicted, is_predicted, is_gold)
                )

    @property
    def unit(self) -> str:
        """The things that are counted."""
        return "words" if self.of_words else "tokens" if self.scheme == "plain" else "spans"

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return measures(self.total, self.unit)["f1"]

    @property
    def summary(self) -> str:
        return f"{'accuracy' if self.scheme == 'plain' else 'F1'} {self.value:6.2%}"

    def to_dict(self) -> dict[str, Any]:
        tags = {name: measures(self.tags[name], self.unit) for name in sorted(self.tags)}
        values = {
            "accuracy": self.n_correct / max(1, self.n_tokens),
            "unknown": measures(self.unknown, self.unit),
        }
        return {**measures(self.total, self.unit), **values, "tags": tags}

    def table(self) -> str:
        """One line per tag, the most frequent first, then totals: all spans, unknown words."""
        rows = sorted(self.tags.items(), key=lambda pair: (-pair[1][2], pair[0]))
        unknown = [("unknown words", self.unknown)] if self.unknown[2] else []
        lines = []
        for name, counts in [*rows, ("all", self.total), *unknown]:
            precision, recall, f1, gold = measures(counts, self.unit).values()
            scores = f"precision {precision:6.2%}  recall {recall:6.2%}  F1 {f1:6.2%}"
            lines.append(f"{pad(name, 14)} {scores}  {format_count(gold, self.unit)}")
        return "\n".join(lines)
