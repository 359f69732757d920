"""Cards and notices: what goes with weights that come from another model."""

import pytest

from elmo_core.weights import cards
from elmo_core.weights.cards import CARD, NOTICE, notice_of


def write(folder, **texts: str) -> None:
    """Write files, by the names `card` and `notice`, in a new folder."""
    folder.mkdir()
    names = {"card": CARD, "notice": NOTICE}
    for name, text in texts.items():
        (folder / names[name]).write_text(text, encoding="utf-8")


def test_a_notice_is_passed_on_from_model_to_model(tmp_path):
    write(tmp_path / "first", card="# first\n\nCC BY-SA 4.0, by A\n")
    (tmp_path / "second").mkdir()
    cards.write_notice(tmp_path / "second", notice_of(tmp_path / "first"))
    assert "CC BY-SA 4.0, by A" in notice_of(tmp_path / "second")
    (tmp_path / "second" / CARD).write_text("# second\n\nMIT, by B\n", encoding="utf-8")
    (tmp_path / "third").mkdir()
    cards.write_notice(tmp_path / "third", notice_of(tmp_path / "second"))
    text = (tmp_path / "third" / NOTICE).read_text(encoding="utf-8")
    assert text.startswith(cards.BEGINNING) and text.count(cards.BEGINNING) == 1
    assert "CC BY-SA 4.0, by A" in text and "MIT, by B" in text


def test_without_a_card_there_is_no_notice(tmp_path):
    write(tmp_path / "model")
    assert notice_of(tmp_path / "model") == ""
    cards.write_notice(tmp_path / "model", "")
    assert not list((tmp_path / "model").iterdir())


def test_the_card_that_a_training_wrote_counts_once_it_is_edited(tmp_path):
    card = tmp_path / CARD
    cards.replace(card, "# mine\n")
    assert notice_of(tmp_path) == ""
    edited = card.read_text(encoding="utf-8").replace("# mine", "# mine\n\nCC0")
    card.write_text(edited, encoding="utf-8")
    assert "CC0" in notice_of(tmp_path)


def test_a_card_that_came_by_two_ways_is_there_once(tmp_path):
    write(tmp_path / "elmo", card="# elmo\n\nMIT\n")
    write(tmp_path / "tagger", card="# tagger\n\nCC0\n", notice=notice_of(tmp_path / "elmo"))
    text = cards.joined([notice_of(tmp_path / "tagger"), notice_of(tmp_path / "elmo")])
    assert (text.count("# tagger"), text.count("# elmo")) == (1, 1)


@pytest.mark.parametrize("name", [CARD, NOTICE])
def test_a_file_is_replaced_and_removed_unless_it_is_a_users(tmp_path, messages, name):
    path = tmp_path / name
    cards.replace(path, "one\n")
    cards.replace(path, "two\n")
    assert cards.read(path) == "two\n"
    cards.replace(path, "")
    assert not path.exists()
    path.write_text("mine", encoding="utf-8")
    cards.replace(path, "three\n")
    assert path.read_text(encoding="utf-8") == "mine"
    assert ("is yours" in messages()) == (name == NOTICE)
    cards.replace(path, "")
    assert path.read_text(encoding="utf-8") == "mine"
