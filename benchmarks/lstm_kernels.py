"""The kernels of the LSTM on a GPU without Paddle: PyTorch takes its place for memory, products and autograd.

    python benchmarks/lstm_kernels.py          (needs PyTorch and a GPU)

It runs elmo_core/kernels/gpu_lstm.py itself, where `paddle` is a few functions of PyTorch, so it works on cards for which no
build of Paddle is at hand. It prints the agreement with float64, and the time of a layer, which says nothing of training.
"""

import contextlib
import statistics
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from elmo_core.config import ELMoConfig

SIZES = {"small": (128, 1024), "original": (512, 4096)}  # P, H
STEPS, PRECISIONS = 20, ("float32", "tf32", "bfloat16")
_precision, _indices = ["float32"], {}


# Stand-ins for Paddle


class PyLayer:
    """Paddle's base class of autograd functions with own gradients: the first three arguments are not tensors."""

    def __init_subclass__(cls):
        def backward(ctx, *gradients):
            return None, None, None, *cls.backward(ctx, *gradients)

        methods = {"forward": staticmethod(cls.forward), "backward": staticmethod(backward)}
        cls.apply = type(cls.__name__, (torch.autograd.Function,), methods).apply


def to_tensor(array: np.ndarray, stop_gradient: bool = True) -> torch.Tensor:
    if array.dtype == np.float32:
        return torch.from_numpy(array).cuda().requires_grad_(not stop_gradient)
    key = array.tobytes()  # indices, once: a CUDA graph cannot capture the upload
    if key not in _indices:
        _indices[key] = torch.from_numpy(array).cuda()
    return _indices[key]


def operand(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16() if _precision[0] == "bfloat16" and x.dtype == torch.float32 else x


def matmul(
    x: torch.Tensor, y: torch.Tensor, transpose_x: bool = False, transpose_y: bool = False
) -> torch.Tensor:
    x, y = (
        operand(z).mT if turned else operand(z)
        for z, turned in ((x, transpose_x), (y, transpose_y))
    )
    return (x @ y).float() if x.dtype == torch.bfloat16 else x @ y


@contextlib.contextmanager
def precision(name: str):
    before, _precision[0] = _precision[0], name
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    yield
    _precision[0] = before
    torch.backends.cuda.matmul.allow_tf32 = before == "tf32"


def stand_in(name: str, **values) -> None:
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(values)


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
        tf32_allowed=lambda _: _precision[0] == "tf32",
        capability=lambda _, device: torch.cuda.get_device_capability(),
    )
    stand_in(
        "elmo_core.kernels.precision",
        current=lambda: _precision[0],
        temporarily=precision,
        only=precision,
        bfloat16_enabled=lambda: _precision[0] == "bfloat16",
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
    outputs, ended = [], []
    for n, gate_input in zip(batch_sizes, gate_inputs, strict=True):
        if n < len(h):
            ended.insert(0, (h[n:], c[n:]))
            h, c = h[:n], c[:n]
        i, j, f, o = (gate_input + matmul(h, recurrent_weight)).chunk(4, dim=1)
        c = clip((f + config.forget_bias).sigmoid() * c + i.sigmoid() * j.tanh(), config.cell_clip)
        h = clip(matmul(o.sigmoid() * c.tanh(), projection_weight), config.proj_clip)
        outputs.append(h)
    final_h, final_c = zip((h, c), *ended, strict=True)
    return torch.cat(outputs), torch.cat(final_h), torch.cat(final_c)


def clip(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x.clamp(-limit, limit) if limit else x


# Measurements


def median_ms(work: Callable, n: int = 20) -> float:
    times = []
    for _ in range(n + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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


def layer_inputs(P: int, H: int, lengths: list[int]) -> tuple[list[int], list, list]:
    """Batch sizes, the inputs of both directions, and factors of their outputs in the loss."""
    batch_sizes = [sum(length > step for length in lengths) for step in range(max(lengths))]
    M, B = sum(batch_sizes), len(lengths)
    generator = torch.Generator().manual_seed(M)

    def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * scale).cuda()

    def one_direction() -> list[torch.Tensor]:
        states, gates = (
            [random(M, P), random(B, P), random(B, H)],
            [random(P, 4 * H, scale=P**-0.5) for _ in range(2)],
        )
        return [*states, *gates, random(4 * H), random(H, P, scale=2 * H**-0.5)]

    return (
        batch_sizes,
        [one_direction() for _ in range(2)],
        [random(*shape) for shape in 2 * [(M, P), (B, P), (B, H)]],
    )


def results(
    run: Callable, config: ELMoConfig, inputs: tuple, dtype: torch.dtype
) -> list[torch.Tensor]:
    """Outputs and all gradients."""
    batch_sizes, directions, factors = inputs
    directions = [
        [x.detach().to(dtype).requires_grad_() for x in tensors] for tensors in directions
    ]
    outputs = [x for group in run(config, batch_sizes, directions) for x in group]
    flat = [x for tensors in directions for x in tensors]
    return [
        *(x.detach() for x in outputs),
        *torch.autograd.grad(outputs, flat, [factor.to(dtype) for factor in factors]),
    ]


def agreement(runs: dict[str, Callable]) -> None:
    print(
        "\nlargest difference from float64, as a share of the largest value, over 6 outputs and 14 gradients"
    )
    random = np.random.default_rng(0)
    for (P, H), lengths in (
        ((5, 7), [4, 0, 2, 6, 1, 4]),
        (SIZES["small"], random.integers(21, size=48)),
        (SIZES["small"], [STEPS] * 128),
        (SIZES["original"], random.integers(13, size=24)),
        (SIZES["original"], [STEPS] * 128),
    ):
        for cell_clip, proj_clip in ((0.5, 0.3), (0.0, 0.0)):
            config = ELMoConfig(
                projection_dim=P, cell_dim=H, cell_clip=cell_clip, proj_clip=proj_clip
            )
            inputs = layer_inputs(P, H, sorted(map(int, lengths), reverse=True))
            exact, found = results(runs["operators"], config, inputs, torch.float64), {}
            for name, run in runs.items():
                pairs = zip(results(run, config, inputs, torch.float32), exact, strict=True)
                found[name] = max(
                    float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs
                )
            text = ", ".join(f"{name} {largest:.1e}" for name, largest in found.items())
            print(
                f"P {P:3} H {H:4}, {len(lengths):3} rows, clips {cell_clip} {proj_clip}: {text}",
                flush=True,
            )


def layer_times(runs: dict[str, Callable]) -> None:
    print("\nGPU milliseconds of a layer, both directions, forward and backward")
    for name, (P, H) in SIZES.items():
        for rows, kind in ((rows, kind) for rows in (128, 512) for kind in PRECISIONS):
            inputs, config = (
                layer_inputs(P, H, [STEPS] * rows),
                ELMoConfig(projection_dim=P, cell_dim=H),
            )
            with precision(kind):
                works = {
                    what: partial(results, run, config, inputs, torch.float32)
                    for what, run in runs.items()
                }
                times = [f"{what} {graph_ms(work):.2f}" for what, work in works.items()]
            print(f"{name:8} {rows} rows {kind:8} {', '.join(times)}", flush=True)
            torch.cuda.empty_cache()


def main() -> None:
    gpu_lstm = import_gpu_lstm()
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    launch = gpu_lstm.kernels("gpu:0", equations)
    runs = {
        "kernels": lambda *given: gpu_lstm.run_directions(launch, *given),
        "operators": lambda config, batch_sizes, tensors: [
            equations(config, batch_sizes, *x) for x in tensors
        ],
    }
    agreement(runs)
    layer_times(runs)


if __name__ == "__main__":
    main()
