"""Offsets of tokens in their text: where they were put, also in a long line; as `SequenceMatcher` aligns them."""

import random
from difflib import Match, SequenceMatcher

import numpy as np
import pytest

from elmo_core.text import offsets
from elmo_core.text.tokenise import Tokeniser

LETTERS = random.Random(0).choices("kmpqtuvwxyz银行苹果河岸", k=4000)
WORDS = [",", "!", *("".join(LETTERS[k : k + 2 + k // 7 % 6]) for k in range(0, 4000, 7))]
CHANGED = {"“": '"', "…": "...", "don’t": "don't", "e\u0301te\u0301": "été", "&amp;": "&", "so\u00adft": "soft"}
REMOVED = ("<br/>", f'<a href="/{"long/" * 30}">', "\u200b", "</b>")


def random_text(generator: random.Random, n: int) -> tuple[str, list[str], np.ndarray]:
    """A text of n words, as raw text has them, what a tokeniser makes of them, and their offsets."""
    pieces, tokens = [], []
    for word in generator.choices(WORDS, k=n):
        gap = generator.choice(REMOVED) if generator.random() < 0.1 else " "
        source = generator.choice([*CHANGED]) if generator.random() < 0.1 else word
        pieces += [gap, source]
        tokens.append(CHANGED.get(source, source))
    ends = np.cumsum(list(map(len, pieces)))
    return "".join(pieces), tokens, ends.reshape(-1, 2)


@pytest.mark.parametrize("n", [7, 100, 20_000])
def test_tokens_are_where_they_were_put(n):
    text, tokens, expected = random_text(random.Random(n), n)
    found = offsets.token_offsets(tokens, text)
    unchanged = np.array([token not in CHANGED.values() for token in tokens])
    assert (found == expected)[unchanged].all()


def test_they_are_those_of_sequence_matcher(monkeypatch):
    generator = random.Random(1)
    texts = [random_text(generator, generator.randrange(1, 150))[0] for _ in range(100)]
    pairs = [(Tokeniser(lang)(text), text) for text in texts for lang in ("en", "any")]
    found = [offsets.token_offsets(*pair) for pair in pairs]

    def matching_blocks(one: str, other: str) -> list[Match]:
        return SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()

    monkeypatch.setattr(offsets, "_matching_blocks", matching_blocks)
    for one, pair in zip(found, pairs, strict=True):
        np.testing.assert_array_equal(one, offsets.token_offsets(*pair))
