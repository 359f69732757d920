"""Text in columns of a terminal: wide and combined characters."""

from elmo_core.display import terminal


def test_columns_of_wide_and_combined_characters():
    assert [terminal.display_width(text) for text in ("bank", "苹果", "，", "e\u0301", "")] == [
        4,
        4,
        2,
        1,
        0,
    ]
    assert (
        terminal.truncate("苹果很甜", 7) == "苹果很…"
        and terminal.truncate("苹果很甜", 8) == "苹果很甜"
    )
    assert terminal.truncate("苹果很甜", 6) == "苹果…"


def test_texts_of_one_width():
    assert terminal.pad_all(["苹果", "bank", "x"]) == ["苹果", "bank", "x   "]
