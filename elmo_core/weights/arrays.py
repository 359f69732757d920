"""Arrays of foreign weights: checked as they are taken, brought into our order."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elmo_core.machine.messages import UserError


def take(found: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], path: Path) -> np.ndarray:
    """The array of that name in float32, which must have that shape and finite numbers."""
    if name not in found:
        raise UserError(f"{path}: there is no {name}, expected it with {shape}.")
    if found[name].shape != shape or found[name].dtype.kind != "f":
        raise UserError(f"{path}: {name} is {found[name].shape} {found[name].dtype}, expected {shape} of floats.")
    if not np.isfinite(found[name]).all():
        raise UserError(f"{path}: {name} has values that are not finite.")
    return found[name].astype(np.float32)


def gates(array: np.ndarray) -> np.ndarray:
    """An LSTM's weights (4H, ...) with gates in the order i, f, g, o as ours, (..., 4H) in the order i, g, f, o."""
    i, f, g, o = np.split(array, 4)
    return np.ascontiguousarray(np.concatenate([i, g, f, o]).T)
