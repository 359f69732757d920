"""Every example of docs/data.md is read, in both languages, and all examples under a heading have the same content."""

import itertools
import re

import pytest
from project import PROJECT

from elmo_tasks.classification import texts
from elmo_tasks.reading.data import read_passages
from elmo_tasks.tagging.formats import SentenceReader

FENCE = re.compile(r"^```(tsv|csv|json|text)\n(.*?)^```$", re.M | re.S)


def predicted(path):
    """The text of a file, as the classifier and the tagger take it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    ((text,),) = next(texts.iter_texts([lines], path, ["PER"], pairs=False))
    return text


READERS = [
    texts.read_file,
    texts.read_file,
    *[lambda path: SentenceReader().read(path)] * 3,
    read_passages,
    read_passages,
    predicted,
]


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
        assert len(contents) > 1
        for content in contents[1:]:
            assert content == contents[0], section.partition("\n")[0]
    assert next(n) > 20
