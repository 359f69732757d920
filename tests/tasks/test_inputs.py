"""The inputs of the tasks' networks."""

import numpy as np
import pytest
import tiny

from elmo import ELMo
from elmo_core.encoding.pooling import POOLS, pool_tensor, pooled_dim
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tasks import ClassifierSettings
from elmo_tasks.inputs import FileVectors, LearntWords, PretrainedELMo, Rows, TokenInputs


def test_rare_words_become_unknown_in_training():
    """One that was seen n times, with the probability 1 / (n + 1)."""
    paddle.seed(3)
    words = LearntWords(Vocabulary([*SPECIAL_TOKENS, "often", "once"]), 3)
    words.count(["often"] * 50 + ["once"])
    rows = Rows([["often"] * 2000, ["once"] * 2000, ["new"] * 2000])
    unknown = words.embedding.weight[2].numpy()
    words.train()
    is_unknown = np.isclose(words(rows).numpy(), unknown).all(axis=-1).mean(axis=1)
    assert (
        abs(is_unknown[0] - 1 / 51) < 0.015
        and abs(is_unknown[1] - 1 / 2) < 0.06
        and is_unknown[2] == 1
    )
    words.eval()
    is_unknown = np.isclose(words(rows).numpy(), unknown).all(axis=-1).mean(axis=1)
    assert is_unknown.tolist() == [0, 0, 1]


def test_a_word_without_a_vector_has_that_of_its_lower_case_or_zeros():
    vectors = FileVectors(["new", "York"], np.array([[1, 2], [3, 4]], np.float32))
    found = vectors.lookup(Rows([["New", "York", "york"], ["new"]]))
    assert found.tolist() == [[[1, 2], [3, 4], [0, 0]], [[1, 2], [0, 0], [0, 0]]]


def test_a_word_without_a_vector_may_have_random_numbers_of_its_own():
    table = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32) * 3
    words = [f"word{k}" for k in range(50)]
    drawn = FileVectors(words, table, random=True, seed=1).lookup(
        Rows([[f"other{k}" for k in range(50)]])
    )[0]
    assert len(np.unique(drawn, axis=0)) == 50 and np.std(drawn) == pytest.approx(3, rel=0.1)
    again, other = (
        FileVectors(words, table, random=True, seed=seed).lookup(Rows([["other7"]]))
        for seed in (1, 2)
    )
    assert np.array_equal(again[0, 0], drawn[7]) and not np.array_equal(other, again)


@pytest.mark.parametrize("pool", [None, *POOLS])
def test_inputs_are_standardised_over_the_tokens_or_the_means_of_texts(pool):
    words = list("abcdef")
    vectors = FileVectors(
        words, np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    )
    settings = ClassifierSettings(elmo=None, word_vectors="a file")
    inputs = TokenInputs(settings, vectors=vectors, pool=pool, standardised=True)
    batches = [Rows([list("abcd"), list("e")]), Rows([list("fa")])]
    inputs.standardise(batches)
    x = [inputs(batch).x.numpy() for batch in batches]
    if pool is None:
        x = [array[batch.mask > 0] for array, batch in zip(x, batches, strict=True)]
    x = np.concatenate(x)  # (7 tokens or 3 texts, 3 or of mean_max 6)
    assert x.shape[1] == inputs.dim == pooled_dim(3, pool)
    np.testing.assert_allclose(x.mean(axis=0), np.zeros(inputs.dim), atol=1e-5)
    np.testing.assert_allclose(x.std(axis=0), np.ones(inputs.dim), rtol=1e-4)


@pytest.mark.parametrize("layers", ["concat", "mix"])
@pytest.mark.parametrize("pool", POOLS)
def test_all_inputs_are_pooled_over_the_tokens(pool, layers):
    bilm, vocabulary = tiny.random_bilm(), Vocabulary(tiny.WORDS)
    settings = ClassifierSettings(layers=layers, word_dim=2, char_cnn=True, elmo_dropout=0.0)
    table = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    vectors = FileVectors(tiny.WORDS, table)
    rows = Rows(tiny.SENTENCES)

    def inputs(**options) -> TokenInputs:
        paddle.seed(1)
        return TokenInputs(settings, vocabulary, vectors, **options)

    pretrained = PretrainedELMo(bilm, vocabulary, ())
    tokens = inputs(pretrained=pretrained)
    pooled = inputs(pretrained=pretrained, pool=pool)
    layer = ELMo((bilm, vocabulary), n_mixes=0, dropout=0.0, layers=layers)  # of tokens
    of_layer = inputs(pretrained=PretrainedELMo(bilm, vocabulary, (), layer=layer), pool=pool)
    x = pooled(rows).x.numpy()
    assert x.shape == (len(tiny.SENTENCES), pooled.dim)
    np.testing.assert_allclose(of_layer(rows).x.numpy(), x, atol=1e-6)
    assert not pooled(Rows([[], []])).x.numpy().any()
    if layers == "mix":  # the mix of maxima is not the maximum of the mix
        return
    by_token = tokens(rows).x
    sizes = [14, 14, 14, 3, 2, 160]  # each input, or layer, is pooled by itself
    parts = [pool_tensor(part, to_tensor(rows.mask), pool) for part in by_token.split(sizes, 2)]
    np.testing.assert_allclose(x, paddle.concat(parts, axis=1).numpy(), atol=1e-6)
