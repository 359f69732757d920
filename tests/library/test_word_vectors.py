"""Files of word vectors, in word2vec's and in GloVe's format."""

import gzip

import numpy as np
import pytest

from elmo_core.files.word_vectors import load_word_vectors


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz"])
def test_gloves_vectors_have_no_first_line(tmp_path, name):
    with (gzip.open if name.endswith("gz") else open)(
        tmp_path / name, "wt", encoding="utf-8"
    ) as file:
        file.write("the 0.5 1\n3 1 2\nof -1 2e-1\n")
    vectors = load_word_vectors(tmp_path / name)
    assert vectors.index_to_key == ["the", "3", "of"] and vectors["of"].tolist() == pytest.approx(
        [-1, 0.2]
    )
    assert load_word_vectors(tmp_path / name, limit=2).index_to_key == ["the", "3"]


@pytest.mark.parametrize("first", ["", "2 2\n"])
def test_a_byte_order_mark_is_not_part_of_the_first_word(tmp_path, first):
    (tmp_path / "v.txt").write_text(f"\ufeff{first}the 0.5 1\nof 1 2\n", encoding="utf-8")
    assert load_word_vectors(tmp_path / "v.txt").index_to_key == ["the", "of"]


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_of_a_word_that_occurs_twice_the_first_vector_counts(tmp_path, caplog, name):
    lines = [("the", [1, 2]), ("of", [3, 4]), ("the", [5, 6]), ("river", [7, 8])]
    if name == "v.bin":
        content = b"".join(
            word.encode() + b" " + np.array(row, np.float32).tobytes() for word, row in lines
        )
    else:
        content = "".join(f"{word} {one} {other}\n" for word, (one, other) in lines).encode()
    (tmp_path / name).write_bytes(b"4 2\n" + content)
    vectors = load_word_vectors(tmp_path / name)
    assert vectors.index_to_key == ["the", "of", "river"] and len(vectors) == 3
    assert vectors.vectors.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert vectors["the"].tolist() == [1, 2] and vectors["river"].tolist() == [7, 8]
    assert "1 repeated word" in caplog.text
