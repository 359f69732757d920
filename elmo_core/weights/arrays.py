"""Weights of other programs: checked when they are taken, converted to our layout."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.checkpoint import is_finite
from elmo_core.machine.messages import UserError


class ForeignWeights:
    """Weights by name, from a file or folder of another program. unused: the names that have not been taken."""

    def __init__(self, arrays: Mapping[str, np.ndarray], path: Path):
        self.arrays, self.path, self.unused = arrays, path, set(arrays)

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Return an array in float32. Raises unless it has this shape and only finite values."""
        if name not in self.arrays:
            raise UserError(f"{self.path}: there is no {name}, expected {shape}.")
        array = self.arrays[name]
        if array.shape != shape or array.dtype.kind != "f":
            raise UserError(f"{self.path}: {name} is {array.shape} {array.dtype}, expected {shape} floats.")
        with np.errstate(over="ignore"):
            array = np.array(array, np.float32)
        if not is_finite(array):
            raise UserError(f"{self.path}: {name} contains values that are not finite in float32.")
        self.unused.discard(name)
        return array

    def convolutions(self, prefix: str, config: ELMoConfig, *axes: int) -> dict[str, np.ndarray]:
        """Kernels (number, C, *axes, width), axes of length 1, as our matrices (width * C, number); and biases."""
        weights = {}
        for k, (width, number) in enumerate(config.filters):
            kernel = self.take(f"{prefix}{k}.weight", number, config.character_dim, *axes, width)
            kernel = kernel.reshape(number, config.character_dim, width).transpose(2, 1, 0)
            weights[f"convolutions.{k}.weight"] = kernel.reshape(-1, number)
            weights[f"convolutions.{k}.bias"] = self.take(f"{prefix}{k}.bias", number)
        return weights


def reorder_gates(array: np.ndarray, order: str) -> np.ndarray:
    """Reorder the gates of an LSTM's weights (..., 4H) from `order` to ours: i, g, f, o."""
    gates = dict(zip(order, np.split(array, 4, axis=-1), strict=True))
    return np.ascontiguousarray(np.concatenate([gates[gate] for gate in "igfo"], axis=-1))
