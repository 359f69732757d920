"""Labelled sentences: their formats, what is wrong in them, spans of text that become labels."""

import json

import numpy as np
import pytest

from elmo_core.messages import UserError
from elmo_tasks import TaggerSettings
from elmo_tasks.tagging.data import SentenceReader

EXPECTED = [
    (["Ann", "saw", "Rome"], ["B-PER", "O", "B-LOC"]),
    (["Rome", "is", "big"], ["B-LOC", "O", "O"]),
]
CONLL = (
    "\ufeffAnn\tNNP\tB-PER\r\nsaw\tV\tO\r\nRome\tN\tB-LOC\r\n\r\n"
    "Rome\tx\tB-LOC\nis\tx\tO\nbig\tx\tO\n"
)
CONLLU = (
    "# sent_id = 1\n1-2\tAnn saw\t_\n1\tAnn\tx\tB-PER\n2\tsaw\tx\tO\n2.1\tthat\tx\tO\n"
    "3\tRome\tx\tB-LOC\n\n1\tRome\tx\tB-LOC\n2\tis\tx\tO\n3\tbig\tx\tO\n"
)
LABELS_FIRST = "B-PER x Ann\nO x saw\nB-LOC x Rome\n\nB-LOC x Rome\nO x is\nO x big\n"
LINES = "\n".join(json.dumps({"tokens": tokens, "ner_tags": tags}) for tokens, tags in EXPECTED)
ARRAY = json.dumps([{"words": tokens, "y": tags} for tokens, tags in EXPECTED])
SPANS = {"text": "Ann saw Rome", "label": [[0, 3, "PER"], [8, 12, "LOC"]]}
SPANS_BY_LABEL = {"text": "Rome is big", "label": {"LOC": {"Rome": [[0, 3]]}}}
TAGGED = "Ann/B-PER saw/O Rome/B-LOC\nRome/B-LOC is/O big/O"


def read(path, content: str, **settings) -> list[tuple[list, list]]:
    path.write_text(content, encoding="utf-8")
    sentences = SentenceReader(TaggerSettings(lang="none", **settings)).read(path, "data")
    return [(sentence.tokens, sentence.labels) for sentence in sentences]


def test_a_token_may_be_like_the_mark_of_a_comment(tmp_path):
    assert read(tmp_path / "a", "# O\ntext O\n\n# text\nis O\n") == [
        (["#", "text"], ["O", "O"]),
        (["#", "is"], ["text", "O"]),
    ]


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("a.txt", "Ann B-PER\nsaw O\nRome B-LOC\n\n-DOCSTART- O\n\nRome B-LOC\nis O\nbig O", {}),
        (
            "a.iob2",
            "# newdoc id = 1\n# sent_id = 1\n# text = Ann saw Rome\n1\tAnn\tB-PER\n2\tsaw\tO\n"
            "3\tRome\tB-LOC\n\n# newdoc\n1\tRome\tB-LOC\n2\tis\tO\n3\tbig\tO\n",
            {"columns": "1,2"},
        ),
        ("a.conll", CONLL, {}),
        ("a.txt", LABELS_FIRST, {"columns": "2,0"}),
        ("a.conllu", CONLLU, {}),
        ("a.jsonl", LINES, {}),
        ("a.json", ARRAY, {"columns": ["words", "y"]}),
        ("a.jsonl", f"{json.dumps(SPANS)}\n{json.dumps(SPANS_BY_LABEL)}", {}),
        ("a.txt", TAGGED, {"data_format": "tagged"}),
    ],
)
def test_formats(tmp_path, name, content, settings):
    assert read(tmp_path / name, content, **settings) == EXPECTED


def test_a_token_that_looks_like_a_comment(tmp_path):
    assert read(tmp_path / "a.txt", "#RT: O\nAnn B-PER\n") == [(["#RT:", "Ann"], ["O", "B-PER"])]


def test_segmented_words(tmp_path):
    found = read(tmp_path / "a", "我  在  北京  图书馆\n", data_format="segmented")
    assert found == [(list("我在北京图书馆"), list("SSBEBME"))]


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.txt", "Ann B-PER\nsaw\n", "a.txt:2"),
        ("a.txt", "他/r 在/p 银行/n\n", "a.txt:1.*data_format=tagged"),
        ("a.txt", "1\ta" + "\t_" * 8, "a.txt:1.*data_format=conllu"),
        ("a.txt", "\n\n", "no sentences"),
        ("a.jsonl", '{"tokens": ["a"], "labels": ["O", "O"]}', "jsonl:1.*2 labels"),
        ("a.jsonl", '{"text": "Ann", "label": [[0, 9, "PER"]]}', "jsonl:1.*spans"),
        ("a.jsonl", '{"tokens": "a b", "labels": ["O", "O"]}', "jsonl:1.*'a b'"),
        ("a.jsonl", '{"tokens": ["a b"], "labels": ["O"]}', "jsonl:1.*spaces"),
        ("a.jsonl", '{"tokens": ["a"], "labels": null}', "jsonl:1.*None"),
        ("a.jsonl", '{"tokens": ["a"], "labels": "O"}', "jsonl:1.*'O'"),
        ("a.jsonl", "[1]", "jsonl:1"),
        ("a.txt", "Ann NNP B-PER\nsaw O\n", "a.txt:2.*as many columns"),
    ],
)
def test_faulty_files(tmp_path, name, content, word):
    with pytest.raises(UserError, match=word):
        read(tmp_path / name, content)


def test_a_lone_surrogate_is_read_as_an_unknown_character(tmp_path):
    found = read(tmp_path / "a.jsonl", '{"tokens": ["a\\ud83d"], "labels": ["O"]}')
    assert found == [(["a\ufffd"], ["O"])]


def test_spans_that_do_not_fit_are_counted(tmp_path, messages):
    labels = [[0, 2, "A"], [1, 3, "B"], [4, 9, "C"], [12, 13, "D"]]
    ((_, found),) = read(
        tmp_path / "a.jsonl", json.dumps({"text": "Ann saw Rome ", "label": labels})
    )
    assert found == ["B-A", "B-C", "I-C"]
    assert "overlap" in messages() and "extended" in messages() and "without a token" in messages()


def test_a_span_over_a_line_break_is_counted(tmp_path, messages):
    """Each line is a sentence; a break at the end of a span is not within it."""
    record = {"text": "New\nYork is\nbig", "label": [[0, 8, "LOC"], [9, 12, "X"]]}
    found = read(tmp_path / "a.jsonl", json.dumps(record))
    assert found == [(["New"], ["O"]), (["York", "is"], ["O", "B-X"]), (["big"], ["O"])]
    assert "line break" in messages() and "a.jsonl:1" in messages()


@pytest.mark.parametrize(
    "row", ["OOX", {"O", "B-x", "I-x"}, {"O": 1, "B-x": 2, "I-x": 3}, None, 1, iter("OOO")]
)
def test_labels_that_are_no_list(row):
    good = ["B-PER", "O", "O"]
    with pytest.raises(UserError, match=r"data 1: .*list"):
        SentenceReader(TaggerSettings()).read(([["a", "b", "c"]] * 2, [good, row]), "data")


def test_arrays_and_tuples_of_labels():
    rows = [np.array(["O", "X"]), ("O", "X")]
    sentences = SentenceReader(TaggerSettings()).read(([["a", "b"]] * 2, rows), "data")
    assert [sentence.labels for sentence in sentences] == [["O", "X"]] * 2
