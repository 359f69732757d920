"""Text as the tagger's tokens: pieces of words, words joined from them, and places in the text."""

import math
import unicodedata

import pytest

from elmo_tasks.tagging.data import SentenceReader, in_pieces
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import Line, PieceSplitter, Span, joined_words

KNOWN = ["北京", "北京大", "大学", "学生", "A1", "，"]


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("北京大学生", ["北京大", "学生"]),  # the longest piece at each place, from the left
        ("南京大学", ["南", "京", "大学"]),
        ("北京", ["北京"]),
        ("Ａ１", ["A1"]),
        ("：", [":"]),
        ("，", ["，"]),  # the vocabulary has it
        ("", []),
    ],
)
def test_words_are_split_into_the_longest_pieces(word, pieces):
    assert PieceSplitter(KNOWN).split(word) == pieces


def test_words_that_are_kept_whole():
    splitter = PieceSplitter(KNOWN, whole=True)
    assert splitter.split("北京大学生") == ["北京大学生"]
    assert splitter.split("北京Ａ，") == ["北京A，"]


def test_full_width_characters_become_half_width():
    splitter = PieceSplitter(KNOWN)
    for code in range(0x3000, 0x10000):
        character = chr(code)
        kind, _, narrow = unicodedata.decomposition(character).partition(" ")
        if kind == "<wide>":
            kept = character in "，\u3000"  # a space would end the word
            assert splitter.normalised(character) == (character if kept else chr(int(narrow, 16)))


def test_a_line_keeps_its_own_characters():
    words, tokens = PieceSplitter(KNOWN).split_line(["Ａ１", " ", "北京大学", "："])
    assert words == ["Ａ１", "北京大", "学", "："]
    assert tokens == ["A1", "北京大", "学", ":"]


def test_tagged_words_are_split_into_pieces_and_joined_again(tmp_path):
    path = tmp_path / "tagged"
    path.write_text(
        "小明/nr 爱/v 苹果/O 1/2/n //w 上海/O\n \n北京大学/n ，Ａ/w\n", encoding="utf-8"
    )
    reader = SentenceReader(TaggerSettings(data_format="tagged"))
    splitter = PieceSplitter(["苹果", "北京", "大学", "，"])
    first, second = in_pieces(reader.read(path, "data"), splitter)
    assert (first.where, second.where) == (f"{path}:1", f"{path}:3")
    assert first.tokens == ["小", "明", "爱", "苹果", "1", "/", "2", "/", "上", "海"]
    assert first.labels == ["nr-B", "nr-I", "v", "O", "n-B", "n-I", "n-I", "w", "O", "O"]
    assert second.tokens == ["北京", "大学", "，", "A"] and second.labels == [
        "n-B",
        "n-I",
        "w-B",
        "w-I",
    ]
    joined = [
        ("小明", "nr"),
        ("爱", "v"),
        ("苹果", "O"),
        ("1/2", "n"),
        ("/", "w"),
        ("上", "O"),
        ("海", "O"),
    ]
    assert joined_words(first.tokens, first.labels) == joined
    assert joined_words(second.tokens, second.labels) == [("北京大学", "n"), ("，A", "w")]


def test_spans_have_their_places_in_the_text():
    text = " “The  bank”… of\u200b 苹果"
    line = Line(text, ['"', "The", "bank", '"', "...", "of", "苹果"], [])
    spans = line.spans(["O", "B-x", "I-x", "O", "O", "B-y", "B-z"], "bio", [0.5, 0.25, 1.0])
    assert spans == [
        Span(2, 11, "The  bank", "x", 0.5),
        Span(14, 16, "of", "y", 0.25),
        Span(18, 20, "苹果", "z", 1.0),
    ]
    tokens = line.spans(list("abcdefg"), "plain")
    assert [(span.text, span.label) for span in tokens[:3]] == [
        ("“", "a"),
        ("The", "b"),
        ("bank", "c"),
    ]
    assert all(math.isnan(span.score) for span in tokens)


def test_tokens_have_their_places_as_if_joined_by_spaces():
    spans = Line.from_tokens(["The", "bank"]).spans(["DT", "NN"], "plain")
    assert [(span.begin, span.end, span.text) for span in spans] == [(0, 3, "The"), (4, 8, "bank")]


@pytest.mark.parametrize("labels", [[False, True], [0, 3], ["DT", "NN"]])
def test_the_labels_of_spans_keep_their_type(labels):
    found = [span.label for span in Line.from_tokens(["The", "bank"]).spans(labels, "plain")]
    assert found == labels
    assert [type(label) for label in found] == [type(label) for label in labels]
