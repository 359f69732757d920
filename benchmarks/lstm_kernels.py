"""The kernels of the LSTM on a GPU without Paddle.

    python benchmarks/lstm_kernels.py          (needs PyTorch and a GPU)

PyTorch takes Paddle's place for memory, products and autograd: elmo_core/kernels/gpu_lstm.py itself
runs, where `paddle` is a few functions of PyTorch. So it works on cards for which no build of
Paddle is at hand. It prints the agreement with float64, and the time of a layer, which says nothing
of training.
"""

import contextlib
import itertools
import statistics
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from elmo_core.config import ELMoConfig

SIZES = {"small": (128, 1024), "original": (512, 4096)}  # P, H
STEPS = 20
PRECISIONS = ("float32", "tf32", "bfloat16")


class State:
    """What Paddle's stand-ins remember."""

    precision = "float32"  # of products, one of PRECISIONS
    indices: ClassVar[dict[bytes, torch.Tensor]] = {}  # on the GPU


# Stand-ins for Paddle


class PyLayer:
    """Paddle's base class of autograd functions with own gradients.

    The first three arguments are not tensors.
    """

    def __init_subclass__(cls):
        def backward(ctx, *gradients):
            return None, None, None, *cls.backward(ctx, *gradients)

        methods = {"forward": staticmethod(cls.forward), "backward": staticmethod(backward)}
        cls.apply = type(cls.__name__, (torch.autograd.Function,), methods).apply


def to_tensor(array: np.ndarray, stop_gradient: bool = True) -> torch.Tensor:
    if array.dtype == np.float32:
        return torch.from_numpy(array).cuda().requires_grad_(not stop_gradient)
    key = array.tobytes()  # indices, once: a CUDA graph cannot capture the upload
    if key not in State.indices:
        State.indices[key] = torch.from_numpy(array).cuda()
    return State.indices[key]


def operand(x: torch.Tensor) -> torch.Tensor:
    if State.precision == "bfloat16" and x.dtype == torch.float32:
        return x.bfloat16()
    return x


def matmul(
    x: torch.Tensor, y: torch.Tensor, transpose_x: bool = False, transpose_y: bool = False
) -> torch.Tensor:
    left = operand(x)
    right = operand(y)
    if transpose_x:
        left = left.mT
    if transpose_y:
        right = right.mT
    product = left @ right
    return product.float() if product.dtype == torch.bfloat16 else product


@contextlib.contextmanager
def precision(name: str):
    before = State.precision
    State.precision = name
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    yield
    State.precision = before
    torch.backends.cuda.matmul.allow_tf32 = before == "tf32"


def stand_in(name: str, **values) -> None:
    module = types.ModuleType(name)
    for key, value in values.items():
        setattr(module, key, value)
    sys.modules[name] = module


def import_gpu_lstm():
    """Import elmo_core.kernels.gpu_lstm with PyTorch in the place of Paddle."""
    paddle = types.SimpleNamespace(
        autograd=types.SimpleNamespace(PyLayer=PyLayer),
        Tensor=torch.Tensor,
        to_tensor=to_tensor,
        empty=lambda shape, dtype: torch.empty(shape, dtype=dtype, device="cuda"),
        ones=lambda shape, dtype: torch.ones(shape, dtype=dtype, device="cuda"),
        concat=lambda tensors, axis: torch.cat(tensors, axis),
        gather=lambda x, index, axis: torch.index_select(x, axis, index),
        matmul=torch.matmul,
        stack=torch.stack,
        grad=torch.autograd.grad,
        enable_grad=torch.enable_grad,
    )
    compat = types.SimpleNamespace(
        current_stream=lambda _: torch.cuda.current_stream().cuda_stream,
        tf32_allowed=lambda _: State.precision == "tf32",
        capability=lambda _, device: torch.cuda.get_device_capability(),
    )
    stand_in(
        "elmo_core.kernels.precision",
        current=lambda: State.precision,
        temporarily=precision,
        only=precision,
        bfloat16_enabled=lambda: State.precision == "bfloat16",
    )
    stand_in("elmo_core.machine", paddle_compat=compat, __path__=[])
    stand_in("elmo_core.machine.runtime", paddle=paddle, to_tensor=to_tensor)
    stand_in("elmo_core.kernels.matmul", amp_matmul=matmul, amp_operand=operand)
    torch.Tensor.stop_gradient = property(lambda tensor: not tensor.requires_grad)
    to_numpy = torch.Tensor.numpy
    torch.Tensor.numpy = lambda tensor: to_numpy(tensor.detach().cpu())
    from elmo_core.kernels import gpu_lstm

    return gpu_lstm


def equations(
    config, batch_sizes, x, h, c, input_weight, recurrent_weight, bias, projection_weight
):
    """`equations` of lstmp.py with PyTorch's operators, in the dtype of the arguments."""
    gate_inputs = (matmul(x, input_weight) + bias).split(batch_sizes)
    outputs = []
    ended_h = []
    ended_c = []
    for n, gate_input in zip(batch_sizes, gate_inputs, strict=True):
        if n < len(h):  # the rows behind have ended
            ended_h.insert(0, h[n:])
            ended_c.insert(0, c[n:])
            h = h[:n]
            c = c[:n]
        i, j, f, o = (gate_input + matmul(h, recurrent_weight)).chunk(4, dim=1)
        c = clip((f + config.forget_bias).sigmoid() * c + i.sigmoid() * j.tanh(), config.cell_clip)
        h = clip(matmul(o.sigmoid() * c.tanh(), projection_weight), config.proj_clip)
        outputs.append(h)
    return torch.cat(outputs), torch.cat([h, *ended_h]), torch.cat([c, *ended_c])


def clip(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x.clamp(-limit, limit) if limit else x


# Measurements


def median_ms(work: Callable, n: int = 20) -> float:
    times = []
    for _ in range(n + 3):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[3:])


def graph_ms(work: Callable) -> float:
    """GPU time alone: that of a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return median_ms(graph.replay)


class LayerInputs(NamedTuple):
    """What a layer reads in both directions, and factors of its outputs in the loss."""

    batch_sizes: list[int]
    directions: list[list[torch.Tensor]]
    factors: list[torch.Tensor]


def layer_inputs(P: int, H: int, lengths: list[int]) -> LayerInputs:
    """Random inputs for sentences of these lengths, longest first."""
    batch_sizes = []
    for step in range(max(lengths)):
        active = [length for length in lengths if length > step]
        batch_sizes.append(len(active))
    M = sum(batch_sizes)
    B = len(lengths)
    generator = torch.Generator().manual_seed(M)

    def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * scale).cuda()

    def one_direction() -> list[torch.Tensor]:
        return [
            random(M, P),
            random(B, P),
            random(B, H),
            random(P, 4 * H, scale=P**-0.5),
            random(P, 4 * H, scale=P**-0.5),
            random(4 * H),
            random(H, P, scale=2 * H**-0.5),
        ]

    directions = [one_direction() for _ in range(2)]
    shapes = [(M, P), (B, P), (B, H)]  # of the outputs of a direction
    factors = [random(*shape) for shape in shapes + shapes]
    return LayerInputs(batch_sizes, directions, factors)


def results(
    run: Callable, config: ELMoConfig, inputs: LayerInputs, dtype: torch.dtype
) -> list[torch.Tensor]:
    """Outputs and all gradients."""
    directions = []
    leaves = []
    for tensors in inputs.directions:
        converted = [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]
        directions.append(converted)
        leaves.extend(converted)
    outputs = []
    for of_direction in run(config, inputs.batch_sizes, directions):
        outputs.extend(of_direction)
    factors = [factor.to(dtype) for factor in inputs.factors]
    gradients = torch.autograd.grad(outputs, leaves, factors)
    return [output.detach() for output in outputs] + list(gradients)


def agreement(runs: dict[str, Callable]) -> None:
    print(
        "\nlargest difference from float64, as a share of the largest value, "
        "over 6 outputs and 14 gradients"
    )
    random = np.random.default_rng(0)
    cases = [
        ((5, 7), [4, 0, 2, 6, 1, 4]),
        (SIZES["small"], random.integers(21, size=48)),
        (SIZES["small"], [STEPS] * 128),
        (SIZES["original"], random.integers(13, size=24)),
        (SIZES["original"], [STEPS] * 128),
    ]
    for (P, H), lengths in cases:
        for cell_clip, proj_clip in ((0.5, 0.3), (0.0, 0.0)):
            config = ELMoConfig(
                projection_dim=P, cell_dim=H, cell_clip=cell_clip, proj_clip=proj_clip
            )
            inputs = layer_inputs(P, H, sorted((int(n) for n in lengths), reverse=True))
            exact = results(runs["operators"], config, inputs, torch.float64)
            found = []
            for name, run in runs.items():
                values = results(run, config, inputs, torch.float32)
                found.append(f"{name} {largest_difference(values, exact):.1e}")
            print(
                f"P {P:3} H {H:4}, {len(lengths):3} rows, clips {cell_clip} {proj_clip}: "
                f"{', '.join(found)}",
                flush=True,
            )


def largest_difference(values: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The largest difference, as a share of the largest value of its tensor."""
    shares = []
    for value, expected in zip(values, exact, strict=True):
        shares.append(float((value.double() - expected).abs().max() / expected.abs().max()))
    return max(shares)


def layer_times(runs: dict[str, Callable]) -> None:
    print("\nGPU milliseconds of a layer, both directions, forward and backward")
    for name, rows, kind in itertools.product(SIZES, (128, 512), PRECISIONS):
        P, H = SIZES[name]
        inputs = layer_inputs(P, H, [STEPS] * rows)
        config = ELMoConfig(projection_dim=P, cell_dim=H)
        times = []
        with precision(kind):
            for what, run in runs.items():
                work = partial(results, run, config, inputs, torch.float32)
                times.append(f"{what} {graph_ms(work):.2f}")
        print(f"{name:8} {rows} rows {kind:8} {', '.join(times)}", flush=True)
        torch.cuda.empty_cache()


def main() -> None:
    gpu_lstm = import_gpu_lstm()
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    launch = gpu_lstm.kernels("gpu:0", equations)
    runs = {"kernels": partial(gpu_lstm.run_directions, launch), "operators": run_operators}
    agreement(runs)
    layer_times(runs)


def run_operators(
    config: ELMoConfig, batch_sizes: list[int], directions: list[list[torch.Tensor]]
) -> list[tuple]:
    """Both directions of a layer by `equations`."""
    return [equations(config, batch_sizes, *tensors) for tensors in directions]


if __name__ == "__main__":
    main()
