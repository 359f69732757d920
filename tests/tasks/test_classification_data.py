"""What is held out of texts, and the sentence polarity dataset."""

from collections import Counter

import pytest

from elmo_core.messages import UserError
from elmo_tasks.classification.data import (
    hold_out,
    indicators,
    is_multi_label,
    published_split,
    read_polarity,
    unseen_labels,
)
from elmo_tasks.texts import Text


def test_a_dev_part_has_every_class():
    labels = ["art"] * 20 + ["sport"] * 30 + ["tech"] * 10
    texts = [Text((f"text {k}",), label) for k, label in enumerate(labels)]
    left, held = hold_out(texts, 1)
    assert sorted(x.label for x in held) == ["art", "art", "sport", "sport", "sport", "tech"]
    assert sorted(x.texts for x in left + held) == sorted(x.texts for x in texts)
    _, held_again = hold_out(texts, 1)
    _, held_with_other_seed = hold_out(texts, 2)
    assert held_again == held
    assert held_with_other_seed != held


def test_a_class_with_one_text_stays_in_training():
    texts = [Text((f"text {k}",), "art" if k % 2 else "tech") for k in range(20)]
    single = [Text(("one",), "only"), Text(("two",), "other")]
    left, held = hold_out([*texts, *single], 1)
    assert {x.label for x in held} == {"art", "tech"}
    assert {x.label for x in left} == {"art", "tech", "only", "other"}
    assert len(left) + len(held) == 22
    with pytest.raises(UserError, match=r"2 classes has one text.*`dev`"):
        hold_out(single, 1)


def several(*rows: str, n: int = 1) -> list[Text]:
    """Texts, each with the labels of its row: the letters."""
    return [Text((f"text {k}",), tuple(row)) for k, row in enumerate(rows * n)]


def test_of_lists_of_labels_a_tenth_of_each_is_held_out():
    texts = several("ab", "b", "", "bc", "abc", n=20)
    left, held = hold_out(texts, 1)
    assert len(held) == 10 and len(left) == 90
    counts = Counter(label for text in held for label in text.label)
    for label, n in {"a": 4, "b": 8, "c": 4}.items():
        assert abs(counts[label] - n) <= 1
    assert sum(not text.label for text in held) == 2
    assert sorted(x.texts for x in left + held) == sorted(x.texts for x in texts)
    assert hold_out(texts, 1) == (left, held)
    assert hold_out(texts, 2) != (left, held)


def test_no_label_of_a_list_leaves_training():
    rare = [Text((f"rare {k}",), ("b", f"only {k}")) for k in range(30)]
    twice = [Text((f"twice {k}",), ("b", f"pair {k // 2}")) for k in range(20)]
    texts = [*rare, *twice, *several("b", n=9)]
    left, held = hold_out(texts, 3)
    assert 5 <= len(held) <= 6
    assert {x for text in texts for x in text.label} == {x for text in left for x in text.label}


def test_few_texts_with_lists_of_labels():
    _, held = hold_out(several("a", "b", "a", "b"), 1)
    assert len(held) == 1
    with pytest.raises(UserError, match="`dev`"):
        hold_out(several("a", "b", "cd"), 1)


def test_labels_and_lists_of_labels_are_not_mixed():
    assert is_multi_label(several("a", "")) and not is_multi_label([Text(("x",), "a")])
    mixed = [Text(("x",), ("a", "b"), "train 0"), Text(("y",), "a", "train 1")]
    with pytest.raises(UserError, match=r"train 1: .*'a'.*\['a', 'b'\] in train 0"):
        is_multi_label(mixed)
    with pytest.raises(UserError, match=r"train 0: .*\['a', 'b'\].*'a' in train 1"):
        is_multi_label(mixed[::-1])


def test_indicators_and_labels_that_are_not_known():
    texts = several("ab", "", "cab")
    known = {"b": 0, "a": 1}
    assert unseen_labels(texts, known) == ["c"]
    assert indicators(texts, known, 2).tolist() == [[1, 1], [0, 0], [1, 1]]
    assert indicators(texts, {**known, "c": 2}, 3).tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]


def test_the_polarity_dataset_and_its_split(tmp_path):
    for name, word in (("pos", "caf\xe9"), ("neg", "bad")):
        content = "".join(f"{word} film {k}\n" for k in range(40)) + "\n"
        (tmp_path / f"rt-polarity.{name}").write_bytes(content.encode("latin-1"))
    reviews, labels = read_polarity(tmp_path)
    assert reviews[0] == "caf\xe9 film 0" and labels == ["positive"] * 40 + ["negative"] * 40
    (train, train_labels), (test, test_labels) = published_split(reviews, labels, seed=3)
    assert (len(train), len(test)) == (72, 8)
    split = list(zip(train, train_labels, strict=True)) + list(zip(test, test_labels, strict=True))
    assert sorted(split) == sorted(zip(reviews, labels, strict=True))
    with pytest.raises(UserError, match=r"rt-polarity\.pos.*download_data"):
        read_polarity(tmp_path / "none")
