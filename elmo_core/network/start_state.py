"""The state from which a language model reads a sentence whose context is not known.

Shapes: L LSTM layers, P projection size, H cell size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.lstmp import BiLMState, map_state

NAMES = ("start.h", "start.c")  # of the arrays in a model's file


@dataclass(frozen=True)
class StartState:
    """A state of both directions of all layers.

    In pretraining a sentence follows another, and hardly any begins with a state of zeros. This is
    the mean of the states behind sentences.
    """

    h: np.ndarray  # (L, 2, P)
    c: np.ndarray  # (L, 2, H)

    @classmethod
    def mean(cls, states: Sequence[BiLMState]) -> "StartState":
        """Return the mean of all rows of states."""
        h = []
        c = []
        for directions in map_state(_mean, *states):
            h.append([mean_h for mean_h, _ in directions])
            c.append([mean_c for _, mean_c in directions])
        return cls(np.array(h), np.array(c))

    @staticmethod
    def shapes(config: ELMoConfig) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays, by name."""
        h, c = NAMES
        return {
            h: (config.n_layers, 2, config.projection_dim),
            c: (config.n_layers, 2, config.cell_dim),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        return dict(zip(NAMES, (self.h, self.c), strict=True))

    def rows(self, n: int, dtype: paddle.dtype) -> BiLMState:
        """Return it as the state of n rows."""
        state = []
        for h_of_layer, c_of_layer in zip(self.h, self.c, strict=True):
            directions = []
            for h, c in zip(h_of_layer, c_of_layer, strict=True):
                directions.append((_repeated(h, n, dtype), _repeated(c, n, dtype)))
            state.append(directions)
        return state


def _mean(*tensors: paddle.Tensor) -> np.ndarray:
    """Return the mean of the rows of all tensors (B, width)."""
    rows = np.concatenate([tensor.numpy() for tensor in tensors])
    return rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)


def _repeated(values: np.ndarray, n: int, dtype: paddle.dtype) -> paddle.Tensor:
    """Return values (width,) as the rows of a tensor (n, width)."""
    return to_tensor(np.tile(values, (n, 1))).astype(dtype)
