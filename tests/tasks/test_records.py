"""Records of files and tables, labels, and messages about them.

Also the examples of docs/data.md in both languages.
"""

import gzip
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from project import PROJECT

from elmo_core.messages import UserError
from elmo_tasks import Classifier, ClassifierSettings, Tagger, TaggerSettings
from elmo_tasks.reading.data import read_passages
from elmo_tasks.records import (
    check_label,
    check_labels,
    distinct_labels,
    ending,
    is_table,
    label_ids,
    labelled,
    read_records,
    table_records,
    value_of,
)
from elmo_tasks.tagging.data import SentenceReader
from elmo_tasks.texts import TextReader

FENCE = re.compile(r"^```(tsv|csv|json|jsonl|text)\n(.*?)^```$", re.M | re.S)


def texts(path):
    return [(text.texts, text.label) for text in TextReader().read(path, "texts")]


def sentences(data_format):
    return lambda path: SentenceReader(TaggerSettings(data_format=data_format)).read(
        path, "sentences"
    )


def passages(path):
    return [(passage.text, passage.questions) for passage in read_passages(path)]


READERS = [
    texts,
    texts,
    sentences(""),
    sentences("segmented"),
    sentences("tagged"),
    passages,
    passages,
    None,
]


@pytest.mark.parametrize("page", ["data.md", "data_zh.md"])
def test_the_examples_of_the_page_are_read(page, tmp_path):
    _, *sections = re.split(
        r"^## ", (PROJECT / "docs" / page).read_text(encoding="utf-8"), flags=re.M
    )
    n = itertools.count()
    for read, section in zip(READERS, sections, strict=True):
        contents = []
        for suffix, example in FENCE.findall(section):
            path = tmp_path / f"{next(n)}.{suffix}"
            path.write_text(example, encoding="utf-8")
            contents.append(read(path))
        for content in contents[1:]:
            assert content == contents[0], section.partition("\n")[0]
    assert next(n) > 15


def test_tables_of_tokens(tmp_path):
    for name, header in ("a.tsv", "Token\tner_tags\n"), ("b.tsv", ""), ("c.txt", "word\tlabel\n"):
        (tmp_path / name).write_text(f"{header}Ann\tB-PER\nran\tO\n", encoding="utf-8")
        assert [(s.tokens, s.labels) for s in sentences("")(tmp_path / name)] == [
            (["Ann", "ran"], ["B-PER", "O"])
        ]
    (tmp_path / "a.csv").write_text("token,label\nAnn,B-PER\n", encoding="utf-8")
    (tmp_path / "a.conll").write_text("1\tAnn" + 8 * "\t_" + "\n", encoding="utf-8")
    for name, word in ("a.csv", "CSV"), ("a.conll", "conllu"):
        with pytest.raises(UserError, match=word):
            sentences("")(tmp_path / name)


def test_the_converters_of_the_page(tmp_path):
    page = (PROJECT / "docs" / "data.md").read_text(encoding="utf-8")
    functions: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        exec(block, functions)
    values = [{"value": {"start": 0, "end": 3, "labels": ["PER"]}}, {"value": {"choices": ["x"]}}]
    skipped = {"was_cancelled": True, "result": []}
    relation = {"type": "relation"}
    annotations = [skipped, {"result": [*values, relation]}]
    task = {"data": {"text": "Ann ran."}, "annotations": annotations}
    (made,) = functions["from_label_studio"]([task])
    tokens = {"tokens": ["Ann", "ran", "."], "labels": ["B-PER", "O", "O"]}
    expected = SentenceReader(TaggerSettings(lang="en")).read([tokens], "sentences")
    assert SentenceReader(TaggerSettings(lang="en")).read([made], "sentences") == expected


def values(path, **options) -> list[dict]:
    return [dict(record) for _, record in read_records(path, **options)]


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        ("a.csv", "b, c\n1,x\n2, y \n", {}, [{"b": "1", "c": "x"}, {"b": "2", "c": "y"}]),
        ("a.csv", 'b,c\n"1,\n2","a ""q"""\n', {}, [{"b": "1,\n2", "c": 'a "q"'}]),
        ("a.tsv", 'B\tc\n"1\tx\n', {"names": ["b"]}, [{"B": '"1', "c": "x"}]),
        ("a.tsv", "1\tx\n", {"names": ["b"], "unnamed": ["t", "l"]}, [{"t": "1", "l": "x"}]),
        (
            "a.tsv",
            "1\tx\ty\n",
            {"names": ["b"], "unnamed": ["t", "l"]},
            [{"0": "1", "1": "x", "2": "y"}],
        ),
        ("a.json", '[{"b": 1}, {"b": [2]}]', {}, [{"b": 1}, {"b": [2]}]),
        ("a.json", '{"b": 1}\n\n{"b": 2}\n', {}, [{"b": 1}, {"b": 2}]),
        ("a.jsonl", '{"b": 1}\n', {}, [{"b": 1}]),
        ("a.txt", "b,c\n1,x\n", {"format_name": "csv"}, [{"b": "1", "c": "x"}]),
        ("a.csv", "", {}, []),
        ("a.tsv", "\n", {}, []),
    ],
)
def test_records_of_files(tmp_path, name, content, options, expected):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert values(tmp_path / name, **options) == expected
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    assert values(tmp_path / f"{name}.gz", **options) == expected


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("a.csv", "text;label\nOne, or two;x\n", r"a\.csv:1: .*semicolons.*sep=';'"),
        ("a.csv", "text\tlabel\n", r"a\.csv:1: .*tabs"),
        ("a.csv", "text,label\nOne, or two,x\n", r"a\.csv:2: found 3 columns, but 2 .*quotes"),
        ("a.csv", 'text,label\n"One,x\n', r"a\.csv:2: .*CSV"),
        ("a.csv", "text,text\n", r"a\.csv:1: .*header"),
        ("a.tsv", "a\tb\nc\n", r"a\.tsv:2: found 1 columns, but 2 .*Tabs"),
        ("a.xlsx", "PK", r"a\.xlsx is a spreadsheet.*CSV UTF-8"),
        ("a.txt", "a", r"a\.txt: .*\.csv"),
        ("a.jsonl", "[1]\n", r"a\.jsonl:1: .*object"),
        ("a.json", "[1]", r"a\.json: object 1: .*object"),
        ("a.json", "{", r"a\.json:1: invalid JSON"),
    ],
)
def test_faulty_files(tmp_path, name, content, pattern):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=pattern):
        values(tmp_path / name)


def test_a_table_in_another_encoding_is_told_how_to_save_it(tmp_path):
    (tmp_path / "a.csv").write_bytes("text,label\n这套书不错,好评\n".encode("gb18030"))
    with pytest.raises(UserError, match=r"a\.csv:2: .*GB18030.*Excel"):
        values(tmp_path / "a.csv")


def test_a_missing_column_is_that_of_the_header(tmp_path):
    (tmp_path / "a.csv").write_text('"a\nb",c\n1,x\n', encoding="utf-8")
    ((where, record),) = read_records(tmp_path / "a.csv")
    assert where.endswith("a.csv:3") and value_of(record, "C", where) == "x"
    with pytest.raises(UserError, match=r"a\.csv:2: .*'text'"):
        value_of(record, "text", where)
    with pytest.raises(UserError, match=r"\.csv needs a first line"):
        value_of(record, "0", where)
    with pytest.raises(UserError, match=r"train, row 3: .*'text'"):
        value_of({"a": 1}, "text", "train, row 3")


def test_endings_name_formats():
    assert [ending(name) for name in ("a.CSV", "b.tsv.gz", "c", "d.x.Json")] == [
        "csv",
        "tsv",
        "",
        "json",
    ]


class Frame:
    """What is used of a DataFrame of pandas, which the tests do not need."""

    iloc = None
    ndim = 2

    def __init__(self, rows: list[dict]):
        self.rows = rows
        self.columns = list(rows[0])

    def to_dict(self, orient: str) -> list[dict]:
        assert orient == "records"
        return self.rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self):
        return iter(self.columns)


class NA:
    """pandas.NA, whose comparisons are neither true nor false."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


def test_tables_of_pandas_and_dictionaries():
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 2}]
    frame = Frame(rows)
    assert [dict(row) for _, row in table_records(frame, "train")] == rows
    assert [where for where, _ in table_records(rows, "train")] == ["train, row 0", "train, row 1"]
    assert [is_table(x) for x in (frame, rows, ["a"], [])] == [True, True, False, False]
    with pytest.raises(TypeError, match="`train`, row 1"):
        list(table_records([rows[0], "text"], "train"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "x"), (3, 3), (np.int64(3), 3), (3.0, 3), (np.str_("x"), "x"), (True, True)],
)
def test_labels_are_plain_values(value, expected):
    found = check_label(value, "here")
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), "", " \t"])
def test_a_missing_label_is_called_empty(missing):
    with pytest.raises(UserError, match="here: the label is empty"):
        check_label(missing, "here")


@pytest.mark.parametrize("wrong", [1.5, NA(), ["x"], np.zeros(2), b"x", "\ud83d", "a\0"])
def test_a_label_of_another_kind_is_named(wrong):
    with pytest.raises(UserError, match="here: "):
        check_label(wrong, "here")


@pytest.mark.parametrize(
    ("value", "separator", "expected"),
    [
        ("x|y", "", "x|y"),
        (["y", np.str_("x"), np.int64(3)], "", ("y", "x", 3)),
        ({"y", "x", 3}, "", (3, "x", "y")),
        ((), "", ()),
        (np.array(["x", "y"]), "", ("x", "y")),
        ("x|y ", "|", ("x", "y")),
        ("x", "|", ("x",)),
        (" ", "|", ()),
        (3, "|", (3,)),
        (["x|y"], "|", ("x|y",)),
    ],
)
def test_a_label_or_a_list_of_labels(value, separator, expected):
    assert check_labels(value, "here", separator) == expected


@pytest.mark.parametrize(
    ("wrong", "separator", "word"),
    [
        (["x", None], "", "empty"),
        (["x", ["y"]], "", "list"),
        ("x||y", "|", "empty"),
        (None, "|", "empty"),
        (["x", "y", "x"], "", "'x' occurs 2 times"),
        (np.array([0, 1, 0, 0]), "", "ELMoClassifier"),
        (1.5, "", "float"),
        ("['x', 'y']", "", "label_separator"),
        ('["x"]', "", "JSON"),
    ],
)
def test_faulty_lists_of_labels(wrong, separator, word):
    with pytest.raises(UserError, match=rf"here: .*{word}"):
        check_labels(wrong, "here", separator)


def test_labels_are_found_as_numbers_and_as_strings():
    assert label_ids(["a", 7, "-3"]) == {"a": 0, 7: 1, "7": 1, "-3": 2, -3: 2}
    assert distinct_labels(["b", 2, "a", 2, 1]) == [1, 2, "a", "b"]
    assert distinct_labels([], minimum=0) == []
    for labels, word in ((["a", "a"], "all labels"), ([1, "1"], "type")):
        with pytest.raises(UserError, match=word):
            distinct_labels(labels)


def test_examples_and_their_labels():
    assert list(labelled((["a", "b"], np.array([1, 2])), "dev")) == [
        ("dev 0", "a", 1),
        ("dev 1", "b", 2),
    ]
    for pair, word in (
        ((["a"] * 2400, ["x"] * 5), "2,400 examples and 5 labels"),
        (([], []), "`dev` is empty"),
    ):
        with pytest.raises(UserError, match=word):
            labelled(pair, "dev")
    frame = Frame([{"review": "a", "stars": 1}])
    with pytest.raises(TypeError, match=r"`dev`: .*Frame with the columns review, stars"):
        labelled((frame, ["x"]), "dev")


NAMES = ["O", "B-PER", "I-PER"]
ROWS = [
    {"tokens": ["Ann", "Lee", "ran"], "ner_tags": [1, 2, 0]},
    {"tokens": ["Ann"], "ner_tags": [1]},
]


class Dataset(list):
    """As much of `datasets.Dataset` as is read, of rows; names: of the column's labels."""

    def __init__(self, rows: list[dict], column: str, names: list[str], is_list: bool):
        super().__init__(rows)
        label = SimpleNamespace(names=names)
        self.features = {"text": SimpleNamespace(dtype="string")}
        self.features[column] = SimpleNamespace(feature=label) if is_list else label
        self.column_names = list(rows[0])


def test_integers_with_names_become_these():
    data = Dataset(ROWS, "ner_tags", NAMES, is_list=True)
    records = [record for _, record in table_records(data, "train")]
    assert [record["ner_tags"] for record in records] == [["B-PER", "I-PER", "O"], ["B-PER"]]
    assert [record["tokens"] for record in records] == [row["tokens"] for row in ROWS]
    assert [
        record for _, record in table_records(list(data), "train")
    ] == ROWS  # without their names


def test_a_tagger_of_a_dataset_predicts_names():
    data = Dataset(ROWS * 4, "ner_tags", NAMES, is_list=True)
    settings = TaggerSettings(elmo=None, epochs=1, hidden_dim=3, n_layers=1, word_dim=3)
    tagger = Tagger.train(data, dev=data, settings=settings, progress=False, device="cpu")
    assert tagger.settings.scheme == "bio" and tagger.labels == sorted(NAMES)
    assert tagger.evaluate(data)["spans"] == 8


def test_a_classifier_of_a_dataset_predicts_names():
    rows = [{"text": "good film", "label": 1}, {"text": "bad film", "label": 0}] * 5
    data = Dataset(rows, "label", ["neg", "pos"], is_list=False)
    settings = ClassifierSettings(elmo=None, epochs=1, word_dim=3, head="mean", lang="none")
    classifier = Classifier.train(data, dev=data, settings=settings, progress=False, device="cpu")
    assert classifier.labels == ["neg", "pos"]


@pytest.mark.parametrize("label", [-1, 3])
def test_an_integer_without_a_name_is_an_error(label):
    """-1 stands for labels that are not published."""
    data = Dataset([*ROWS, {"tokens": ["a"], "ner_tags": [label]}], "ner_tags", NAMES, is_list=True)
    with pytest.raises(UserError, match=f"row 2.*{label}"):
        list(table_records(data, "train"))
