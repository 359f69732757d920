"""How good answers are: exact match and F1 as the evaluators of SQuAD 1.1 and CMRC 2018 define them, Rouge-L as DuReader
does.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_tasks.reading.data import Passage

ARTICLES = re.compile(r"\b(a|an|the)\b")
CMRC_MARKS = re.compile(r"[-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』]")  # which the evaluator leaves out
CMRC_PART = re.compile(r"[\u4e00-\u9fa5]|\d+(?:[.,]\d+)*|(?:(?![\u4e00-\u9fa5])\w)+|[^\w\s]")
ROUGE_BETA = 1.2


def squad_words(text: str) -> list[str]:
    """In lower case, without punctuation and articles."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return ARTICLES.sub(" ", text).split()


def squad_f1(answer: str, given: str) -> float:
    """F1 of the words that both have, in any order."""
    one, other = squad_words(answer), squad_words(given)
    return _f1(sum((Counter(one) & Counter(other)).values()), len(one), len(other))


def cmrc_characters(text: str) -> str:
    """In lower case, without punctuation and white space."""
    return "".join(CMRC_MARKS.sub("", text.lower()).split())


def cmrc_f1(answer: str, given: str) -> float:
    """F1 of the longest run that both have, in Chinese characters, words in other scripts, and marks."""
    one, other = (CMRC_PART.findall(CMRC_MARKS.sub("", text.lower())) for text in (answer, given))
    return _f1(longest_run(one, other), len(one), len(other))


def _f1(common: int, one: int, other: int) -> float:
    return 2 * common / (one + other) if common else 0.0


def longest_run(one: Sequence, other: Sequence) -> int:
    """The length of the longest contiguous part that both have."""
    longest, before = 0, [0] * (len(other) + 1)
    for x in one:
        row = [0, *(n + 1 if x == y else 0 for y, n in zip(other, before, strict=False))]
        longest, before = max(longest, *row), row
    return longest


def longest_subsequence(one: Sequence, other: Sequence) -> int:
    """The length of the longest subsequence that both have, with gaps."""
    before = [0] * (len(other) + 1)
    for x in one:
        row = [0]
        for k, y in enumerate(other):
            row.append(before[k] + 1 if x == y else max(row[k], before[k + 1]))
        before = row
    return before[-1]


def rouge_l(answers: Sequence[Sequence], given: Sequence) -> float:
    """The best precision and the best recall over the answers, which may be of two of them, recall weighing more."""
    common = [(longest_subsequence(answer, given), len(answer)) for answer in answers]
    precision = max(n for n, _ in common) / len(given) if given else 0.0
    recall = max(n / length if length else 0.0 for n, length in common)
    weight = ROUGE_BETA**2
    return (1 + weight) * precision * recall / (recall + weight * precision) if precision and recall else 0.0


# By language: what exact match compares, F1, and the units of Rouge-L
MEASURES: dict[str, tuple[Callable, Callable, Callable]] = {
    "en": (lambda text: " ".join(squad_words(text)), squad_f1, squad_words),
    "zh": (cmrc_characters, cmrc_f1, lambda text: list("".join(text.split()))),
}


@dataclass
class Scores:
    """For each question, in order: exact match, F1 and Rouge-L, and the number of its passage."""

    exact: np.ndarray
    f1: np.ndarray
    rouge: np.ndarray
    passage: np.ndarray
    unanswered: int = 0

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return self.f1.mean()

    @property
    def brief(self) -> str:
        return f"EM {self.exact.mean():6.2%}  F1 {self.value:6.2%}"

    def figures(self) -> dict[str, float | int]:
        """The means, for JSON."""
        means = {name: float(getattr(self, name).mean()) for name in ("exact", "f1", "rouge")}
        return {**means, "questions": len(self.f1), "unanswered": self.unanswered}

    def __str__(self) -> str:
        left = f", {self.unanswered:,} of them without a prediction" if self.unanswered else ""
        return (
            f"EM {self.exact.mean():.2%}  F1 {self.f1.mean():.2%}  Rouge-L {self.rouge.mean():.2%}  "
            f"{len(self.f1):,} questions{left}"
        )


def score(passages: Sequence[Passage], predictions: Mapping[str, str], language: str) -> Scores:
    """Predictions by the questions' ids. A question has the score of its best answer, and 0 without a prediction."""
    compared, f1, units = MEASURES[language]
    rows, unanswered = [], 0
    for number, passage in enumerate(passages):
        for question in passage.questions:
            given = predictions.get(question.id)
            unanswered += given is None
            given, answers = given or "", question.answers
            exact = any(compared(given) == compared(answer) for answer in answers) if given else False
            rouge = rouge_l([units(answer) for answer in answers], units(given))
            rows.append((exact, max(f1(answer, given) for answer in answers), rouge, number))
    exact, f1, rouge, passage = map(np.array, zip(*rows, strict=True))
    return Scores(exact.astype(float), f1, rouge, passage, unanswered)
