"""Tensors of PyTorch with the attributes and methods of Paddle's.

They are set in PyTorch's own class, for the whole process: a subclass would make each operator
slower.
"""

import functools
from collections.abc import Sequence

import numpy as np
import torch


class Dtype(str):
    """A type as Paddle writes it, such as paddle.float32."""

    is_complex = False  # PyTorch's autograd asks

    @property
    def is_floating_point(self) -> bool:
        return "float" in self


TORCH_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
DTYPES = {dtype: Dtype(f"paddle.{name}") for name, dtype in TORCH_DTYPES.items()}


def torch_dtype(dtype: str | None) -> torch.dtype | None:
    """PyTorch's type, from a name with or without Paddle's."""
    return None if dtype is None else TORCH_DTYPES[dtype.removeprefix("paddle.")]


class Place:
    """Where a tensor is."""

    def __init__(self, device: torch.device):
        self.device = device

    def __repr__(self) -> str:
        return "Place(gpu)" if self.is_gpu_place() else "Place(cpu)"

    def is_cpu_place(self) -> bool:
        return self.device.type == "cpu"

    def is_gpu_place(self) -> bool:
        return self.device.type == "cuda"


place_of = functools.cache(Place)  # of a device


class Current:
    """The device that `set_device` has chosen."""

    name = "cpu"  # as Paddle writes it
    device = torch.device("cpu")


def set_device(name: str) -> None:
    kind, _, number = name.partition(":")
    if kind == "cpu":
        Current.name = "cpu"
        Current.device = torch.device("cpu")
        return
    index = int(number or 0)
    Current.name = f"gpu:{index}"
    Current.device = torch.device("cuda", index)
    torch.cuda.set_device(index)


def to_tensor(
    data: np.ndarray | Sequence[float],
    dtype: str | None = None,
    place: Place | None = None,
    stop_gradient: bool = True,
) -> torch.Tensor:
    """Copy data to a place; None: the current device."""
    device = place.device if place else Current.device
    tensor = torch.tensor(data, dtype=torch_dtype(dtype), device=device)
    return tensor.requires_grad_(not stop_gradient)


# Methods, with the names and arguments of Paddle's

_dtype = torch.Tensor.dtype
_cuda = torch.Tensor.cuda
_index_add_ = torch.Tensor.index_add_
_numpy = torch.Tensor.numpy
_split = torch.Tensor.split
_sum = torch.Tensor.sum


def _get_dtype(self: torch.Tensor) -> Dtype:
    return DTYPES[_dtype.__get__(self)]


def _get_place(self: torch.Tensor) -> Place:
    return place_of(self.device)


def _get_stop_gradient(self: torch.Tensor) -> bool:
    return not self.requires_grad


def _set_stop_gradient(self: torch.Tensor, value: bool) -> None:
    self.requires_grad_(not value)


def astype(self: torch.Tensor, dtype: str) -> torch.Tensor:
    return self.to(torch_dtype(dtype))


def backward(self: torch.Tensor) -> None:
    torch.autograd.backward(self, torch.ones_like(self))


def clear_gradient(self: torch.Tensor, set_to_zero: bool) -> None:
    """Free the gradient."""
    self.grad = None


def cuda(self: torch.Tensor, blocking: bool = True) -> torch.Tensor:
    return _cuda(self, Current.device, non_blocking=not blocking)


def index_add_(
    self: torch.Tensor, index: torch.Tensor, axis: int, value: torch.Tensor
) -> torch.Tensor:
    return _index_add_(self, axis, index, value)


def largest(self: torch.Tensor, axis: int | None = None, keepdim: bool = False) -> torch.Tensor:
    return self.amax() if axis is None else self.amax(axis, keepdim)


def numpy(self: torch.Tensor) -> np.ndarray:
    """A copy."""
    return _numpy(self.detach().cpu()).copy()


def set_value(self: torch.Tensor, value: np.ndarray | torch.Tensor) -> None:
    with torch.no_grad():
        self.copy_(torch.as_tensor(value))


def split(
    self: torch.Tensor, parts: int | Sequence[int], axis: int = 0
) -> tuple[torch.Tensor, ...]:
    """Split into so many equal parts, or into parts of these sizes."""
    sizes = self.shape[axis] // parts if isinstance(parts, int) else parts
    return _split(self, sizes, axis)


def total(
    self: torch.Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    keepdim: bool = False,
) -> torch.Tensor:
    return _sum(self, axis, keepdim, dtype=torch_dtype(dtype))


METHODS = {
    "dtype": property(_get_dtype),
    "place": property(_get_place),
    "stop_gradient": property(_get_stop_gradient, _set_stop_gradient),
    "inplace_version": property(lambda self: self._version),
    "_bump_inplace_version": torch.autograd.graph.increment_version,
    "_is_initialized": lambda self: True,
    "astype": astype,
    "backward": backward,
    "clear_gradient": clear_gradient,
    "cuda": cuda,
    "index_add_": index_add_,
    "max": largest,
    "numpy": numpy,
    "scale_": torch.Tensor.mul_,
    "set_value": set_value,
    "split": split,
    "sum": total,
}
for _name, _method in METHODS.items():
    setattr(torch.Tensor, _name, _method)
