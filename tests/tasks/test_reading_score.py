"""Scores of answers, worked out by hand."""

import numpy as np
import pytest
from reading import TEXT

from elmo_tasks.reading.data import (
    Passage,
    Question,
)
from elmo_tasks.reading.score import cmrc_f1, score, squad_f1, squad_words


@pytest.mark.parametrize(
    ("f1", "answer", "predicted", "expected"),
    [
        (cmrc_f1, "1963年", "于1963年", 2 * 2 / (2 + 3)),  # 1963 is one part
        (cmrc_f1, "光荣和ω-force", "光荣和", 2 * 3 / (4 + 3)),  # ωforce is one, without the hyphen
        (
            cmrc_f1,
            "甲乙丙丁",
            "甲乙、戊丁",
            2 * 2 / (4 + 4),
        ),  # only the longest run counts, and marks do not
        (cmrc_f1, "《狂人日记》", "狂人日记。", 1.0),
        (cmrc_f1, "New York", "纽约 new york", 2 * 2 / (2 + 4)),
        (cmrc_f1, "甲", "", 0.0),
        (squad_f1, "the Eiffel Tower", "Eiffel tower.", 1.0),
        (squad_f1, "Eiffel Tower", "in the Eiffel Tower of Paris", 2 * 2 / (2 + 5)),
        (squad_f1, "to be or not to be", "be to", 2 * 2 / (6 + 2)),  # whatever the order
        (
            squad_f1,
            "to be or not to be",
            "to be to be to",
            2 * 4 / (6 + 5),
        ),  # as often as in the answer
        (squad_f1, "a", "the", 0.0),
    ],
)
def test_f1(f1, answer, predicted, expected):
    assert f1(answer, predicted) == pytest.approx(expected)


def test_a_question_has_the_score_of_its_best_answer():
    one = Passage(
        TEXT, [Question("a", "", ["老师", "医生"], [0, 14]), Question("b", "", ["北京"], [4])]
    )
    scores = score([one, one], {"a": "医生。", "b": ""}, "zh")
    assert scores.exact.tolist() == [1, 0, 1, 0] and scores.f1.tolist() == [1, 0, 1, 0]
    assert scores.to_dict()["exact"] == 0.5
    assert score([one], {"a": "", "b": "《北 京》"}, "zh").exact.tolist() == [0, 1]


def test_questions_without_an_answer_are_scored_as_by_squads_evaluator():
    """The evaluator's `get_raw_scores` and `make_eval_dict`, written out.

    A lone article has no words.
    """

    def official(answers: list[str], predicted: str) -> tuple[float, float]:
        golds = [answer for answer in answers if squad_words(answer)] or [""]
        f1 = [squad_f1(gold, predicted) if gold else not squad_words(predicted) for gold in golds]
        return max(squad_words(gold) == squad_words(predicted) for gold in golds), max(f1)

    answers = [[], [], [], ["Rome"], ["the", "Old Rome"], ["the"], ["a"]]
    predicted = ["", "Rome", "the", "", "Rome", "", "Rome"]
    questions = [Question(str(k), "?", some, [None] * len(some)) for k, some in enumerate(answers)]
    scores = score([Passage(TEXT, questions)], dict(zip("0123456", predicted, strict=True)), "en")
    expected = np.array(list(map(official, answers, predicted)), float)
    assert np.array_equal(np.stack([scores.exact, scores.f1], axis=1), expected)
