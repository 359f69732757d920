"""Precision, recall and F1 of labelled spans, as `conlleval` and Paddle's `chunk_eval` count."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from elmo_core.display.terminal import pad
from elmo_core.messages import format_count
from elmo_tasks.records import Label
from elmo_tasks.score import Score
from elmo_tasks.tagging.scheme import spans


def measures(counts: Sequence[int], unit: str) -> dict[str, float | int]:
    """Precision, recall and F1, and the number of gold spans by the name of the unit.

    counts: of correct (same position and tag), predicted and gold spans.
    """
    correct, predicted, gold = counts
    return {
        "precision": correct / max(1, predicted),
        "recall": correct / max(1, gold),
        "f1": 2 * correct / max(1, predicted + gold),
        unit: gold,
    }


@dataclass(eq=False, repr=False)
class TaggerScore(Score):
    """Counts of all spans, by tag, and of unknown words, which the training sentences do not have.

    of_words: spans are words, joined from their tokens; otherwise a span is unknown if one of its
        tokens is.
    known: words of the training sentences.
    total, unknown, tags: numbers of correct, predicted and gold spans.
    """

    scheme: str
    of_words: bool
    known: Collection[str]
    total: list[int] = field(default_factory=lambda: [0, 0, 0])
    unknown: list[int] = field(default_factory=lambda: [0, 0, 0])
    tags: dict[str, list[int]] = field(default_factory=dict)
    n_tokens: int = 0
    n_correct: int = 0  # tokens

    def add(self, tokens: Sequence[str], gold: Sequence[Label], predicted: Sequence[Label]) -> None:
        """Count a sentence: its tokens, their gold and predicted labels."""
        self.n_tokens += len(gold)
        self.n_correct += sum(x == y for x, y in zip(gold, predicted, strict=True))
        gold_spans = set(spans(gold, self.scheme))
        predicted_spans = set(spans(predicted, self.scheme))
        for span in gold_spans | predicted_spans:
            begin, end, tag = span
            counted = [self.total, self.tags.setdefault(tag or "words", [0, 0, 0])]
            words = ["".join(tokens[begin:end])] if self.of_words else tokens[begin:end]
            if not all(word in self.known for word in words):
                counted.append(self.unknown)
            for counts in counted:
                counts[0] += span in gold_spans and span in predicted_spans
                counts[1] += span in predicted_spans
                counts[2] += span in gold_spans

    @property
    def unit(self) -> str:
        """The things that are counted."""
        if self.of_words:
            return "words"
        return "tokens" if self.scheme == "plain" else "spans"

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return measures(self.total, self.unit)["f1"]

    @property
    def main_figures(self) -> dict[str, float]:
        return {"accuracy" if self.scheme == "plain" else "F1": self.value}

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = measures(self.total, self.unit)
        values["accuracy"] = self.n_correct / max(1, self.n_tokens)
        values["unknown"] = measures(self.unknown, self.unit)
        values["tags"] = {tag: measures(self.tags[tag], self.unit) for tag in sorted(self.tags)}
        return values

    def table(self) -> str:
        """One line per tag, the most frequent first, then totals: all spans, unknown words."""
        tags = sorted(self.tags, key=lambda tag: (-self.tags[tag][2], tag))
        lines = [self._line(tag, self.tags[tag]) for tag in tags]
        lines.append(self._line("all", self.total))
        if self.unknown[2]:
            lines.append(self._line("unknown words", self.unknown))
        return "\n".join(lines)

    def _line(self, name: str, counts: Sequence[int]) -> str:
        precision, recall, f1, gold = measures(counts, self.unit).values()
        scores = f"precision {precision:6.2%}  recall {recall:6.2%}  F1 {f1:6.2%}"
        return f"{pad(name, 14)} {scores}  {format_count(gold, self.unit)}"
