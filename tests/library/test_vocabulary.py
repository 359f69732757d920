"""The vocabulary: its files, and words that are looked up."""

import pytest
from shards import MARKERS

from elmo_core.messages import UserError
from elmo_core.text.characters import CodePoints
from elmo_core.text.lexicon import token_batch
from elmo_core.text.vocabulary import Vocabulary


def test_words_are_looked_up_as_they_are_cut():
    ids = {name: k for k, name in enumerate([*CodePoints.NAMES, "x"])}
    vocabulary = Vocabulary([*MARKERS, "x" * 48], alphabet=CodePoints(ids))
    batch = token_batch([["x" * 60, "y"]], "char+word", vocabulary)
    assert batch.tokens.words.tolist() == [0, 2, 1, 3]
    assert CodePoints(ids).is_truncated("果" * 49)
    assert not CodePoints(ids).is_truncated("果" * 48)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("the\nof\n", ["the", "of"]),
        ("UNK\n<S>\n</S>\n<PAD>\nthe\nof\n", ["the", "of"]),
        ("<S>\r\n</S>\r\n<UNK>\r\nUNK\r\n<PAD>\r\n", ["UNK", "<PAD>"]),
    ],
    ids=["no markers", "PaddleNLP's markers", "our markers"],
)
def test_a_vocabulary_with_other_markers_or_none(tmp_path, caplog, content, tokens):
    """PaddleNLP's reader puts its own before the words, so its published files have none."""
    caplog.set_level("INFO", logger="elmo")
    (tmp_path / "v.txt").write_bytes(content.encode())
    vocabulary = Vocabulary.from_file(tmp_path / "v.txt")
    assert vocabulary.tokens == [*MARKERS, *tokens]
    assert len(caplog.records) == ("<UNK>" not in content)
    vocabulary.save(tmp_path / "copy.txt")
    assert Vocabulary.from_file(tmp_path / "copy.txt").fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize(
    ("content", "location"),
    [
        (None, "v.txt: "),
        (b"", "v.txt: "),
        (b"<S>\n</S>\n<UNK>\nok\ncaf\xe9\n", "v.txt:5: "),
        (b"the\nof\n<UNK>\n", "v.txt:1: "),
        (b"the\nUNK\n", "v.txt:1: "),
        (b"<S>\n<UNK>\n</S>\n", "v.txt:1: "),
        (b"<S>\n</S>\n", "v.txt:1: "),
        (b"<S>\n</S>\n<UNK>\na\nb\na\n", "v.txt:6: "),
        (b"<S>\n</S>\n<UNK>\na\n\nb\n", "v.txt:5: "),
        (b"<S>\n</S>\n<UNK>\nNew York\n", "v.txt:4: "),
        (b"the\nof\n\nand\n", "v.txt:3: "),
        (b"UNK\n<S>\n</S>\n<PAD>\na\nb\na\n", "v.txt:7: .*line 5"),
        ("<S>\n</S>\n<UNK>\na\n\u3000\n".encode(), "v.txt:5: "),
        ("<S>\n</S>\n<UNK>\nx\u2028y\n".encode(), "v.txt:4: "),
    ],
)
def test_bad_vocabulary_names_file_and_line(tmp_path, content, location):
    path = tmp_path / "v.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=location):
        Vocabulary.from_file(path)
