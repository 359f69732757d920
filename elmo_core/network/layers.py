"""The layers of a biLM that are returned: how they are chosen, and what a batch of them is returned as.

Shapes: B rows, T steps, P projection size, M = sum of all row lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError
from elmo_core.network.lstmp import Packing

Layers = str | int | Sequence[float]  # see `layer_choice`


@dataclass(frozen=True)
class LayerChoice:
    """The layers that are returned, and how: "each", "concat", "mix" (trained weights) or "sum" (fixed weights)."""

    how: str
    indices: list[int]
    weights: list[float] | None = None  # of a sum, one per layer of the biLM
    tf32: bool = True  # on GPUs that have it; False: full float32, for scores
    boundaries: bool = False  # include the vectors of `<S>` and `</S>`

    @property
    def n_layers(self) -> int:
        """Number of layers that `select` returns."""
        return 1 if self.how == "sum" else len(self.indices)

    @property
    def max_layer(self) -> int:
        """The last layer that has to be computed."""
        return max(self.indices, default=0)

    def select(self, layers: Sequence[Sequence[paddle.Tensor]]) -> list[Sequence[paddle.Tensor]]:
        """Return the chosen layers of the biLM, each (forward, backward), or their sum."""
        if self.how != "sum":
            return [layers[index] for index in self.indices]
        pairs = [(self.weights[index], layers[index]) for index in self.indices] or [(0.0, layers[0])]  # all weights 0
        terms = [[side if weight == 1 else side * weight for side in layer] for weight, layer in pairs]
        return [[sum(sides[1:], sides[0]) for sides in zip(*terms, strict=True)]]


@dataclass
class EncodedBatch:
    """Layers of a batch of sentences, packed, which it returns as tensors or as arrays."""

    layers: list[Sequence[paddle.Tensor]]  # each forward and backward (M, P)
    packing: Packing
    n_tokens: np.ndarray  # (B,)
    first: int  # step of the first token: 1, or 0 if the markers are tokens, too

    def tensors(self, pooled: bool) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Each layer (B, T, 2P), zero at padding, or its means (B, 2P), and the mask (B, T)."""
        *indices, mask = self.packing.token_indices(self.n_tokens, self.first)
        mask = to_tensor(mask).astype(self.layers[0][0].dtype)
        if pooled:
            tokens = np.flatnonzero(self.packing.step >= self.first)
            rows = self.packing.row[tokens]
            weights = np.zeros((len(self.n_tokens), len(self.packing.row)), np.float32)  # (B, M)
            weights[rows, tokens] = 1 / np.maximum(self.n_tokens, 1)[rows]
            weights = to_tensor(weights)
            return [paddle.concat([weights @ side for side in pair], axis=1) for pair in self.layers], mask
        indices, layers = [to_tensor(index.ravel()) for index in indices], []
        for pair in self.layers:
            layer = paddle.concat([paddle.gather(x, index) for x, index in zip(pair, indices, strict=True)], axis=1)
            layers.append(layer.reshape([*mask.shape, -1]) * mask.unsqueeze(-1))
        return layers, mask

    def arrays(self, dtype: str, pool: str | None) -> list[np.ndarray]:
        """Each sentence's array (layers, n, 2P), with n = 1 if pooled."""
        forward, backward, _ = self.packing.token_indices(self.n_tokens, self.first)
        layers = [[versions.to_array(side) for side in pair] for pair in self.layers]
        arrays, half = [], layers[0][0].shape[1]
        for row, n in enumerate(self.n_tokens.tolist()):
            array = np.empty((len(layers), n, 2 * half), np.float32 if pool else dtype)
            for layer, (left, right) in zip(array, layers, strict=True):
                layer[:, :half] = left[forward[row, :n]]
                layer[:, half:] = right[backward[row, :n]]
            if pool:  # zeros without tokens
                array = (getattr(array, pool) if n else array.sum)(axis=1, keepdims=True).astype(dtype, copy=False)
            arrays.append(array)
        return arrays


def layer_choice(layers: Layers, n_layers: int, allowed: Sequence[str]) -> LayerChoice:
    """Parse all | concat | mix | average | top | a number | "0,1" | [0, 1] | "concat:0,1" | "mix:0,1" | weights of a sum.

    Negative numbers count from the top layer, -1. allowed: values of LayerChoice.how.
    """
    all_layers, choice, text = list(range(n_layers)), None, layers
    items = [layers] if isinstance(layers, int | np.integer) else layers
    if isinstance(items, list | tuple | np.ndarray) and all(_is_whole(item) for item in items):
        numbers = [int(k) + n_layers * (k < 0) for k in items]
        if len(set(numbers)) == len(numbers):  # otherwise weights may be meant, as [1, 0, 0]
            text = "each:" * (items is layers) + ",".join(map(str, numbers))
    if isinstance(text, str):
        name, _, numbers = text.rpartition(":")
        indices = [int(n) for n in numbers.split(",") if n.isdecimal() and len(n) < 4 and int(n) < n_layers]
        if name in ("", "each", "concat", "mix") and len(indices) == len(numbers.split(",")):
            if not name and len(indices) == 1:
                choice = _weighted_sum([float(k in indices) for k in all_layers])
            else:
                choice = LayerChoice(name or "each", indices)
        elif text in ("all", "concat", "mix"):
            choice = LayerChoice("each" if text == "all" else text, all_layers)
        elif text in ("top", "average"):
            choice = _weighted_sum([float(k == n_layers - 1) if text == "top" else 1 / n_layers for k in all_layers])
    elif isinstance(layers, list | tuple | np.ndarray) and len(layers) == n_layers:
        are_numbers = all(isinstance(weight, int | float | np.floating) and np.isfinite(weight) for weight in layers)
        if are_numbers and not all(map(_is_whole, layers)):
            choice = _weighted_sum(list(map(float, layers)))
    if choice and choice.how in allowed:
        return choice
    forms = {"each": "'all', several as in [0, 1]", "concat": "'concat', 'concat:0,1'", "mix": "'mix', 'mix:0,1'"}
    expected = [text for how, text in forms.items() if how in allowed]
    if not isinstance(layers, str):
        expected.append(f"{n_layers} weights with decimal points, as in {[1.0] + [0.0] * (n_layers - 1)}")
    raise UserError(
        f"layers={layers!r:.200}: expected {', '.join(expected)}, 'average', 'top', or 0 to {n_layers - 1}."
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _weighted_sum(weights: list[float]) -> LayerChoice:
    return LayerChoice("sum", [index for index, weight in enumerate(weights) if weight], weights)
