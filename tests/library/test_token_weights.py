"""Weights of tokens by their frequency, and the means that they are used in."""

import pickle

import numpy as np
import pytest
import tiny

from elmo import ELMoEmbedder
from elmo_core.encoding.token_weights import SIFWeights
from elmo_core.messages import UserError


def test_frequent_words_weigh_less():
    weights = SIFWeights([f"w{k}" for k in range(1000)])
    found = weights(["w0", "w1", "w30", "w999", "unknown"])
    assert (np.diff(found) > 0).all() and 0 < found[0] < 0.02 and 0.8 < found[-1] < 1
    # the shares of all words, of which those are made, are those of one text
    shares = 1e-3 / weights([f"w{k}" for k in range(1000)]) - 1e-3
    assert shares.sum() == pytest.approx(1, rel=1e-3)
    assert weights([]).shape == (0,)


def test_a_capitalised_word_is_as_frequent_as_its_lower_case():
    weights = SIFWeights(["the", "bank", "The", "Paris"])
    the, capitalised, unknown, bank, paris, lower = weights(
        ["the", "The", "THE", "BANK", "Paris", "paris"]
    )
    assert the == capitalised == unknown < bank < paris < lower


@pytest.mark.parametrize("layers", ["concat", "all", "average"])
@pytest.mark.parametrize("pool", ["mean", "mean_max"])
def test_an_embedder_weights_the_tokens_of_its_means(word_model, layers, pool):
    embedder = ELMoEmbedder(word_model, layers=layers, pool=pool, weighting="sif")
    vectors = ELMoEmbedder(word_model, layers=layers).encode(tiny.SENTENCES)
    plain = ELMoEmbedder(word_model, layers=layers, pool=pool).encode(tiny.SENTENCES)
    weights = SIFWeights(embedder.words)
    copy = pickle.loads(pickle.dumps(embedder))
    for found, of_copy, array, without, sentence in zip(
        embedder.encode(tiny.SENTENCES),
        copy.encode(tiny.SENTENCES),
        vectors,
        plain,
        tiny.SENTENCES,
        strict=True,
    ):
        np.testing.assert_array_equal(of_copy, found)
        if not sentence:
            assert not found.any()
            continue
        mean = np.average(array, axis=-2, weights=weights(sentence))
        if pool == "mean":
            np.testing.assert_allclose(found, mean, atol=1e-6)
        elif layers != "concat":
            maximum = np.split(without, 2, axis=-1)[1]
            np.testing.assert_allclose(found, np.concatenate([mean, maximum], -1), atol=1e-6)


def test_a_text_is_the_weighted_mean_of_all_its_tokens(word_model):
    embedder = ELMoEmbedder(word_model, layers="top", pool="mean", weighting="sif")
    text, blank = embedder.encode_texts(["The bank. A river bank!", " "], lang="en")
    sentences = [["The", "bank", "."], ["A", "river", "bank", "!"]]
    tokens = np.concatenate(ELMoEmbedder(word_model, layers="top").encode(sentences))
    weights = SIFWeights(embedder.words)([*sentences[0], *sentences[1]])
    np.testing.assert_allclose(text.vectors, np.average(tokens, axis=0, weights=weights), atol=1e-6)
    assert not blank.vectors.any()


def test_what_cannot_be_weighted_is_named(word_model):
    for options in ({}, {"pool": "max"}):
        with pytest.raises(UserError, match="no mean"):
            ELMoEmbedder(word_model, weighting="sif", **options)
    with pytest.raises(UserError, match="weighting='tfidf'"):
        ELMoEmbedder(word_model, pool="mean", weighting="tfidf")
    with pytest.raises(UserError, match="vocabulary"):
        ELMoEmbedder((tiny.random_bilm(), None), pool="mean", weighting="sif")
