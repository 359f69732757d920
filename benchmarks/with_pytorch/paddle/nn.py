"""Layers, with Paddle's initial values."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import torch

from paddle.tensors import Current

Initializer = Callable[[torch.Tensor], None]


class Parameter(torch.nn.Parameter):
    """A weight. optimize_attr: its factor on the learning rate."""

    optimize_attr: dict[str, float]

    @property
    def size(self) -> int:
        return self.numel()


class ParamAttr:
    """How a weight is made."""

    def __init__(self, initializer: Initializer):
        self.initializer = initializer


def constant(value: float) -> Initializer:
    return lambda weight: torch.nn.init.constant_(weight, value)


def normal(mean: float = 0.0, std: float = 1.0) -> Initializer:
    return lambda weight: torch.nn.init.normal_(weight, mean, std)


def uniform(low: float, high: float) -> Initializer:
    return lambda weight: torch.nn.init.uniform_(weight, low, high)


def xavier_uniform() -> Initializer:
    def initialise(weight: torch.Tensor) -> None:
        limit = (6 / sum(weight.shape)) ** 0.5
        torch.nn.init.uniform_(weight, -limit, limit)

    return initialise


def new_parameter(shape: Sequence[int], attr: ParamAttr | Initializer | None) -> Parameter:
    """Make a weight; zeros without an initializer."""
    weight = Parameter(torch.zeros(shape, device=Current.device))
    initializer = attr.initializer if isinstance(attr, ParamAttr) else attr
    if initializer:
        initializer(weight)
    weight.optimize_attr = {"learning_rate": 1.0}
    return weight


class Layer(torch.nn.Module):
    """A layer, whose weights are listed and named as Paddle does."""

    def create_parameter(
        self,
        shape: Sequence[int],
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> Parameter:
        return new_parameter(shape, default_initializer)

    def parameters(self) -> list[Parameter]:
        return list(super().parameters())

    def state_dict(self) -> dict[str, Parameter]:
        return dict(self.named_parameters())


class Linear(Layer):
    """x W + b, with the weight (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int, weight_attr=None, bias_attr=None):
        super().__init__()
        self.weight = new_parameter([inputs, outputs], weight_attr)
        self.bias = new_parameter([outputs], bias_attr)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class Embedding(Layer):
    """Rows of a table (n, width)."""

    def __init__(self, n: int, width: int, weight_attr=None):
        super().__init__()
        self.weight = new_parameter([n, width], weight_attr)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(ids, self.weight)


def pad(x: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """Pad with zeros. widths: before and after, from the first axis to the last."""
    pairs: Iterator[tuple[int, int]] = zip(widths[::2], widths[1::2], strict=True)
    from_last = []
    for before, after in reversed(list(pairs)):
        from_last += [before, after]
    return torch.nn.functional.pad(x, from_last)


def log_softmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.log_softmax(x, axis)


Identity = torch.nn.Identity
LayerList = torch.nn.ModuleList
initializer = SimpleNamespace(
    Constant=constant, Normal=normal, Uniform=uniform, XavierUniform=xavier_uniform
)
functional = SimpleNamespace(
    dropout=torch.nn.functional.dropout,
    log_softmax=log_softmax,
    pad=pad,
    relu=torch.relu,
    sigmoid=torch.sigmoid,
)
