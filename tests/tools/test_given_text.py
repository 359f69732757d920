"""The text of a user: files, texts, tokenised sentences, and what is none of these."""

from pathlib import Path

import numpy as np
import pytest

from elmo_core.messages import UserError
from elmo_tools.preprocessing.given_text import GivenText


def written(text, folder: Path) -> str:
    """What a text's only file has."""
    given = GivenText(text)
    (path,), digest = given.write(folder / "text.txt")
    if not isinstance(text, str | Path) and not given.is_iterator:
        assert GivenText(text).digest() == digest
    return path.read_text(encoding="utf-8")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("A b.\nC d.\n", encoding="utf-8")
    return path


class Sentences:
    """Sentences that can be read again and again, as gensim's LineSentence."""

    def __iter__(self):
        yield ["A", "b."]
        yield ["C", "d."]


def test_files_texts_and_tokens(file, tmp_path):
    for text in (
        file,
        "a.*",
        [file],
        ["A b.", "C d."],
        np.array(["A b.", "C d."]),
        ["A b.\nC d."],
        iter(["A b.", "C d."]),
        [["A", "b."], ("C", "d.")],
        Sentences(),
    ):
        assert written(text, tmp_path) == "A b.\nC d.\n"
    assert GivenText(iter([["A"]])).is_tokenised and not GivenText(iter(["A"])).is_tokenised


@pytest.mark.parametrize("text", [".", Path()])
def test_what_a_run_writes_is_not_its_text(file, text):
    with pytest.raises(UserError, match=r"`save_dir` runs.own is in .*a glob as text"):
        GivenText(text).check_apart_from(Path("runs", "own"))
    GivenText("*.txt").check_apart_from(Path("runs", "own"))


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (["A b.", ["C", "d."]], TypeError, r"item 1: found list .*expected a string"),
        ([["A", "b."], "C d."], TypeError, r"item 1: found str .*expected a list of tokens"),
        ([Path("a.txt"), "a.txt"], TypeError, r"item 1: found str .*expected a path"),
        (["a.txt"], UserError, r"'a.txt' is the name of a file"),
        ("A text.\nAnother one.", UserError, "Give texts as a list"),
        ("A text.", UserError, "no file matches 'A text.'.*Give texts as a list"),
        ("", UserError, "'' is no file"),
        ([["A\u00a0b"]], UserError, "has spaces"),
        (["A\0b"], UserError, "item 0: .*NUL"),
        ([3], TypeError, "item 0: found int"),
        (3, TypeError, "found int 3, expected a file"),
        (iter(()), UserError, "empty"),
    ],
)
def test_what_is_no_text_is_named(file, tmp_path, text, error, said):
    with pytest.raises(error, match=said):
        written(text, tmp_path)
