"""Projected LSTMs on NVIDIA GPUs: Paddle's products, and all else in the four kernels of gpu_lstm.c.

Paddle's operators would read or write a (B, H) tensor some 190 times per step, which takes longer than the products. The
directions of a layer share each product and kernel, and each weight's gradient is a single product over all steps.

Shapes: D directions, B rows, P projection size, H cell size, M = sum of all row lengths.
"""

import functools
import itertools
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import nvrtc, precision
from elmo_core.kernels.matmul import amp_matmul, amp_operand
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import log

SOURCE = Path(__file__).with_suffix(".c")
TOLERANCE = 1e-4  # between float32 results, as a share of the largest


class KernelFunction(paddle.autograd.PyLayer):
    """All directions of a layer: x (D, M, P), h (D, B, P), c (D, B, H) and weights to outputs (D, M, P), final h and c."""

    @staticmethod
    def forward(ctx, launch, config, batch_sizes, x, first_h, first_c, *weights):
        input_weight, recurrent_weight, bias, projection_weight = weights
        recurrent, projection = amp_operand(recurrent_weight), amp_operand(projection_weight)
        (D, M, P), (B, H) = x.shape, first_c.shape[1:]
        gates = amp_matmul(x, input_weight)  # (D, M, 4H)
        h, c = (paddle.empty([D, B + M, state.shape[2]], x.dtype) for state in (first_h, first_c))
        h[:, :B], c[:, :B] = first_h, first_c
        clips = config.cell_clip or math.inf, config.proj_clip or math.inf
        steps, last_h = _steps(batch_sizes, B), first_h
        for n, *places in steps:
            h_products = _product(last_h if n == last_h.shape[1] else last_h[:, :n], recurrent)
            m = paddle.empty([D, n, H], x.dtype)
            launch(
                "cell_forward",
                D,
                n,
                H,
                B,
                M,
                *places,
                clips[0],
                config.forget_bias,
                bias,
                h_products,
                gates,
                c,
                m,
            )
            last_h = _product(m, projection)
            launch("clip_forward", D, n, P, B, M, *places, clips[1], last_h, h)
        ctx.saved = launch, clips, steps, x, h, c, gates, input_weight, recurrent, projection
        ctx.precision = precision.current()
        ctx.needs_grad = [not tensor.stop_gradient for tensor in (x, first_h, first_c, *weights)]
        last = to_tensor(_last_entries(batch_sizes, B))
        return h[:, B:], paddle.gather(h, last, axis=1), paddle.gather(c, last, axis=1)

    @staticmethod
    def backward(ctx, d_outputs, d_h, d_c):
        launch, clips, steps, x, h, c, gates, input_weight, recurrent, projection = ctx.saved
        (D, M, P), (B, H) = x.shape, d_c.shape[1:]
        d_outputs, d_h, d_c = d_outputs.contiguous(), d_h.contiguous(), d_c.clone()
        d_projected, h_before, all_m = (paddle.empty([D, M, width], x.dtype) for width in (P, P, H))
        h_products, after = d_h, 0
        with precision.temporarily(ctx.precision):
            for n, *places in reversed(steps):
                step, d_gates = (
                    paddle.empty([D, n, P], x.dtype),
                    paddle.empty([D, n, 4 * H], x.dtype),
                )
                gradients = h, d_outputs, h_products, d_h, step, d_projected, h_before
                launch("clip_backward", D, n, P, B, M, *places, clips[1], after, *gradients)
                d_m = _product(step, projection, transpose_y=True)
                launch(
                    "cell_backward",
                    D,
                    n,
                    H,
                    B,
                    M,
                    *places,
                    clips[0],
                    d_m,
                    c,
                    d_c,
                    gates,
                    d_gates,
                    all_m,
                )
                h_products, after = _product(d_gates, recurrent, transpose_y=True), n
            d_gates = amp_operand(gates)  # which are now their gradients
            results = (
                amp_matmul(d_gates, input_weight, transpose_y=True),
                h_products if after == B else paddle.concat([h_products, d_h[:, after:]], axis=1),
                d_c,
                amp_matmul(x, d_gates, transpose_x=True),
                amp_matmul(h_before, d_gates, transpose_x=True),
                paddle.matmul(paddle.ones([D, 1, M], x.dtype), gates).squeeze(
                    1
                ),  # faster than a sum
                amp_matmul(all_m, d_projected, transpose_x=True),
            )
        return tuple(
            d if needed else None for d, needed in zip(results, ctx.needs_grad, strict=True)
        )


def _product(x: paddle.Tensor, weight: paddle.Tensor, transpose_y: bool = False) -> paddle.Tensor:
    """The product of a step, which is narrow and deep. In full float32, cuBLAS is slow at such products in a batch."""
    if precision.bfloat16_enabled() or paddle_compat.tf32_allowed(paddle):
        return amp_matmul(x, weight, transpose_y=transpose_y)
    pairs = zip(x.unbind(), weight.unbind(), strict=True)
    return paddle.stack([amp_matmul(*pair, transpose_y=transpose_y) for pair in pairs])


def _steps(batch_sizes: list[int], rows: int) -> list[tuple[int, int, int]]:
    """For each step its rows, its first entry, and the rows of the step before, or of the initial state."""
    firsts = itertools.accumulate(batch_sizes, initial=0)
    return list(zip(batch_sizes, firsts, [rows, *batch_sizes], strict=False))


def _last_entries(batch_sizes: list[int], rows: int) -> np.ndarray:
    """Index of each row's final state among the initial states and the entries (B,)."""
    lengths = (np.array(batch_sizes)[:, None] > np.arange(rows)).sum(axis=0)
    return np.cumsum([0, rows, *batch_sizes])[lengths] + np.arange(rows)


def run_directions(
    launch: Callable, config: ELMoConfig, batch_sizes: list[int], tensors: list
) -> list[tuple]:
    """Run the directions of a layer: per direction its LayerInput, to the tensors of a LayerOutput."""
    stacked = [paddle.stack(group) for group in zip(*tensors, strict=True)]
    results = KernelFunction.apply(launch, config, batch_sizes, *stacked)
    return list(zip(*(result.unbind() for result in results), strict=True))


@functools.cache
def kernels(device: str, equations: Callable) -> Callable | None:
    """Compile and check the kernels for this device. Returns a function that launches one; None if they do not work.

    equations: computes one direction with operators; what the kernels are compared with.
    """
    if not device.startswith("gpu") or os.environ.get("ELMO_FUSED") == "0":
        return None
    try:
        major, minor = paddle_compat.capability(paddle, device)
        cubin = nvrtc.compile(SOURCE.read_bytes(), f"sm_{major}{minor}")
        number = int(device.partition(":")[2] or 0)
        launch = nvrtc.Kernels(cubin, number, lambda: paddle_compat.current_stream(paddle)).launch
        largest = difference(launch, equations)
        if not largest < TOLERANCE:
            raise OSError(f"their results differ from those of Paddle's operators by {largest:.1e}")
    except OSError as error:
        log.warning(
            f"{device}: without the kernels of gpu_lstm.c, which make an LSTM faster: {error}"
        )
        return None
    return launch


def difference(launch: Callable, equations: Callable) -> float:
    """The largest difference of the kernels' results and gradients from those of the equations, as a share of the largest.

    Rows have different lengths, and both clips are active.
    """
    config, batch_sizes = (
        ELMoConfig(projection_dim=5, cell_dim=7, cell_clip=0.3, proj_clip=0.1),
        [4, 3, 3, 1],
    )
    shapes = [sum(batch_sizes), 5], [4, 5], [4, 7], [5, 28], [5, 28], [28], [7, 5]
    random, found = np.random.default_rng(0), []
    arrays = [[random.standard_normal(shape, np.float32) / 2 for shape in shapes] for _ in range(2)]
    for run in (
        partial(run_directions, launch),
        lambda *given: [equations(*given[:2], *t) for t in given[2]],
    ):
        with paddle.enable_grad(), precision.only("float32"):
            tensors = [
                [paddle.to_tensor(array, stop_gradient=False) for array in group]
                for group in arrays
            ]
            outputs = list(itertools.chain.from_iterable(run(config, batch_sizes, tensors)))
            gradients = paddle.grad(
                sum((x * x).sum() for x in outputs), list(itertools.chain.from_iterable(tensors))
            )
        found.append([x.numpy() for x in (*outputs, *gradients)])
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(*found, strict=True))
