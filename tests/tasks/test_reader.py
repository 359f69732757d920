"""A reader: training, answers, their independence of the batch, mistakes."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from reading import QUESTIONS, SMALL, TEXT, make_reader, random_network

from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.reading.data import (
    QuestionGroup,
)
from elmo_tasks.reading.network import make_batch
from elmo_tasks.reading.reader import Reader
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Answer, Text, best_answers, span_scores, windows


@pytest.mark.parametrize("kind", [None, "char"])
def test_a_reader_learns(checkpoints, kind, tmp_path):
    texts = {
        TEXT: QUESTIONS,
        "医生住在北京。她在学校工作。老师住在上海。": {
            "医生住在哪里？": "北京",
            "谁住在上海？": "老师",
        },
    }
    examples = []
    for text, questions in texts.items():
        for question, answer in questions.items():
            answers = {"text": [answer], "answer_start": [0]}
            example = {
                "id": str(len(examples)),
                "context": text,
                "question": question,
                "answers": answers,
            }
            examples.append(example)
    few = {
        "epochs": 18,
        "patience": 0,
        "batch_size": 1,
        "lr": 0.04,
        "ema": 0.5,
        "word_dim": 8,
        "hidden_dim": 8,
    }
    with_elmo = {"elmo": None}
    if kind:
        with_elmo = {"elmo": str(checkpoints[kind]), "layers": "mix", "elmo_dropout": 0.0}
    seen: list[dict] = []
    settings = ReaderSettings(**few, **with_elmo, seed=1, dropout=0.0, lang="zh")
    reader = Reader.train(
        examples,
        dev=examples,
        test=examples,
        settings=settings,
        save_dir=tmp_path / "r",
        progress=seen.append,
    )
    assert (
        reader.scores["dev"]["f1"]
        == reader.scores["test"]["f1"]
        == reader.evaluate(examples)["f1"]
        == 1
    )
    assert len(reader.network.inputs.mixes if kind else []) == (2 if kind else 0)
    assert [scores["epoch"] for scores in seen] == list(range(1, 19)) and seen[-1]["dev"][
        "questions"
    ] == 5
    for trained in (reader, Reader(tmp_path / "r")):
        for example in examples:
            answer = trained.predict((example["question"], example["context"]))
            assert (
                answer.text
                == example["context"][answer.begin : answer.end]
                == example["answers"]["text"][0]
            )


def test_a_reader_learns_what_its_passage_does_not_answer(tmp_path):
    asked = {
        "老师住在哪里？": "北京",
        "谁住在上海？": "医生",
        "学生住在哪里？": None,
        "谁在学校工作？": None,
    }
    answers = [
        {"text": [answer] if answer else [], "answer_start": [0] * bool(answer)}
        for answer in asked.values()
    ]
    pairs = enumerate(zip(asked, answers, strict=True))
    examples = [
        {"id": str(k), "context": TEXT, "question": q, "answers": answer}
        for k, (q, answer) in pairs
    ]
    sizes = {"word_dim": 8, "hidden_dim": 8, "dropout": 0.0, "max_seq_len": 8, "doc_stride": 4}
    settings = ReaderSettings(
        epochs=40, patience=0, batch_size=1, lr=0.02, ema=0.5, lang="zh", elmo=None, **sizes
    )
    reader = Reader.train(examples, dev=examples, settings=settings)
    assert reader.scores["dev"]["f1"] == reader.evaluate(examples)["f1"] == 1
    reader.save(tmp_path / "r")
    saved = Reader(tmp_path / "r")
    for (question, answer), k in zip(asked.items(), (1, 3, 1, 3), strict=True):
        found = saved.answers((question, TEXT), k)
        assert found == reader.answers((question, TEXT), k)
        assert len(found) == k
        best = found[0]
        assert best.text == (answer or "")
        if not answer:
            assert (best.begin, best.end) == (0, 0)


def assert_same_answers(answers: list[Answer], expected: list[Answer]) -> None:
    assert [one[:3] for one in answers] == [one[:3] for one in expected]
    scores = [one.score for one in answers]
    np.testing.assert_allclose(scores, [one.score for one in expected], rtol=1e-4)


def test_answers_do_not_depend_on_the_batch():
    """The windows of the long passage overlap: a span is as good as in its best window."""
    reader = make_reader(replace(SMALL, max_seq_len=6, doc_stride=3, max_answer_length=2))
    network = reader.network = random_network()
    pairs = [
        ("谁住在上海？", TEXT * 3),
        ("哪里？", "北京。"),
        ("老师住在哪里？", TEXT * 3),
        ("谁？", TEXT),
    ] * 3
    together = reader.answers(pairs, k=4)
    assert list(reader.iter_answers(iter(pairs), k=4)) == together
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: reader.answers(pairs, k=4), range(4))) == [together] * 4
    for (question, text), several in zip(pairs, together, strict=True):
        alone = reader.answers((question, text), k=4)
        assert_same_answers(several, alone)
        assert [one.text for one in alone] == [text[one.begin : one.end] for one in alone]
    whole = Text.from_string(TEXT * 3, Tokeniser("zh"))
    best = np.full((len(whole.tokens), 2), -np.inf)
    for window in windows(whole, 6, 3):
        question = [Text.from_string("谁住在上海？", Tokeniser("zh"))]
        logits = network(make_batch([QuestionGroup(window, question, [])])).numpy()[0]
        best[window.begin : window.end] = np.maximum(
            best[window.begin : window.end], span_scores(logits, 2)
        )
    expected = best_answers(whole, best, 4)
    assert_same_answers(together[0], expected)


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", True, None])
def test_a_number_of_answers_that_is_none_is_named(k):
    with pytest.raises(UserError, match="k="):
        make_reader().answers(("谁", TEXT), k)


def test_one_passage_cannot_be_held_out_of():
    example = {
        "id": "a",
        "context": TEXT,
        "question": "谁？",
        "answers": {"text": ["北京"], "answer_start": [4]},
    }
    with pytest.raises(UserError, match="passage"):
        Reader.train([example, {**example, "id": "b"}], settings=SMALL)


def test_a_passage_without_words_has_no_answers_and_does_not_stop_the_others():
    reader = make_reader()
    good = ("谁", TEXT)
    assert_same_answers(
        reader.answers([("谁", " "), good, ("谁", "")], 1)[1], reader.answers(good, 1)
    )
    assert reader.answers([("谁", " "), good])[0] == []
    assert reader.predict(("谁", " ")) == Answer("", 0, 0, 1.0)


@pytest.mark.parametrize("words", ["", "　", "\u200b"])
def test_a_question_without_words_gets_an_answer(words):
    answer = make_reader().predict((words, TEXT))
    assert answer.text in TEXT


def test_a_question_that_is_none_is_counted_from_the_beginning(monkeypatch):
    monkeypatch.setattr("elmo_tasks.reading.reader.QUESTIONS_AT_ONCE", 2)
    reader = make_reader()
    for wrong in (("谁", None), "谁", ("谁", TEXT, "?"), 3):
        with pytest.raises(TypeError, match="question 4: "):
            reader.answers([("谁", "北京。")] * 4 + [wrong])


def test_many_questions_to_a_long_passage_take_little_memory():
    """The scores of one question's spans are in memory, not those of all."""
    reader = make_reader()
    n_questions = 100
    n_tokens = 1000

    def predicted(groups):
        for group in groups:
            yield group, np.zeros((len(group.questions), 2, len(group.window.tokens)), np.float32)

    reader.predicted = predicted
    pairs = [("谁？", " ".join(["北京"] * n_tokens))] * n_questions
    tracemalloc.start()
    try:
        reader.answers(pairs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    of_spans = n_tokens * reader.settings.max_answer_length * np.dtype(np.float32).itemsize
    assert peak < 0.5 * n_questions * of_spans
