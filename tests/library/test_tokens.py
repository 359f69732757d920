"""Vocabularies, and batches of sentences."""

import math
import random

import numpy as np
import pytest
from shards import MARKERS

from elmo_core.messages import UserError
from elmo_core.text.characters import CodePoints
from elmo_core.text.tokens import sentence_batches, shuffled_batches, token_batch
from elmo_core.text.vocabulary import Vocabulary


def test_words_are_looked_up_as_they_are_cut():
    ids = {name: k for k, name in enumerate([*CodePoints.NAMES, "x"])}
    vocabulary = Vocabulary([*MARKERS, "x" * 48], alphabet=CodePoints(ids))
    assert token_batch([["x" * 60, "y"]], "char+word", vocabulary).tokens.words.tolist() == [0, 2, 1, 3]
    assert CodePoints(ids).is_truncated("果" * 49) and not CodePoints(ids).is_truncated("果" * 48)


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


@pytest.mark.parametrize(
    ("batch_size", "max_tokens", "window"), [(4, 60, 16), (1, 1000, 5), (100, 20, 100), (8, 1, 50), (8, 400, math.inf)]
)
def test_sentence_batches_keep_to_the_budget(batch_size, max_tokens, window):
    rng = random.Random(0)
    sentences = [[str(i)] * rng.choice([0, 1, 2, 5, 9, 30]) for i in range(100)]
    seen = []
    for positions, batch in sentence_batches(iter(sentences), batch_size, max_tokens, window):
        assert positions.dtype == np.int64 and [sentences[i] for i in positions] == batch
        lengths = list(map(len, batch))
        assert lengths == sorted(lengths, reverse=True) and 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * (lengths[0] + 2) <= max_tokens
        assert len({i // window for i in positions}) == 1
        seen.extend(positions)
    assert sorted(seen) == list(range(100))


def test_shuffled_batches_hold_every_sentence_once():
    lengths_of_all = [i % 23 for i in range(300)]
    random = np.random.default_rng(0)
    first, second = (shuffled_batches(lengths_of_all, 10, random) for _ in range(2))
    for batches in first, second:
        assert sorted(np.concatenate(batches)) == list(range(300)) and max(map(len, batches)) == 10
        lengths = [[lengths_of_all[k] for k in batch] for batch in batches]
        assert np.mean([max(batch) - min(batch) for batch in lengths]) < 3  # like lengths together
        longest = [max(batch) for batch in lengths[:16]]  # as many as are sorted by length together
        assert longest != sorted(longest, reverse=True)
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in second]
    again = shuffled_batches(lengths_of_all, 10, np.random.default_rng(0))
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in first]
