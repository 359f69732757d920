"""Weights in fewer bits: a file of half or a quarter of the size. Graphs expand them to float32 when they run."""

from collections.abc import Sequence

import numpy as np

PRECISIONS = ("float32", "float16", "int8")
MIN_SIZE = 1024  # smaller arrays stay in float32


def compressed(array: np.ndarray, precision: str, shared: Sequence[int] | None) -> list[np.ndarray]:
    """The array, or what replaces it: float16 numbers, or int8 numbers and the float32 factors of each.

    shared: axes with a common factor (default: all but the first).
    """
    if array.dtype != np.float32 or array.ndim < 2 or array.size < MIN_SIZE or precision == "float32":
        return [array]
    if precision == "float16":
        return [array.astype(np.float16)]
    factor = np.abs(array).max(axis=tuple(shared or range(1, array.ndim)), keepdims=True) / 127
    return [np.rint(array / np.where(factor, factor, 1)).astype(np.int8), factor]
