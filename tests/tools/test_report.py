"""Occurrences as lines of text: aligned, and without control characters."""

from polysemy_text import write

from elmo_core.display import terminal


def test_words_are_aligned_in_one_column(model, printed, tmp_path):
    lines = [
        "x " * 60 + "苹果 很 甜",
        "他 在 银行 的 门口 等 我 们 吃 很 红 的 苹果",
        "e\u0301te\u0301 苹果",
        "苹果 ！",
    ]
    lines = printed(model, write(tmp_path / "text.txt", lines), "--word=苹果", "--examples=4")
    places = {terminal.display_width(line.partition("[")[0]) for line in lines[2:]}
    assert len(lines) == 2 + 4 * (1 + 2 * 3) and len(places) == 1
    assert max(map(terminal.display_width, lines[2:])) <= 110


def test_control_characters_are_not_printed(model, printed, tmp_path):
    corpus = write(tmp_path / "text.txt", ["a \x1b[2J bank", "the \u202e bank", "of bank"])
    text = "".join(printed(model, corpus, "--word=bank"))
    assert "\ufffd[2J [bank]" in text and "\x1b" not in text and "\u202e" not in text
