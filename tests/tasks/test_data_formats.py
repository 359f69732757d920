"""Every example of docs/data.md is read, in both languages, and all examples under a heading have the same content."""

import itertools
import re

import pytest
from project import PROJECT

from elmo_core.messages import UserError
from elmo_tasks import ClassifierSettings, TaggerSettings
from elmo_tasks.classification.data import TextReader
from elmo_tasks.reading.data import read_passages
from elmo_tasks.tagging.data import SentenceReader

FENCE = re.compile(r"^```(tsv|csv|json|jsonl|text)\n(.*?)^```$", re.M | re.S)


def texts(path):
    return [(text.texts, text.label) for text in TextReader(ClassifierSettings()).read(path, "texts")]


def sentences(data_format):
    return lambda path: SentenceReader(TaggerSettings(data_format=data_format)).read(path, "sentences")


def passages(path):
    return [(passage.text, passage.questions) for passage in read_passages(path)]


READERS = [texts, texts, sentences(""), sentences("segmented"), sentences("tagged"), passages, passages, None]


@pytest.mark.parametrize("page", ["data.md", "data_zh.md"])
def test_the_examples_of_the_page_are_read(page, tmp_path):
    _, *sections = re.split(r"^## ", (PROJECT / "docs" / page).read_text(encoding="utf-8"), flags=re.M)
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
        assert [(s.tokens, s.labels) for s in sentences("")(tmp_path / name)] == [(["Ann", "ran"], ["B-PER", "O"])]
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
    skipped, relation = {"was_cancelled": True, "result": []}, {"type": "relation"}
    task = {"data": {"text": "Ann ran."}, "annotations": [skipped, {"result": [*values, relation]}]}
    (made,) = functions["from_label_studio"]([task])
    tokens = {"tokens": ["Ann", "ran", "."], "labels": ["B-PER", "O", "O"]}
    expected = SentenceReader(TaggerSettings(lang="en")).read([tokens], "sentences")
    assert SentenceReader(TaggerSettings(lang="en")).read([made], "sentences") == expected
