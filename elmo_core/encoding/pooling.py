"""Pooling: one vector of each sentence from those of its tokens.

Shapes: B rows, T steps, n tokens, D of a token's vector; a pooled one has `pooled_dim` numbers.
"""

from collections.abc import Sequence

import numpy as np

from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import Maximum

MEAN = "mean"
MAX = "max"
MEAN_MAX = "mean_max"  # the mean, followed by the maximum
POOLS = (MEAN, MAX, MEAN_MAX)


def pooled_dim(dim: int, pool: str | None) -> int:
    """Return the size of a pooled vector; without pooling, of a token's."""
    return 2 * dim if pool == MEAN_MAX else dim


def pool_tensor(x: paddle.Tensor, mask: paddle.Tensor, pool: str) -> paddle.Tensor:
    """Pool x (B, T, D), zero at padding, with its mask (B, T). A row without tokens gets zeros."""
    parts = []
    if pool != MAX:
        parts.append(x.sum(axis=1) / mask.sum(axis=1, keepdim=True).clip(1))
    if pool != MEAN:
        parts.append(maximum(x, mask))
    return paddle.concat(parts, axis=-1) if len(parts) > 1 else parts[0]


def maximum(x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
    """Return the maximum over the tokens of x (B, T, D), zero at padding; without tokens, zeros."""
    mask = mask.unsqueeze(-1)
    x = x - 1e9 * (1 - mask)
    if not paddle.in_dynamic_mode():  # a graph, which does not train ELMo
        return x.max(axis=1) * mask.max(axis=1)
    return Maximum.apply(x, 1) * mask.max(axis=1)


def pool_array(vectors: np.ndarray, pool: str, weights: np.ndarray | None = None) -> np.ndarray:
    """Pool the vectors (..., n, D) of n tokens: (..., 1, D). Without tokens, it is zeros.

    weights: (n,), of the tokens in the mean, not all 0.
    """
    *others, n_tokens, dim = vectors.shape
    if not n_tokens:
        return np.zeros((*others, 1, pooled_dim(dim, pool)), vectors.dtype)
    parts = []
    if pool != MAX:
        parts.append(_mean(vectors, weights))
    if pool != MEAN:
        parts.append(vectors.max(axis=-2, keepdims=True))
    return np.concatenate(parts, axis=-1)


def _mean(vectors: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the mean over the n tokens of (..., n, D): (..., 1, D)."""
    if weights is None:
        return vectors.mean(axis=-2, keepdims=True)
    return np.average(vectors, axis=-2, weights=weights, keepdims=True)


def pool_parts(vectors: np.ndarray, weights: Sequence[float], pool: str) -> np.ndarray:
    """Pool the pooled vectors (S, ..., D) of a text's S sentences: (..., D).

    weights: (S,), of the sentences in the mean: how many tokens they have, or the sums of their
    tokens' weights.
    """
    if pool == MEAN:
        return np.average(vectors, axis=0, weights=weights)
    if pool == MAX:
        return np.max(vectors, axis=0)
    means, maxima = np.split(vectors, 2, axis=-1)
    parts = [pool_parts(means, weights, MEAN), pool_parts(maxima, weights, MAX)]
    return np.concatenate(parts, axis=-1)
