"""The layers of a biLM that are returned: their choice, and the form in which a batch is returned.

Shapes: B rows, T steps, P projection size, M = sum of all row lengths.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.encoding.pooling import pool_array, pool_tensor
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError
from elmo_core.network.lstmp import Packing
from elmo_core.network.start_state import StartState

Layers = str | int | Sequence[float]  # see `layer_choice`
INDICES = re.compile(r"-?[0-9]{1,3}(,-?[0-9]{1,3})*")
COMBINATIONS = {"concat": "concat", "mix": "trained_sum"}  # {in a text: LayerChoice.how}


@dataclass(frozen=True)
class LayerChoice:
    """The layers that are returned, and how.

    how: "each" | "concat" | "sum", with fixed weights, as of one layer, the average or an imported
    model's mix | "trained_sum", with the weights of a `ScalarMix`.
    """

    how: str
    indices: list[int]
    weights: list[float] | None = None  # of a sum, one per layer of the biLM

    @property
    def n_layers(self) -> int:
        """Return the number of layers that `select` returns."""
        return 1 if self.how == "sum" else len(self.indices)

    @property
    def max_layer(self) -> int:
        """Return the last layer that has to be computed."""
        return max(self.indices, default=0)

    def select(self, layers: Sequence[Sequence[paddle.Tensor]]) -> list[Sequence[paddle.Tensor]]:
        """Return the chosen layers of the biLM, or their sum.

        A layer has one or more parts, such as (forward, backward), which are summed separately.
        """
        if self.how != "sum":
            return [layers[index] for index in self.indices]
        indices = self.indices or [0]  # of zeros, if all weights are 0
        sums = []
        for part in range(len(layers[0])):
            terms = [_scaled(layers[index][part], self.weights[index]) for index in indices]
            sums.append(sum(terms[1:], terms[0]))
        return [sums]


@dataclass(frozen=True)
class EncodingRequest:
    """What is asked of the biLM: how it reads sentences, and what is made of its layers."""

    choice: LayerChoice
    # What is made of a batch and its sentences: one result per sentence.
    results: Callable[["EncodedBatch", Sequence[Sequence[str]]], Iterable]
    # Each row starts from the final state of the same row in the batch before.
    carry_state: bool = False
    start: StartState | None = None  # of each sentence, unless the state is carried; None: zeros
    rows: int = 0  # sentences in a batch; 0: the batch size
    read_final_marker: bool = False  # by each direction, which in pretraining only predicts it
    tf32: bool = True  # on GPUs that have it; False: full float32, for scores


@dataclass
class EncodedBatch:
    """Layers of a batch of sentences, packed, which it returns as tensors or as arrays."""

    layers: list[Sequence[paddle.Tensor]]  # each forward and backward (M, P)
    packing: Packing
    n_tokens: np.ndarray  # (B,)

    def tensors(self, pool: str | None) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Return layers (B, T, 2P), 0 at padding, or pooled ones, and the mask (B, T)."""
        forward_indices, backward_indices, mask = self.packing.token_indices(self.n_tokens)
        n_rows, n_steps = mask.shape
        mask = to_tensor(mask).astype(self.layers[0][0].dtype)
        forward_indices = to_tensor(forward_indices.ravel())
        backward_indices = to_tensor(backward_indices.ravel())
        layers = []
        for forward, backward in self.layers:
            halves = [
                paddle.gather(forward, forward_indices),
                paddle.gather(backward, backward_indices),
            ]
            layer = paddle.concat(halves, axis=1)  # (B * T, 2P)
            layers.append(layer.reshape([n_rows, n_steps, -1]) * mask.unsqueeze(-1))
        if pool:
            layers = [pool_tensor(layer, mask, pool) for layer in layers]
        return layers, mask

    def arrays(
        self, dtype: str, pool: str | None, weights: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Return each sentence's array (layers, n, 2P), or pooled (layers, 1, `pooled_dim`).

        weights: of each sentence, see `pool_array`.
        """
        forward, backward, _ = self.packing.token_indices(self.n_tokens)
        layers = [
            (paddle_compat.to_array(left), paddle_compat.to_array(right))
            for left, right in self.layers
        ]
        half = layers[0][0].shape[1]
        arrays = []
        for row, n in enumerate(self.n_tokens.tolist()):
            array = np.empty((len(layers), n, 2 * half), np.float32 if pool else dtype)
            for layer, (left, right) in zip(array, layers, strict=True):
                layer[:, :half] = left[forward[row, :n]]
                layer[:, half:] = right[backward[row, :n]]
            if pool:
                of_tokens = weights[row] if weights else None
                array = pool_array(array, pool, of_tokens).astype(dtype, copy=False)
            arrays.append(array)
        return arrays


def _scaled(layer: paddle.Tensor, weight: float) -> paddle.Tensor:
    return layer if weight == 1 else layer * weight


def layer_choice(layers: Layers, n_layers: int, allowed: Sequence[str]) -> LayerChoice:
    """Parse a choice of layers.

    Forms: all | concat | mix | average | top | a number | "0,1" | [0, 1] | "concat:0,1" | "mix:0,1"
    | weights of a sum, one per layer. Negative numbers count from the top layer, -1.
    allowed: values of LayerChoice.how.
    """
    choice = _parse(layers, n_layers)
    if choice and choice.how in allowed:
        return choice
    forms = {
        "each": "'all', several as in '0,1'",
        "concat": "'concat', 'concat:0,1'",
        "trained_sum": "'mix', 'mix:0,1'",
    }
    expected = [text for how, text in forms.items() if how in allowed]
    if not isinstance(layers, str) and "each" in allowed:
        expected.append(
            f"{n_layers} weights with decimal points, as in {[1.0] + [0.0] * (n_layers - 1)}"
        )
    raise UserError(
        f"layers={layers!r:.99}: expected {', '.join(expected)}, 'average', 'top', "
        f"or 0 to {n_layers - 1}."
    )


def _parse(layers: Layers, n_layers: int) -> LayerChoice | None:
    """Return the choice; None if this is none."""
    if isinstance(layers, str):
        return _parse_text(layers, n_layers)
    if _is_whole(layers):
        return _one_layer(int(layers), n_layers)
    if not isinstance(layers, list | tuple | np.ndarray) or not len(layers):
        return None
    if all(_is_whole(index) for index in layers):
        return _several_layers("each", [int(index) for index in layers], n_layers)
    are_numbers = all(
        isinstance(weight, int | float | np.floating) and np.isfinite(weight) for weight in layers
    )
    if not are_numbers or len(layers) != n_layers:
        return None
    return _weighted_sum([float(weight) for weight in layers])


def _parse_text(text: str, n_layers: int) -> LayerChoice | None:
    if text == "all":
        return LayerChoice("each", list(range(n_layers)))
    if text in COMBINATIONS:
        return LayerChoice(COMBINATIONS[text], list(range(n_layers)))
    if text == "average":
        return _weighted_sum([1 / n_layers] * n_layers)
    if text == "top":
        return _one_layer(-1, n_layers)
    combination, _, numbers = text.rpartition(":")
    if not INDICES.fullmatch(numbers):
        return None
    indices = [int(index) for index in numbers.split(",")]
    if combination in COMBINATIONS:
        return _several_layers(COMBINATIONS[combination], indices, n_layers)
    if combination:
        return None
    if len(indices) == 1:
        return _one_layer(indices[0], n_layers)
    return _several_layers("each", indices, n_layers)


def _several_layers(how: str, indices: list[int], n_layers: int) -> LayerChoice | None:
    """Return a choice of layers, -1 for the top; None if one does not exist.

    Also None if one is named twice, as in [1, 0, 0], which may be meant as weights.
    """
    indices = [index + n_layers if index < 0 else index for index in indices]
    are_there = all(0 <= index < n_layers for index in indices)
    if not are_there or len(set(indices)) < len(indices):
        return None
    return LayerChoice(how, indices)


def _one_layer(index: int, n_layers: int) -> LayerChoice | None:
    """Return a layer as a sum, so that it has no axis of layers; None if it does not exist."""
    if not -n_layers <= index < n_layers:
        return None
    weights = [0.0] * n_layers
    weights[index] = 1.0
    return _weighted_sum(weights)


def _weighted_sum(weights: list[float]) -> LayerChoice:
    return LayerChoice("sum", [index for index, weight in enumerate(weights) if weight], weights)


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
