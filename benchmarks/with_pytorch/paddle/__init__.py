"""PyTorch in the place of Paddle, for `run_pretrain.py` and `run_eval.py`.

    PYTHONPATH=benchmarks/with_pytorch python run_pretrain.py --train_data_path=...

It has what these scripts use of Paddle, for machines for which no build of Paddle is at hand. The
compiled loops for CPUs need Paddle's libraries and do not run; the LSTM's kernels for GPUs do.
docs/scale.md tells what was compared.
"""

import contextlib
from collections.abc import Sequence
from types import SimpleNamespace

import torch

from paddle import functions, nn, tensors, updates
from paddle.tensors import Current, Place, torch_dtype

Tensor = torch.Tensor
dtype = tensors.Dtype
float32 = tensors.DTYPES[torch.float32]
float64 = tensors.DTYPES[torch.float64]
bfloat16 = tensors.DTYPES[torch.bfloat16]


# Tensors


def full(shape: Sequence[int], value: float, dtype: str = "float32") -> Tensor:
    return torch.full(shape, value, dtype=torch_dtype(dtype), device=Current.device)


def empty(shape: Sequence[int], dtype: str = "float32") -> Tensor:
    return torch.empty(shape, dtype=torch_dtype(dtype), device=Current.device)


def zeros(shape: Sequence[int], dtype: str = "float32") -> Tensor:
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: str = "float32") -> Tensor:
    return full(shape, 1, dtype)


def randn(shape: Sequence[int]) -> Tensor:
    return torch.randn(shape, device=Current.device)


def arange(start: int, end: int, step: int, dtype: str) -> Tensor:
    return torch.arange(start, end, step, dtype=torch_dtype(dtype), device=Current.device)


to_tensor = tensors.to_tensor


def as_strided(x: Tensor, shape: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """offset: in bytes."""
    return torch.as_strided(x, shape, stride, offset // x.element_size())


def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    return torch.cat(tensors, axis)


def gather(x: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    return torch.index_select(x, axis, index)


def scatter_(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    return x.index_copy_(0, index.long(), rows)


def take_along_axis(x: Tensor, index: Tensor, axis: int) -> Tensor:
    return torch.take_along_dim(x, index.long(), axis)


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    left = x.mT if transpose_x else x
    right = y.mT if transpose_y else y
    return left @ right


full_like = torch.full_like
maximum = torch.maximum
sqrt = torch.sqrt
stack = torch.stack
tanh = torch.tanh
grad = torch.autograd.grad
enable_grad = torch.enable_grad
no_grad = torch.no_grad
is_grad_enabled = torch.is_grad_enabled
set_grad_enabled = torch.set_grad_enabled
seed = torch.manual_seed  # of the GPUs, too


# Devices


def CPUPlace() -> Place:
    return tensors.place_of(torch.device("cpu"))


set_device = tensors.set_device


def get_device() -> str:
    return Current.name


def allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def tf32_allowed() -> bool:
    return torch.backends.cuda.matmul.allow_tf32


def current_stream(_: int) -> torch.cuda.Stream:
    return torch.cuda.current_stream()


is_compiled_with_cuda = torch.cuda.is_available
device = SimpleNamespace(cuda=torch.cuda)
base = SimpleNamespace(
    core=SimpleNamespace(
        get_cublas_switch=tf32_allowed,
        set_cublas_switch=allow_tf32,
        _get_current_stream=current_stream,
    ),
    framework=SimpleNamespace(EagerParamBase=nn.Parameter),
)


# Layers and optimizers

ParamAttr = nn.ParamAttr
autograd = SimpleNamespace(PyLayer=functions.PyLayer)
optimizer = SimpleNamespace(Adam=updates.Adam)
_C_ops = updates


# What the scripts name and PyTorch does without


def unchanged(function):
    return function


def no_auto_cast(enable: bool) -> contextlib.nullcontext:
    return contextlib.nullcontext()


LazyGuard = contextlib.nullcontext
amp = SimpleNamespace(auto_cast=no_auto_cast)
jit = SimpleNamespace(not_to_static=unchanged)
static = None
tensor = SimpleNamespace(array=None)
