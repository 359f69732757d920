"""Checks of what users pass: sentences of tokens, not texts or numbers."""

import numpy as np
import pytest

from elmo import ELMoEmbedder
from elmo_core.messages import UserError


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("The bank", r"\[\['The'"),
        (["The bank", "A river"], "sentence 0.*jieba"),
        ([["ok"], ["fine", 3]], "sentence 1, token 1"),
        (None, "NoneType"),
        (np.array("abc"), "ndarray"),
    ],
)
def test_wrong_types_show_the_right_form(model, sentences, message):
    embedder = ELMoEmbedder(model)
    for encode in (embedder.encode, lambda sentences: list(embedder.iter_encode(sentences))):
        with pytest.raises(TypeError, match=message):
            encode(sentences)


@pytest.mark.parametrize("token", ["two words", "a\u3000b"])
def test_a_token_with_white_space_is_named(model, token):
    with pytest.raises(UserError, match="sentence 1, token 2"):
        ELMoEmbedder(model).encode([["ok"], ["a", "b", token]])
