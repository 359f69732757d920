"""One vector of each sentence: the mean, the maximum, or both, in NumPy and in Paddle."""

import numpy as np
import pytest

from elmo_core.encoding.pooling import POOLS, pool_array, pool_parts, pool_tensor, pooled_dim
from elmo_core.machine.runtime import paddle

LENGTHS = [5, 0, 1, 3]
DIM = 4
# maxima below zero, too: padding must not win
ROWS = [np.random.default_rng(n).standard_normal((n, DIM)).astype(np.float32) - 2 for n in LENGTHS]
OF_TOKENS = {
    "mean": lambda row: row.mean(axis=0),
    "max": lambda row: row.max(axis=0),
    "mean_max": lambda row: np.concatenate([row.mean(axis=0), row.max(axis=0)]),
}


def expected_of(pool: str) -> np.ndarray:
    """The pooled rows (B, D), zeros of one without tokens."""
    expected = np.zeros((len(ROWS), pooled_dim(DIM, pool)))
    for pooled, row in zip(expected, ROWS, strict=True):
        if len(row):
            pooled[:] = OF_TOKENS[pool](row)
    return expected


def padded() -> tuple[paddle.Tensor, paddle.Tensor]:
    """The rows (B, T, D), zero at padding, and their mask (B, T)."""
    x = np.zeros((len(ROWS), max(LENGTHS), DIM), np.float32)
    mask = np.zeros((len(ROWS), max(LENGTHS)), np.float32)
    for k, row in enumerate(ROWS):
        x[k, : len(row)] = row
        mask[k, : len(row)] = 1
    return paddle.to_tensor(x, stop_gradient=False), paddle.to_tensor(mask)


@pytest.mark.parametrize("pool", POOLS)
def test_tensors_and_arrays_are_pooled_over_their_tokens(pool):
    expected = expected_of(pool)
    found = pool_tensor(*padded(), pool)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    for row, wanted in zip(ROWS, expected, strict=True):
        layers = pool_array(np.stack([row, 2 * row]), pool)  # (2, 1, D)
        np.testing.assert_allclose(layers, [[wanted], [2 * wanted]], atol=1e-6)
        assert layers.dtype == np.float32


@pytest.mark.parametrize("pool", POOLS)
def test_the_gradient_of_equal_tokens_is_not_counted_twice(pool):
    """A word that occurs twice has the same vector in layer 0."""
    word = paddle.to_tensor(np.ones(DIM, np.float32), stop_gradient=False)
    x = paddle.stack([word, word]).unsqueeze(0)
    pool_tensor(x, paddle.ones([1, 2]), pool).sum().backward()
    np.testing.assert_allclose(word.grad.numpy(), pooled_dim(DIM, pool) / DIM * np.ones(DIM))


def test_weights_are_those_of_the_mean_only():
    row, weights = ROWS[0], np.array([0.1, 0.9, 0.5, 0.2, 0.3])
    expected = np.concatenate([weights @ row / weights.sum(), row.max(axis=0)])
    found = pool_array(row, "mean_max", weights)[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    parts = [pool_array(row[part], "mean_max", weights[part])[0] for part in (np.s_[:2], np.s_[2:])]
    found = pool_parts(np.array(parts), [weights[:2].sum(), weights[2:].sum()], "mean_max")
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("pool", POOLS)
def test_a_text_is_pooled_as_its_sentences_together(pool):
    sentences = [row for row in ROWS if len(row)]
    pooled = np.concatenate([pool_array(row, pool) for row in sentences])
    found = pool_parts(pooled, [len(row) for row in sentences], pool)
    np.testing.assert_allclose(found, OF_TOKENS[pool](np.concatenate(sentences)), atol=1e-6)
