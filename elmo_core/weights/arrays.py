"""Weights of other programs: checked when they are taken, converted to our layout."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.hdf5_file import ArrayFile
from elmo_core.messages import UserError


class ForeignWeights(ArrayFile):
    """Weights by name, from a file or folder of another program. unused: the names that have not been taken."""

    def __init__(self, arrays: Mapping[str, np.ndarray], path: Path):
        super().__init__(path, arrays)
        self.unused = set(arrays)

    def shape(self, name: str, n_axes: int) -> tuple[int, ...]:
        """The shape of an array, which tells a size of the model. Raises unless it has this many axes."""
        if name not in self.datasets or self.datasets[name].ndim != n_axes:
            raise UserError(f"{self.path}: there is no {name} with {n_axes} axes. {self.contents()}")
        return self.datasets[name].shape

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Return an array in float32. Raises unless it has this shape and only finite values."""
        self.check(name, shape, "the rest of the model")
        self.unused.discard(name)
        return self.array(name)

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
