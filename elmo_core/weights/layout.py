"""Tables of weights: which arrays of another program make which weights of ours."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.array_file import ArrayFile

Conversion = Callable[[np.ndarray], np.ndarray]


class Item(NamedTuple):
    """An array of another program, and the weights of ours that it makes."""

    name: str
    shape: tuple[int, ...]
    weights: Mapping[str, Conversion]

    def converted(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """Make our weights of the array."""
        return {
            ours: np.ascontiguousarray(convert(array)) for ours, convert in self.weights.items()
        }


def read_items(file: ArrayFile, items: Iterable[Item]) -> dict[str, np.ndarray]:
    """Read the weights that a table lists. Items that make the same weight add up."""
    weights: dict[str, np.ndarray] = {}
    for item in items:
        for ours, array in item.converted(file.take(item.name, item.shape)).items():
            weights[ours] = weights[ours] + array if ours in weights else array
    return weights


def same(array: np.ndarray) -> np.ndarray:
    return array


def transposed(array: np.ndarray) -> np.ndarray:
    return array.T


def gates(order: str) -> Conversion:
    """Reorder the gates of an LSTM's weights (..., 4H) from `order` to ours: i, g, f, o."""

    def reordered(array: np.ndarray) -> np.ndarray:
        parts = dict(zip(order, np.split(array, 4, axis=-1), strict=True))
        return np.concatenate([parts[gate] for gate in "igfo"], axis=-1)

    return reordered


def identity_projections(config: ELMoConfig) -> dict[str, np.ndarray]:
    """Return the projections of LSTMs that have none."""
    weights = {}
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            identity = np.eye(config.cell_dim, dtype=np.float32)
            weights[f"{direction}_lstm.{k}.projection_weight"] = identity
    return weights


def convolutions(config: ELMoConfig, prefix: str, *axes: int) -> Iterable[Item]:
    """List kernels (number, C, *axes, width) and their biases.

    axes: of length 1. A kernel becomes (width * C, number).
    """
    for k, (width, number) in enumerate(config.filters):
        shape = (number, config.character_dim, *axes, width)
        ours = f"token_encoder.convolutions.{k}"
        yield Item(f"{prefix}{k}.weight", shape, {f"{ours}.weight": _matrix_of_kernel})
        yield Item(f"{prefix}{k}.bias", (number,), {f"{ours}.bias": same})


def _matrix_of_kernel(kernel: np.ndarray) -> np.ndarray:
    """(number, C, ..., width) as (width * C, number)."""
    number, dim = kernel.shape[:2]
    width = kernel.shape[-1]
    return kernel.reshape(number, dim, width).transpose(2, 1, 0).reshape(-1, number)
