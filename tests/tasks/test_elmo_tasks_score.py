"""What all scores have in common, shown by a plain one."""

import pytest

from elmo_tasks.score import PlainScore, Score

SCORE = PlainScore({"f1": 0.5, "texts": 2}, value=0.5, summary="F1 50% ", lines="all 2")


def test_a_figure_is_had_by_its_name():
    assert SCORE["f1"] == SCORE.value == 0.5 and SCORE.to_dict() == {"f1": 0.5, "texts": 2}
    with pytest.raises(KeyError):
        SCORE["f2"]


def test_a_score_prints_itself():
    assert str(SCORE) == "F1 50%\nall 2" and repr(SCORE) == "<PlainScore: F1 50%>"
    assert str(PlainScore({}, summary="F1 50%")) == "F1 50%"


def test_scores_are_equal_if_their_figures_are():
    assert PlainScore(dict(SCORE.figures)) == SCORE != PlainScore({"f1": 0.4, "texts": 2})


def test_a_score_has_a_value_and_figures():
    with pytest.raises(TypeError, match=r"to_dict.*value"):
        type("Lacking", (Score,), {})()
