"""Reading sentences: whatever the batch, their length, the thread or the program's default type."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny
from reference import assert_close

from elmo import ELMo, ELMoEmbedder
from elmo_core.machine.runtime import paddle

SENTENCES = tiny.SENTENCES


def test_vectors_do_not_depend_on_the_batch(model):
    """Alone, in any batch, in any order, next to any length, on the first call and later."""
    generator = random.Random(0)
    words = [*tiny.WORDS[3:], "new", "words", "日本語"]
    sentences = []
    for _ in range(60):
        n_words = generator.randrange(0, 30)
        sentences.append(generator.choices(words, k=n_words))
    alone = [ELMoEmbedder(model).encode([sentence])[0] for sentence in sentences[:20]]
    order = list(range(60))
    generator.shuffle(order)
    for batch_size in (1, 7, 64):
        embedder = ELMoEmbedder(model, batch_size=batch_size)
        for _ in range(3):
            shuffled = embedder.encode([sentences[k] for k in order])
            assert_close([shuffled[order.index(k)] for k in range(20)], alone)
    endless = ELMoEmbedder(model, batch_size=3).iter_encode(itertools.cycle(sentences))
    assert_close(itertools.islice(endless, 20), alone)


@pytest.mark.parametrize("carry_state", [False, True])
def test_empty_input(model, carry_state):
    embedder = ELMoEmbedder(model, carry_state=carry_state)
    assert embedder.encode([]) == []
    assert [array.shape for array in embedder.encode([[], []])] == [(3, 0, 14)] * 2
    pooled = ELMoEmbedder(model, pool="mean").encode([[], ["the"]])
    assert pooled[0].shape == (3, 14) and not pooled[0].any()
    for empty in ([], [[], []]):
        (mixed,), mask = ELMo(model)(empty)
        assert mixed.shape == [len(empty), 0, 14] and mask.shape == [len(empty), 0]


def test_a_very_long_sentence(model):
    sentence = ["the", "bank", "of", "q"] * 5000
    (array,) = ELMoEmbedder(model, layers="top").encode([sentence])
    assert array.shape == (20000, 14) and np.isfinite(array).all()


def test_the_programs_default_type_changes_nothing(model):
    embedder = ELMoEmbedder(model)
    expected = ELMoEmbedder(model).encode(SENTENCES)
    paddle.set_default_dtype("float16")
    try:
        vectors = embedder.encode(SENTENCES)
    finally:
        paddle.set_default_dtype("float32")
    for sentence, before in zip(vectors, expected, strict=True):
        np.testing.assert_array_equal(sentence, before)


def test_several_threads_may_share_an_embedder(model):
    groups = []
    for k in range(8):
        groups.append([[f"w{k}{j}", "the", f"v{j}"] for j in range(20)])
    desired = [ELMoEmbedder(model).encode(group) for group in groups]
    embedder = ELMoEmbedder(model)
    with ThreadPoolExecutor(4) as pool:
        vectors = pool.map(embedder.encode, groups * 3)
        for actual, expected in zip(vectors, desired * 3, strict=True):
            assert_close(actual, expected)
