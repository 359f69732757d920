"""What is held out of texts, and the sentence polarity dataset."""

import pytest

from elmo_core.messages import UserError
from elmo_tasks.classification.data import hold_out, published_split, read_polarity
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
    with pytest.raises(UserError, match="`dev`"):
        hold_out([*texts, Text(("one",), "only")], 1)


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
