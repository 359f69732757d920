"""Noise: misprints of words."""

from collections import Counter

import numpy as np
import pytest

from elmo_core.text.noise import KINDS, count_variants, misprints, variant


def noisy_words(words, share, seed=1):
    """The words with misprints."""
    positions, changed = misprints(words, share, np.random.PCG64(seed))
    noisy = list(words)
    for position, word in zip(positions.tolist(), changed, strict=True):
        noisy[position] = word
    return noisy


def variants(word, kind):
    """All words that one change of a kind makes of a word between others."""
    counts = count_variants(["ab", word, "nab"])[KINDS.index(kind), 2:-3].tolist()
    assert len(counts) == len(word)
    found = []
    for begin, n in enumerate(counts):
        found.extend(variant(word, kind, begin, number) for number in range(n))
    return found


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
        ("swap", "rr", set()),
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
        noisy = noisy_words(words, share)
        assert len(noisy) == len(words) and noisy == noisy_words(words, share)
        changed.append(
            {k for k, pair in enumerate(zip(words, noisy, strict=True)) if pair[0] != pair[1]}
        )
        assert len(changed[-1]) == pytest.approx(1500 * share, abs=40)
    assert not changed[0] and changed[1] < changed[2]


def test_markers_are_never_changed():
    words = ["<S>", "bank", "</S>"] * 50
    noisy = noisy_words(words, 1.0)
    assert noisy[::3] == words[::3] and noisy[2::3] == words[2::3]
    assert all(word != "bank" for word in noisy[1::3])


def test_words_without_letters_are_never_changed():
    words = ["2019", ",", "--", "天"] * 50
    noisy = noisy_words(words, 1.0)
    assert [word for word in noisy if word in words] == ["2019", ",", "--"] * 50
    assert misprints([], 0.5, np.random.PCG64(1))[1] == []


@pytest.mark.parametrize("word", ["turn", "aa", "K9!", "天"])
def test_kinds_that_can_are_equally_likely_and_their_variants_too(word):
    """Different kinds may make the same word: then it is more likely."""
    possible = [found for found in (variants(word, kind) for kind in KINDS) if found]
    expected = Counter()
    for found in possible:
        for changed in found:
            expected[changed] += 1 / len(possible) / len(found)
    n = 40_000
    counts = Counter(noisy_words([word] * n, 1.0))
    assert set(counts) == set(expected)
    for changed, share in expected.items():
        assert counts[changed] / n == pytest.approx(share, abs=5 * (share / n) ** 0.5)
