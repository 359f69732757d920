"""What all scores have in common: of an epoch, of a test set, and those of a saved model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Score(ABC):
    """The score of a model on labelled data.

    It prints itself, and `score["f1"]` is a figure of `to_dict()`.
    """

    @property
    @abstractmethod
    def value(self) -> float:
        """The figure that selects the best epoch: the higher, the better."""

    @property
    def main_figures(self) -> dict[str, float]:
        """The figures, by name, of the log and of the curve of a training."""
        return {"score": float(self.value)}

    @property
    def summary(self) -> str:
        """The main figures in a few words, for the log."""
        return "  ".join(f"{name} {share:6.2%}" for name, share in self.main_figures.items())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All figures by name, as plain values for JSON."""

    def table(self) -> str:
        """The figures in detail, as lines of text; "" if there are no others."""
        return ""

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def __str__(self) -> str:
        return f"{self.summary.strip()}\n{self.table()}".rstrip()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary.strip()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Score) and self.to_dict() == other.to_dict()

    __hash__ = None


@dataclass(frozen=True, eq=False, repr=False)
class PlainScore(Score):
    """A score whose parts are given: of a saved model, or of a simple task."""

    figures: Mapping[str, Any]
    value: float = 0.0
    summary: str = ""
    lines: str = ""

    def to_dict(self) -> dict[str, Any]:
        return dict(self.figures)

    def table(self) -> str:
        return self.lines
