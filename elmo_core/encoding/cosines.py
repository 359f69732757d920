"""Nearest vectors by cosine. NumPy only."""

import numpy as np


def unit(vectors: np.ndarray) -> np.ndarray:
    """Normalise vectors to length 1, so that dot products are cosines."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, np.finfo(np.float32).tiny)


def nearest(
    vectors: np.ndarray, query: np.ndarray, allowed: np.ndarray, n: int
) -> list[tuple[int, float]]:
    """Return the indices and cosines of the n vectors that are nearest to a query (D,).

    vectors: (N, D), of length 1, like the query. allowed: (N,), which of them may be returned.
    """
    cosines = np.where(allowed, vectors @ query, -np.inf)
    order = np.argsort(-cosines, kind="stable")[: min(n, allowed.sum())]
    return [(k, float(cosines[k])) for k in order.tolist()]
