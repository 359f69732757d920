"""Offsets of tokens in their text: where they were put, also in a long line."""

import random

import numpy as np
import pytest

from elmo_core.text import offsets
from elmo_core.text.tokenise import Tokeniser

LETTERS = random.Random(0).choices("kmpqtuvwxyz银行苹果河岸", k=4000)
WORDS = [",", "!"] + ["".join(LETTERS[k : k + 2 + k // 7 % 6]) for k in range(0, 4000, 7)]
CHANGED = {
    "“": '"',
    "…": "...",
    "don’t": "don't",
    "e\u0301te\u0301": "été",
    "&amp;": "&",
    "so\u00adft": "soft",
}
REMOVED = ("<br/>", f'<a href="/{"long/" * 30}">', "\u200b", "</b>")


def random_text(generator: random.Random, n: int) -> tuple[str, list[str], np.ndarray]:
    """A text of n words, as raw text has them, what a tokeniser makes of it, and their offsets."""
    pieces = []
    tokens = []
    for word in generator.choices(WORDS, k=n):
        gap = generator.choice(REMOVED) if generator.random() < 0.1 else " "
        source = generator.choice(list(CHANGED)) if generator.random() < 0.1 else word
        pieces += [gap, source]
        tokens.append(CHANGED.get(source, source))
    ends = np.cumsum([len(piece) for piece in pieces])
    return "".join(pieces), tokens, ends.reshape(-1, 2)


@pytest.mark.parametrize("n", [7, 100, 20_000])
def test_tokens_are_where_they_were_put(n):
    text, tokens, expected = random_text(random.Random(n), n)
    found = offsets.token_offsets(tokens, text)
    unchanged = np.array([token not in CHANGED.values() for token in tokens])
    assert (found == expected)[unchanged].all()


@pytest.mark.parametrize(
    ("lang", "text", "parts"),
    [
        ("en", "x&amp;y&#8211;“z”…", ["x", "&amp;", "y", "&#8211;", "“", "z", "”", "…"]),
        ("en", "``a'' b``c", ["``", "a", "''", "b", "``", "c"]),
        (
            "en",
            "Well . . then … … etc. … . . .",
            ["Well", ". .", "then", "…", "…", "etc", ".", "…", ". . ."],
        ),
        ("any", "`<b>` a<br/>b", ["`", "`", "a", "b"]),
        (
            "any",
            "cafe\u0301 so\u00adft 각 \x93q\x94",
            ["cafe\u0301", "so\u00adft", "각", "\x93", "q", "\x94"],
        ),
        (
            "any",
            "مُحَم\u0651\u064eدًا إِن\u0651\u064e",
            ["مُحَم\u0651\u064eدًا", "إِن\u0651\u064e"],
        ),
        ("none", "a&amp;b <b> …", ["a&amp;b", "<b>", "…"]),
    ],
)
def test_replaced_characters_are_included(lang, text, parts):
    found = offsets.token_offsets(Tokeniser(lang)(text), text)
    assert [text[begin:end] for begin, end in found] == parts


def test_tokens_that_are_not_in_the_text_do_not_move_the_others():
    text = "a bank of the river"
    found = offsets.token_offsets(["a", "-LRB-", "bank", "of"], text)
    assert [text[begin:end] for begin, end in found[[0, 2, 3]]] == ["a", "bank", "of"]


def test_a_token_of_white_space_is_nowhere():
    assert offsets.token_offsets(["\n"], "\n").tolist() == [[0, 0]]
    assert offsets.token_offsets(["", "a", " ", "b"], "a b").tolist() == [
        [0, 0],
        [0, 1],
        [1, 1],
        [2, 3],
    ]


def test_a_line_of_nothing_but_differences():
    found = offsets.token_offsets(["&"] * 20_000, "&amp;" * 20_000)
    np.testing.assert_array_equal(found[:, 0], 5 * np.arange(20_000))


@pytest.mark.parametrize("mark", ['。"', "《。", '. "', "」。"])
@pytest.mark.parametrize("lang", ["en", "zh", "any"])
def test_a_long_line_without_a_word_takes_no_time(lang, mark):
    """Hours, if every mark looks for words from the line's beginning."""
    assert Tokeniser(lang)(mark * 100_000)
