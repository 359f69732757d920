"""Lines of text as the tagger's tokens, with their offsets in the line."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmo_core.text.offsets import token_offsets
from elmo_tasks.tagging.scheme import spans


class Span(NamedTuple):
    """Tokens with one label: text[begin:end] of a line. score: the probability of exactly these labels at these tokens."""

    begin: int
    end: int
    text: str
    label: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


@dataclass
class Line:
    """A line of text. words: its tokens in its own characters. tokens: the same as the tagger reads them."""

    text: str
    words: Sequence[str]
    tokens: Sequence[str]

    @classmethod
    def from_tokens(cls, tokens: Sequence[str]) -> "Line":
        return cls(" ".join(tokens), tokens, tokens)

    def spans(self, labels: Sequence[str], scheme: str, scores: Iterable[float] | None = None) -> list[Span]:
        """The spans of the labels, or the tokens if the scheme has no spans. scores: one per span, if computed."""
        result, labelled, offsets = [], spans(labels, scheme), token_offsets(self.words, self.text).tolist()
        for (first, end, label), score in zip(labelled, scores or [math.nan] * len(labelled), strict=True):
            begin, end = offsets[first][0], offsets[end - 1][1]
            result.append(Span(begin, end, self.text[begin:end], label, score))
        return result
