"""Scores of answers: exact match and F1 as in the evaluators of SQuAD 1.1 and CMRC 2018, Rouge-L as in DuReader's."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial

import numpy as np

from elmo_core.machine.messages import format_count
from elmo_core.text.tokenise import HAS_WORD, Tokeniser
from elmo_tasks.reading.data import Passage

ARTICLES = re.compile(r"\b(a|an|the)\b")
CMRC_MARKS = re.compile(r"[-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』]")  # ignored by the evaluator
CMRC_PART = re.compile(r"[\u4e00-\u9fa5]|\d+(?:[.,]\d+)*|(?:(?![\u4e00-\u9fa5])\w)+|[^\w\s]")
ROUGE_BETA = 1.2


def squad_words(text: str) -> list[str]:
    """Lower-case words without punctuation and articles."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return ARTICLES.sub(" ", text).split()


def unicode_words(text: str) -> list[str]:
    """Lower-case words of any language, without punctuation."""
    return [word for word in Tokeniser("any")(text.lower()) if HAS_WORD.search(word)]


def word_f1(words: Callable[[str], list[str]], answer: str, predicted: str) -> float:
    """F1 of the common words, in any order."""
    a, b = words(answer), words(predicted)
    return _f1(sum((Counter(a) & Counter(b)).values()), len(a), len(b))


def cmrc_characters(text: str) -> str:
    """Lower-case characters without punctuation and white space."""
    return "".join(CMRC_MARKS.sub("", text.lower()).split())


def cmrc_f1(answer: str, predicted: str) -> float:
    """F1 of the longest common substring, in Chinese characters, words of other scripts, and marks."""
    a, b = (CMRC_PART.findall(CMRC_MARKS.sub("", text.lower())) for text in (answer, predicted))
    return _f1(SequenceMatcher(None, a, b, autojunk=False).find_longest_match().size, len(a), len(b))


def _f1(common: int, n_answer: int, n_predicted: int) -> float:
    return 2 * common / (n_answer + n_predicted) if common else 0.0


def longest_common_subsequence(a: Sequence, b: Sequence) -> int:
    previous = [0] * (len(b) + 1)
    for x in a:
        row = [0]
        for k, y in enumerate(b):
            row.append(previous[k] + 1 if x == y else max(row[k], previous[k + 1]))
        previous = row
    return previous[-1]


def rouge_l(answers: Sequence[Sequence], predicted: Sequence) -> float:
    """Combine the best precision and the best recall over all answers, weighted towards recall."""
    common = [(longest_common_subsequence(answer, predicted), len(answer)) for answer in answers]
    precision = max(n for n, _ in common) / len(predicted) if predicted else 0.0
    recall = max(n / length if length else 0.0 for n, length in common)
    weight = ROUGE_BETA**2
    return (1 + weight) * precision * recall / (recall + weight * precision) if precision and recall else 0.0


def _word_metrics(words: Callable[[str], list[str]]) -> tuple[Callable, Callable, Callable]:
    return lambda text: " ".join(words(text)), partial(word_f1, words), words


# Per language: the form compared by exact match, F1, and the units of Rouge-L
METRICS: dict[str, tuple[Callable, Callable, Callable]] = {
    "en": _word_metrics(squad_words),
    "any": _word_metrics(unicode_words),
    "none": _word_metrics(lambda text: text.lower().split()),
    "zh": (cmrc_characters, cmrc_f1, lambda text: list("".join(text.split()))),
}
METRICS["characters"] = METRICS["zh"]


@dataclass
class Scores:
    """Exact match, F1, Rouge-L and the index of the passage, per question, in order."""

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
    def summary(self) -> str:
        return f"EM {self.exact.mean():6.2%}  F1 {self.value:6.2%}"

    def to_dict(self) -> dict[str, float | int]:
        """The means, for JSON."""
        means = {name: float(getattr(self, name).mean()) for name in ("exact", "f1", "rouge")}
        return {**means, "questions": len(self.f1), "unanswered": self.unanswered}

    def __str__(self) -> str:
        unanswered = f", {self.unanswered:,} of them without a prediction" if self.unanswered else ""
        return (
            f"EM {self.exact.mean():.2%}  F1 {self.f1.mean():.2%}  Rouge-L {self.rouge.mean():.2%}  "
            f"{format_count(len(self.f1), 'questions')}{unanswered}"
        )


def score(passages: Sequence[Passage], predictions: Mapping[str, str], language: str) -> Scores:
    """Score predictions by the questions' ids. A question gets the score of its best answer, 0 without a prediction."""
    normalised, f1, units = METRICS[language]
    rows, unanswered = [], 0
    for k, passage in enumerate(passages):
        for question in passage.questions:
            unanswered += question.id not in predictions
            predicted, answers = predictions.get(question.id, ""), question.answers
            exact = bool(predicted) and any(normalised(predicted) == normalised(answer) for answer in answers)
            rouge = rouge_l([units(answer) for answer in answers], units(predicted))
            rows.append((exact, max(f1(answer, predicted) for answer in answers), rouge, k))
    exact, f1, rouge, passage = map(np.array, zip(*rows, strict=True))
    return Scores(exact.astype(float), f1, rouge, passage, unanswered)


def mistakes(passages: Sequence[Passage], predictions: Mapping[str, str], scores: Scores) -> Iterator[Sequence[object]]:
    """Yield the rows of a table of the questions without an exact match, the lowest F1 first."""
    yield "f1", "id", "question", "answers", "predicted"
    questions = [question for passage in passages for question in passage.questions]
    for k in np.argsort(scores.f1, kind="stable"):
        if not scores.exact[k]:
            question, answers = questions[k], " | ".join(dict.fromkeys(questions[k].answers))
            yield f"{scores.f1[k]:.4f}", question.id, question.text, answers, predictions.get(question.id, "")
