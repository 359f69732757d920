"""Scores of answers: exact match and F1.

They are those of the evaluators of CMRC 2018, for Chinese, and of SQuAD, for other languages.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

import numpy as np

from elmo_core.messages import format_count
from elmo_core.text.tokenise import CHINESE
from elmo_tasks.reading.data import Passage
from elmo_tasks.score import Score

ARTICLES = re.compile(r"\b(a|an|the)\b")
# Marks that the evaluator of CMRC 2018 ignores.
CMRC_MARKS = re.compile(r"[-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』]")
CMRC_PART = re.compile(r"[\u4e00-\u9fa5]|\d+(?:[.,]\d+)*|(?:(?![\u4e00-\u9fa5])\w)+|[^\w\s]")


def squad_words(text: str) -> list[str]:
    """Lower-case words without punctuation and articles."""
    kept = [character for character in text.lower() if character not in string.punctuation]
    return ARTICLES.sub(" ", "".join(kept)).split()


def squad_f1(answer: str, predicted: str) -> float:
    """F1 of the common words, in any order."""
    a = squad_words(answer)
    b = squad_words(predicted)
    common = sum((Counter(a) & Counter(b)).values())
    return _f1(common, len(a), len(b))


def cmrc_characters(text: str) -> str:
    """Lower-case characters without punctuation and white space."""
    return "".join(CMRC_MARKS.sub("", text.lower()).split())


def cmrc_f1(answer: str, predicted: str) -> float:
    """F1 of the longest common substring, in parts."""
    a = cmrc_parts(answer)
    b = cmrc_parts(predicted)
    common = SequenceMatcher(None, a, b, autojunk=False).find_longest_match().size
    return _f1(common, len(a), len(b))


def cmrc_parts(text: str) -> list[str]:
    """Chinese characters, lower-case words and numbers of other scripts, and further marks."""
    return CMRC_PART.findall(CMRC_MARKS.sub("", text.lower()))


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
    def main_figures(self) -> dict[str, float]:
        return {"EM": float(self.exact.mean()), "F1": self.value}

    def to_dict(self) -> dict[str, float | int]:
        return {"exact": float(self.exact.mean()), "f1": self.value, "questions": len(self.f1)}

    def table(self) -> str:
        return format_count(len(self.f1), "questions")


def score(
    passages: Sequence[Passage], predictions: Mapping[str, str], language: str
) -> ReaderScore:
    """Score predictions by the questions' ids. A question gets the score of its best answer.

    If some questions have no answer, it is as in SQuAD 2's evaluator: they score 1 for a prediction
    without words, else 0, and so do those whose answers have no words.
    """
    questions = list(chain.from_iterable(passage.questions for passage in passages))
    may_lack = not all(question.answers for question in questions)
    exact = []
    f1 = []
    for question in questions:
        answers = question.answers
        if may_lack:
            answers = [answer for answer in answers if normalised(answer, language)]
        predicted = predictions[question.id]
        exact.append(exact_match(answers, predicted, language))
        f1.append(best_f1(answers, predicted, language))
    return ReaderScore(np.array(exact, float), np.array(f1, float))


def normalised(text: str, language: str) -> str | list[str]:
    """What exact match compares."""
    return cmrc_characters(text) if language in CHINESE else squad_words(text)


def exact_match(answers: Sequence[str], predicted: str, language: str) -> bool:
    """Whether a prediction is one of the answers or, if there are none, has no words."""
    found = normalised(predicted, language)
    if not answers:
        return not found
    return bool(predicted) and any(normalised(answer, language) == found for answer in answers)


def best_f1(answers: Sequence[str], predicted: str, language: str) -> float:
    """The F1 of the answer that is nearest to a prediction; without answers, as exact match."""
    if not answers:
        return float(not normalised(predicted, language))
    f1 = cmrc_f1 if language in CHINESE else squad_f1
    return max(f1(answer, predicted) for answer in answers)
