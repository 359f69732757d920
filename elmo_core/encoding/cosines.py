"""Nearest vectors by cosine. NumPy only."""

import numpy as np


def unit(vectors: np.ndarray) -> np.ndarray:
    """Normalise vectors to length 1, so that dot products are cosines."""
    return vectors / np.maximum(
        np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny
    )


def nearest(
    vectors: np.ndarray, query: np.ndarray, allowed: np.ndarray, n: int
) -> list[tuple[int, float]]:
    """Return the n nearest of the allowed (N,) vectors (N, D) to a vector (D,), all of length 1: indices and cosines."""
    cosines = np.where(allowed, vectors @ query, -np.inf)
    order = np.argsort(-cosines, kind="stable")[: min(n, allowed.sum())]
    return [(k, float(cosines[k])) for k in order.tolist()]
