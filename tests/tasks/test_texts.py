"""Labelled texts in files, tables and lists."""

import gzip
from pathlib import Path

import pytest

from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.records import check_labels
from elmo_tasks.texts import Text, TextReader, as_text, tokenise

READER = TextReader()


def write(path: Path, content: str) -> Path:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


SINGLE = [(("good film",), "p"), (("bad",), "1")]
PAIR = [(("a", "b c"), "1")]
REVIEWS = '[{"review": "good film", "stars": "p"}, {"review": "bad", "stars": "1"}]'
LINES = """{"text": "good\\n film", "label": "p", "id": 5}
{"label": 1, "text": "bad"}
"""
QUOTED = """text,label
"a ""good"", old; film",p
"""


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("a.tsv", "good film\tp\nbad\t1\n", None, SINGLE),
        ("a.tsv.gz", "\ufeffText\tLabel\r\ngood  film\tp\r\n\r\nbad\t1", None, SINGLE),
        ("a.tsv", "qid\tlabel\ttext_a\n1\tp\tgood film\n2\t1\tbad\n", None, SINGLE),
        ("a.tsv", "p\tx\tgood film\n1\tx\tbad\n", "2,0", SINGLE),
        ("a.tsv", "id\twords\tclass\n1\tgood film\tp\n2\tbad\t1\n", ["words", "class"], SINGLE),
        ("a.tsv", '"a" b\tp\n', None, [(('"a" b',), "p")]),
        ("a.jsonl", LINES, None, [SINGLE[0], (("bad",), 1)]),
        ("a.json", REVIEWS, "review,stars", SINGLE),
        ("a.csv", "text,label\ngood film,p\nbad,1\n", None, SINGLE),
        ("a.csv", 'id,TEXT,Label\n1,"good\n\nfilm",p\n2,bad,1\n', None, SINGLE),
        ("a.csv", QUOTED, None, [(('a "good", old; film',), "p")]),
        ("a.tsv", "a\t1\tb c\n", None, PAIR),
        ("a.tsv", "sentence1\tsentence2\tlabel\na\tb c\t1\n", None, PAIR),
        ("a.tsv", "a\tb c\t1\n", "0,2,1", PAIR),
    ],
)
def test_files_of_texts(tmp_path, name, content, columns, expected):
    path = write(tmp_path / name, content)
    found = TextReader(columns).read(str(path), "texts")
    assert [(text.texts, text.label) for text in found] == expected


@pytest.mark.parametrize(
    ("name", "content", "columns", "pattern"),
    [
        ("a.tsv", "\n", None, r"a\.tsv: .*no texts"),
        ("a.tsv", "a\t1\n\nb\t\n", None, r"a\.tsv:3: the label is empty"),
        ("a.tsv", "a\tb\tc\t1\n", None, r"a\.tsv:1: .*`columns`"),
        ("a.tsv", "a\t1\nb\t\0\n", None, r"a\.tsv:2: "),
        ("a.csv", "words,class\na,1\n", None, r"a\.csv:1: .*words, class"),
        ("a.csv", "text,label\na,1\n", "review,stars", r"a\.csv:1: .*'review'"),
        ("a.csv", "good film,p\nbad,1\n", "0,1", r"a\.csv:1: .*first line"),
        ("a.csv", "good film,p\nbad,1\n", None, r"a\.csv:1: .*first line"),
        ("a.json", '[{"text": "a", "label": 1}, {"text": "b"}]', None, "object 2: .*label"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": 3, "label": 1}\n',
            None,
            r"jsonl:2: .*int",
        ),
        ("b.tsv", None, None, r"b\.tsv"),
    ],
)
def test_faulty_files(tmp_path, name, content, columns, pattern):
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(UserError, match=pattern):
        TextReader(columns).read(tmp_path / name, "texts")


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("a.tsv", "a\tx\tb\nc\ty\n", r"a\.tsv:2: found 2 columns, but 3"),
        ("a.tsv", "a\tx\tb\nc\ty\t\n", r"a\.tsv:2: .*'c'.* no second text"),
        ("a.csv", "text,text2,label\n,b,x\n", r"a\.csv:2: .* no first text"),
        ("a.jsonl", '{"text": "a", "text2": null, "label": 1}', r"jsonl:1: .*None.*second text"),
        (
            "a.jsonl",
            '{"text": "a", "text2": "b", "label": 1}\n{"text": "c", "label": 1}\n',
            r"jsonl:2: found one text, 'c', but 2 texts.* in .*jsonl:1",
        ),
    ],
)
def test_a_pair_without_one_of_its_texts(tmp_path, name, content, pattern):
    write(tmp_path / name, content)
    with pytest.raises(UserError, match=pattern):
        READER.read(tmp_path / name, "texts")


@pytest.mark.parametrize(
    ("wrong", "pattern"),
    [
        (("c",), "train 1: found one text, 'c'"),
        ("c", "train 1: found one text, 'c'"),
        (("c", None), "train 1: .*None.*second text"),
        ((float("nan"), "c"), "train 1: .*nan.*first text"),
        (("c", " "), "train 1: .*no second text"),
        (("c", "d", "e"), "train 1: found 3 texts"),
    ],
)
def test_pairs_in_python_are_pairs_throughout(wrong, pattern):
    with pytest.raises(UserError, match=pattern):
        READER.read(([("a", "b"), wrong], [1, 2]), "train")
    assert READER.read(([("a", "b"), ["c", "d"]], [1, 2]), "train")[1].texts == ("c", "d")


def test_lists_of_tokens_are_no_texts():
    with pytest.raises(UserError, match=r"train 1: found 3 texts.*Join tokens"):
        READER.read(([["good", "film"], ["a", "bad", "film"]], [1, 2]), "train")


def test_lists_of_labels_are_read_as_their_columns_are_called(tmp_path):
    reader = TextReader(check=check_labels)
    for key in ("label", "labels"):
        content = f'{{"text": "a", "{key}": ["x", 3]}}\n{{"text": "b", "{key}": []}}\n'
        found = reader.read(write(tmp_path / "a.jsonl", content), "texts")
        assert [text.labels for text in found] == [("x", 3), ()]
    assert READER.read([{"text": "a", "label": "x"}], "texts")[0].labels == ("x",)


@pytest.mark.parametrize("columns", ["", [], "text,label,"])
def test_columns_that_say_no_more_than_the_usual(columns):
    found = TextReader(columns).read([{"text": "a b", "label": 1}], "texts")
    assert found == [Text(("a b",), 1, "texts, row 0")]


@pytest.mark.parametrize("columns", ["text", "a,b,c,d", "a,a", ["a"], "text,", ",label"])
def test_columns_are_two_or_three(columns):
    with pytest.raises(UserError, match="`columns`"):
        TextReader(columns)


def test_a_missing_label_is_named_with_its_text():
    with pytest.raises(UserError, match="texts 1: "):
        READER.read((["a", "b"], ["x", None]), "texts")


@pytest.mark.parametrize(
    "wrong", ["good", 3, {"a", "b"}, ["good", "bad"], (["a"], ["x", "y"]), ([], [])]
)
def test_what_is_not_texts_and_labels(wrong):
    with pytest.raises((TypeError, UserError), match=r"train|good"):
        READER.read(wrong, "train")


def test_texts_are_strings_or_pairs_of_strings():
    assert as_text("a  b\n", "here").texts == ("a b",)
    assert as_text(("a", "b"), "here").texts == as_text(["a", "b "], "here").texts == ("a", "b")
    for wrong in (3, ("a", None), None):
        with pytest.raises(UserError, match="here: "):
            as_text(wrong, "here")


def test_texts_are_cut_after_a_number_of_tokens():
    text = Text(("a b c", "d"))
    assert tokenise(text, Tokeniser("none"), 2) and text.tokens == (["a", "b"], ["d"])
    assert not tokenise(text, Tokeniser("none"), 3) and text.tokens == (["a", "b", "c"], ["d"])


def test_labels_of_another_kind_are_checked_by_the_task():
    def number(value: object, where: str) -> float:
        return float(value)

    (text,) = TextReader(check=number).read((["a"], ["1.5"]), "train")
    assert text.label == 1.5
