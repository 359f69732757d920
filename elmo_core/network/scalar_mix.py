"""A trained mix of ELMo's layers (Peters et al. 2018, section 3.2)."""

from collections.abc import Sequence

from elmo_core.checks import check_number
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, format_count

nn = paddle.nn


class ScalarMix(nn.Layer):
    """gamma * sum_j softmax(s)_j h_j, with optional layer normalisation over unmasked tokens."""

    def __init__(self, n_layers: int, layer_norm: bool = False):
        super().__init__()
        check_number("n_layers", n_layers, 1, integer=True)
        self.layer_norm = layer_norm
        zero = nn.initializer.Constant(0.0)
        one = nn.initializer.Constant(1.0)
        self.scalars = self.create_parameter([n_layers], default_initializer=zero)
        self.gamma = self.create_parameter([1], default_initializer=one)

    def forward(
        self, layers: Sequence[paddle.Tensor], mask: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """Mix the layers, each (..., D).

        mask: (...), 1 for tokens, 0 for padding; used only by the layer norm.
        """
        n_layers = self.scalars.shape[0]
        if len(layers) != n_layers:
            found = format_count(len(layers), "layers")
            raise UserError(f"ScalarMix: found {found}, expected {n_layers}.")
        if 0 in layers[0].shape:  # older Paddle cannot add empty tensors
            return layers[0]
        if self.layer_norm:
            layers = [_masked_layer_norm(layer, mask) for layer in layers]
        weights = nn.functional.softmax(self.scalars, axis=0)
        return self.gamma * sum(weights[j] * layer for j, layer in enumerate(layers))


def _masked_layer_norm(layer: paddle.Tensor, mask: paddle.Tensor | None) -> paddle.Tensor:
    """Normalise to zero mean and unit variance over all features of all unmasked tokens."""
    if mask is None:
        mask = paddle.ones(layer.shape[:-1], layer.dtype)
    mask = mask.astype(layer.dtype).unsqueeze(-1)
    count = mask.sum() * layer.shape[-1]
    mean = (layer * mask).sum() / count
    variance = (((layer - mean) * mask) ** 2).sum() / count
    return (layer - mean) / paddle.sqrt(variance + 1e-12)
