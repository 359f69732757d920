"""Data sets of passages and questions, and what is trained on."""

import json

import numpy as np
import pytest
from reading import QUESTIONS, TEXT

from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.reading.data import (
    Passage,
    Question,
    read_passages,
    tokenise_passages,
    training_groups,
)


def passage(text: str = TEXT, questions: dict[str, str] = QUESTIONS, name: str = "q") -> Passage:
    pairs = enumerate(questions.items())
    return Passage(
        text,
        [Question(f"{name}{k}", q, [answer], [text.index(answer)]) for k, (q, answer) in pairs],
    )


@pytest.fixture
def read(tmp_path):
    """A function that reads a data set from a file of these values."""

    def read(values: object, **options) -> list[Passage]:
        text = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)
        (tmp_path / "x.json").write_text(text, encoding="utf-8")
        return read_passages(tmp_path / "x.json", **options)

    return read


def questions_of(passages: list[Passage]) -> list[Question]:
    questions = []
    for passage in passages:
        questions += passage.questions
    return questions


def squad(*questions: dict, context: str = TEXT) -> dict:
    return {
        "version": "1.1",
        "data": [{"title": "", "paragraphs": [{"context": context, "qas": list(questions)}]}],
    }


def qa(id: str, text: str, begin: object = 0, question: str = "谁？") -> dict:
    return {"id": id, "question": question, "answers": [{"text": text, "answer_start": begin}]}


def test_squads_form_and_hugging_faces_are_read(read, messages):
    questions = qa("a", "北京", 4), qa("b", "上海", 7), qa("c", "广州", -1, question="")
    data = questions_of(read(squad(*questions)))
    assert [question.answer_starts for question in data] == [[4], [TEXT.index("上海")], [None]]
    for fault in (
        "answers moved to where their text occurs: 1",
        "answers that are not in their passage: 1",
        "questions without words: 1",
    ):
        assert fault in messages()
    questions[1]["answers"] = None
    assert questions_of(read(squad(*questions), require_answers=False))[1].answers == []
    flat = [
        {**question, "context": TEXT, "answers": {"text": ["北京"], "answer_start": [4]}}
        for question in questions
    ]
    for values in (flat, "\n".join(json.dumps(question) for question in flat)):
        assert read(values) == read_passages(flat)
    (one,) = read(flat)
    assert one.text == TEXT and one.questions[2] == Question("c", "", ["北京"], [4])
    one = {**qa("a", "北京"), "context": TEXT, "answers": {"text": "北京", "answer_start": 4}}
    assert questions_of(read([one]))[0].answers == ["北京"]
    nearest = questions_of(read(squad(qa("a", "住在", 13), qa("b", "住在", 5))))
    assert [question.answer_starts for question in nearest] == [
        [TEXT.rindex("住在")],
        [TEXT.index("住在")],
    ]


def test_questions_without_an_answer_are_read(read, messages):
    impossible = {"is_impossible": True, "plausible_answers": qa("", "北京")["answers"]}
    checklist = {**qa("c", "", -1), "is_impossible": True}
    data = read(
        squad(
            qa("a", "北京", 4),
            {"id": "b", "question": "谁？", "answers": [], **impossible},
            checklist,
        )
    )
    assert [question.answers for question in questions_of(data)] == [["北京"], [], []]
    assert "questions without an answer: 2" in messages()
    flat = {
        "id": "a",
        "context": TEXT,
        "question": "谁？",
        "answers": {"text": [], "answer_start": []},
    }
    assert questions_of(read([flat])) == [Question("a", "谁？", [], [])]
    (unclear,) = questions_of(
        read([{**flat, "is_impossible": np.nan, "answers": {"text": ["年"], "answer_start": [4]}}])
    )
    assert unclear.answers


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], "no question"),
        ({"data": [{}]}, "article 1: 'paragraphs'"),
        (squad({"id": "a", "answers": []}), "question 1: 'question'"),
        (squad(qa("a", "北京"), qa("a", "北京")), "'a'"),
        (squad(qa("a", "北京", "4")), "'4'"),
        (squad({"id": "a", "question": "谁？"}), "'answers' is missing"),
        (squad({"id": "a", "question": "谁？", "answers": "北京"}), "'answers'"),
        (squad(qa("a", "北京"), context=" \n"), "empty"),
        ('"text"', "'text'"),
        ({"id": "a"}, "object 1: 'data'"),
        (squad(qa("a", "北京"), context="甲\0"), "NUL"),
        (
            '{"context": "a b", "question": "?", "id": "1", "answers": []}\n{"question": "?"}',
            ":2: 'context'",
        ),
        ([{"question": "谁？", "id": "a"}], "object 1: 'context'"),
        (
            [
                {
                    "question": "谁？",
                    "id": "a",
                    "context": "甲",
                    "answers": {"text": ["甲"], "start": [0]},
                }
            ],
            "answer_start",
        ),
        ("{", "JSON"),
        ('[\n{"id": 1}\n{"id": 2}]', "line 3 column 1"),
    ],
)
def test_a_data_sets_mistakes_are_named(read, values, word):
    with pytest.raises(UserError, match=rf"x\.json.*{word}"):
        read(values)


def test_what_cannot_be_learnt_from_is_counted(messages):
    one = passage("老师住在北京。" * 3, {"老师住在哪里？": "北京", "谁住在北京？": "师住"})
    one.questions += [
        Question("lost", "谁？", ["广州"], [None]),
        Question("long", "谁？", ["北京。老师住在"], [4]),
    ]
    groups = training_groups(tokenise_passages([one], Tokeniser("zh")), 5, 5)
    (only,) = groups
    assert only.window.begin == 0
    assert [question.text for question in only.questions] == ["老师住在哪里？", "谁住在北京？"]
    assert "in no window: 1" in messages()
    with pytest.raises(UserError, match="No question"):
        training_groups([], 5, 5)
