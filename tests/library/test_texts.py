"""Vectors of raw texts: their sentences, their tokens, their language."""

import numpy as np
import pytest
from reference import assert_close

from elmo import ELMoEmbedder


@pytest.mark.parametrize("pool", [None, "mean", "max"])
def test_raw_texts_are_split_into_sentences(model, pool):
    texts = ["“The  bank”… is good. A bank\n the river!", " ", "苹果"]
    sentences = [['"', "The", "bank", '"', "...", "is", "good", "."], ["A", "bank"], ["the", "river", "!"]]
    first, blank, last = ELMoEmbedder(model, pool=pool).encode_texts(texts, lang="en")
    assert first.tokens == [token for sentence in sentences for token in sentence] and blank.tokens == []
    places = [texts[0][begin:end] for begin, end in first.offsets]
    assert places == ["“", "The", "bank", "”", "…", "is", "good", ".", "A", "bank", "the", "river", "!"]
    expected = np.concatenate(ELMoEmbedder(model).encode(sentences), axis=1)
    assert_close([first.vectors], [getattr(expected, pool)(axis=1) if pool else expected])
    assert_close([last.vectors], ELMoEmbedder(model, pool=pool).encode([["苹果"]]))
    assert not blank.vectors.any() and blank.vectors.shape == ELMoEmbedder(model, pool=pool).shape(0)
    with pytest.raises(TypeError, match="expected a list of strings"):
        ELMoEmbedder(model).encode_texts("苹果")


def test_raw_text_is_split_in_the_language_of_the_model():
    for name, text, tokens in (("zh", "他在银行工作。", "他 在 银行 工作 。"), ("en", "It's good.", "It 's good .")):
        assert ELMoEmbedder(name).encode_texts([text])[0].tokens == tokens.split()
