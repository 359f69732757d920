"""Scores of answers: exact match and F1 as in the evaluators of SQuAD and CMRC 2018, Rouge-L as in DuReader's."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial

import numpy as np

from elmo_core.messages import format_count
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
    """Exact match, F1, Rouge-L, the index of the passage, and whether that has an answer, per question, in order."""

    exact: np.ndarray
    f1: np.ndarray
    rouge: np.ndarray
    passage: np.ndarray
    has_answer: np.ndarray
    unanswered: int = 0

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return self.f1.mean()

    @property
    def summary(self) -> str:
        return f"EM {self.exact.mean():6.2%}  F1 {self.value:6.2%}"

    def to_dict(self) -> dict[str, float | int]:
        """The means, for JSON; if some questions have no answer, also those that SQuAD 2's evaluator prints."""
        means = {name: float(getattr(self, name).mean()) for name in ("exact", "f1", "rouge")}
        values = {**means, "questions": len(self.f1), "unanswered": self.unanswered}
        for part, rows in self._parts().items():
            means = {f"{part}_{name}": float(getattr(self, name)[rows].mean()) for name in ("exact", "f1")}
            values |= {**means, f"{part}_total": int(rows.sum())}
        return values

    def _parts(self) -> dict[str, np.ndarray]:
        """Split the questions into those with and without an answer, if any has none."""
        parts = {"HasAns": self.has_answer, "NoAns": ~self.has_answer}
        return {name: rows for name, rows in parts.items() if rows.any() and not self.has_answer.all()}

    def __str__(self) -> str:
        unanswered = f", {self.unanswered:,} of them without a prediction" if self.unanswered else ""
        parts = "".join(
            f"  {name} EM {self.exact[rows].mean():.2%} F1 {self.f1[rows].mean():.2%}, {rows.sum():,}"
            for name, rows in self._parts().items()
        )
        return (
            f"EM {self.exact.mean():.2%}  F1 {self.f1.mean():.2%}  Rouge-L {self.rouge.mean():.2%}  "
            f"{format_count(len(self.f1), 'questions')}{unanswered}{parts}"
        )


def score(passages: Sequence[Passage], predictions: Mapping[str, str], language: str) -> Scores:
    """Score predictions by the questions' ids. A question gets the score of its best answer, 0 without a prediction.

    If some questions have no answer, it is as in SQuAD 2's evaluator: they score 1 for a prediction without words, else 0,
    and so do those whose answers have no words.
    """
    normalised, f1, units = METRICS[language]
    rows, unanswered = [], 0
    may_lack = not all(question.answers for passage in passages for question in passage.questions)
    for k, passage in enumerate(passages):
        for question in passage.questions:
            unanswered += question.id not in predictions
            predicted, answers = predictions.get(question.id, ""), question.answers
            if may_lack and not (answers := list(filter(normalised, answers))):
                is_right = float(question.id in predictions and not normalised(predicted))
                rows.append((is_right, is_right, is_right, k, bool(question.answers)))
                continue
            exact = bool(predicted) and any(normalised(predicted) == normalised(answer) for answer in answers)
            rouge = rouge_l([units(answer) for answer in answers], units(predicted))
            rows.append((exact, max(f1(answer, predicted) for answer in answers), rouge, k, bool(question.answers)))
    exact, f1, rouge, passage, has_answer = map(np.array, zip(*rows, strict=True))
    return Scores(exact.astype(float), f1, rouge, passage, has_answer, unanswered)


def best_threshold(gains: np.ndarray, margins: np.ndarray) -> float:
    """Above which margin to answer a question, so that the sum of gains is highest.

    gains: of F1, of the answer over no answer; margins: of their scores.
    """
    order = np.argsort(-margins, kind="stable")
    margins, total = margins[order], np.concatenate([[0.0], gains[order].cumsum()])  # of the first k answered
    bounds = np.concatenate([[margins[0] + 2], margins, [margins[-1] - 2]])
    total[bounds[:-1] == bounds[1:]] = -np.inf  # equal margins are not told apart
    k = int(total.argmax())
    return float(bounds[k] + bounds[k + 1]) / 2


def mistakes(passages: Sequence[Passage], predictions: Mapping[str, str], scores: Scores) -> Iterator[Sequence[object]]:
    """Yield the rows of a table of the questions without an exact match, the lowest F1 first."""
    yield "f1", "id", "question", "answers", "predicted"
    questions = [question for passage in passages for question in passage.questions]
    for k in np.argsort(scores.f1, kind="stable"):
        if not scores.exact[k]:
            question, answers = questions[k], " | ".join(dict.fromkeys(questions[k].answers))
            yield f"{scores.f1[k]:.4f}", question.id, question.text, answers, predictions.get(question.id, "")
