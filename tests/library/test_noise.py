"""Noise: misprints of words."""

import random

import pytest

from elmo_core.text.noise import add_noise, variants


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        ("swap", "abba", {"baba", "abab"}),
        ("drop", "天气", {"天", "气"}),
        ("drop", "a", set()),
        ("double", "at", {"aat", "att"}),
        ("keyboard", "P!", {"O!", "L!"}),
        ("keyboard", "天", set()),
        ("ocr", "turn", {"tum", "furn", "tvrn", "turh", "turri"}),
        ("ocr", "未来", {"末来"}),
        ("swap", "2019", set()),
    ],
)
def test_misprints(kind, word, expected):
    found = variants(word, kind)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_more_noise_changes_the_same_words_and_others():
    words = ["<S>", *("wider", "film", ".", "天气") * 500, "</S>"]
    changed = []
    for share in (0, 0.1, 0.2):
        noisy = add_noise(words, share, random.Random("a"))
        assert len(noisy) == len(words) and noisy == add_noise(words, share, random.Random("a"))
        changed.append(
            {k for k, pair in enumerate(zip(words, noisy, strict=True)) if pair[0] != pair[1]}
        )
        assert len(changed[-1]) == pytest.approx(1500 * share, abs=40)
    assert not changed[0] and changed[1] < changed[2]


def test_markers_are_never_changed():
    words = ["<S>", "bank", "</S>"] * 50
    noisy = add_noise(words, 1.0, random.Random("a"))
    assert noisy[::3] == words[::3] and noisy[2::3] == words[2::3]
    assert all(word != "bank" for word in noisy[1::3])
