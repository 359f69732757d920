"""Scores of answers: exact match and F1 as in the evaluators of CMRC 2018, for Chinese, and of SQuAD."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from elmo_core.messages import format_count
from elmo_core.text.tokenise import CHINESE
from elmo_tasks.reading.data import Passage
from elmo_tasks.score import Score

ARTICLES = re.compile(r"\b(a|an|the)\b")
CMRC_MARKS = re.compile(
    r"[-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』]"
)  # ignored by the evaluator
CMRC_PART = re.compile(r"[\u4e00-\u9fa5]|\d+(?:[.,]\d+)*|(?:(?![\u4e00-\u9fa5])\w)+|[^\w\s]")


def squad_words(text: str) -> list[str]:
    """Lower-case words without punctuation and articles."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return ARTICLES.sub(" ", text).split()


def squad_f1(answer: str, predicted: str) -> float:
    """F1 of the common words, in any order."""
    a, b = squad_words(answer), squad_words(predicted)
    return _f1(sum((Counter(a) & Counter(b)).values()), len(a), len(b))


def cmrc_characters(text: str) -> str:
    """Lower-case characters without punctuation and white space."""
    return "".join(CMRC_MARKS.sub("", text.lower()).split())


def cmrc_f1(answer: str, predicted: str) -> float:
    """F1 of the longest common substring, in Chinese characters, words of other scripts, and marks."""
    a, b = (CMRC_PART.findall(CMRC_MARKS.sub("", text.lower())) for text in (answer, predicted))
    return _f1(
        SequenceMatcher(None, a, b, autojunk=False).find_longest_match().size, len(a), len(b)
    )


def _f1(common: int, n_answer: int, n_predicted: int) -> float:
    return 2 * common / (n_answer + n_predicted) if common else 0.0


@dataclass(eq=False, repr=False)
class ReaderScore(Score):
    """Exact match and F1 per question, in order: (Q,)."""

    exact: np.ndarray
    f1: np.ndarray

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return float(self.f1.mean())

    @property
    def summary(self) -> str:
        return f"EM {self.exact.mean():6.2%}  F1 {self.value:6.2%}"

    def to_dict(self) -> dict[str, float | int]:
        return {"exact": float(self.exact.mean()), "f1": self.value, "questions": len(self.f1)}

    def table(self) -> str:
        return format_count(len(self.f1), "questions")


def score(
    passages: Sequence[Passage], predictions: Mapping[str, str], language: str
) -> ReaderScore:
    """Score predictions by the questions' ids. A question gets the score of its best answer.

    If some questions have no answer, it is as in SQuAD 2's evaluator: they score 1 for a prediction without words, else 0,
    and so do those whose answers have no words.
    """
    normalised, f1 = (cmrc_characters, cmrc_f1) if language in CHINESE else (squad_words, squad_f1)
    questions = [question for passage in passages for question in passage.questions]
    may_lack, rows = not all(question.answers for question in questions), []
    for question in questions:
        predicted, answers = predictions[question.id], question.answers
        if may_lack and not (answers := list(filter(normalised, answers))):
            rows.append([not normalised(predicted)] * 2)
            continue
        exact = bool(predicted) and any(
            normalised(predicted) == normalised(answer) for answer in answers
        )
        rows.append([exact, max(f1(answer, predicted) for answer in answers)])
    exact, f1 = np.array(rows, float).T
    return ReaderScore(exact, f1)
