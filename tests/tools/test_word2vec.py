"""Vectors of a corpus."""

from pathlib import Path

import pytest
from preprocessing_runs import run

from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.messages import UserError


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_vectors_of_a_corpus(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("c.txt").write_text("the cat sat\nthe dog sat\n中 文 中\n" * 20, encoding="utf-8")
    run("vectors", "c.txt", "--output", name, "--dimensions", 7, "--seed", 1)
    found = load_word_vectors(Path(name))
    assert found.vector_size == 7 and sorted(found.index_to_key) == sorted(
        ["the", "cat", "dog", "sat", "中", "文"]
    )
    Path("words.txt").write_text("the\ncat\n", encoding="utf-8")
    with pytest.raises(UserError, match="no values"):
        load_word_vectors(Path("words.txt"))
