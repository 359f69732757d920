"""Projected LSTMs on NVIDIA GPUs: Paddle's products, and all else in the kernels of gpu_lstm.c.

Paddle's operators would read or write a (B, H) tensor some 190 times per step, which takes longer
than the products. The directions of a layer share each product and kernel, and each weight's
gradient is a single product over all steps.

Shapes: D directions, B rows, n rows of a step, P projection size, H cell size, M = sum of all row
lengths.
"""

import functools
import itertools
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import nvrtc, precision
from elmo_core.kernels.matmul import amp_matmul, amp_operand
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import log

SOURCE = Path(__file__).with_suffix(".c")
TOLERANCE = 1e-4  # between float32 results, as a share of the largest
STEP = ("directions", "rows", "width", "batch", "entries", "first", "before", "clip")
PARAMETERS = {  # of the kernels, in the order of gpu_lstm.c
    "cell_forward": (*STEP, "forget_bias", "bias", "products", "gates", "c", "m"),
    "clip_forward": (*STEP, "projected", "h"),
    "clip_backward": (
        *STEP,
        "after",
        "h",
        "d_outputs",
        "products",
        "d_h",
        "step",
        "d_projected",
        "h_before",
    ),
    "cell_backward": (*STEP, "d_m", "c", "d_c", "gates", "step", "m"),
}


class Step(NamedTuple):
    """One step over the rows that are still active."""

    rows: int
    first: int  # its first packed entry
    rows_before: int  # of the step before, or of the initial state


class KernelFunction(paddle.autograd.PyLayer):
    """All directions of a layer as one autograd operation.

    x (D, M, P), h (D, B, P), c (D, B, H) and weights to outputs (D, M, P), final h and c. The
    stored h and c of all steps are (D, B + M, .): the initial state, then the packed entries.
    """

    @staticmethod
    def forward(ctx, launch, config, batch_sizes, x, first_h, first_c, *weights):
        input_weight, recurrent_weight, bias, projection_weight = weights
        recurrent = amp_operand(recurrent_weight)
        projection = amp_operand(projection_weight)
        D, M, P = x.shape
        _, B, H = first_c.shape
        cell_clip = config.cell_clip or math.inf
        proj_clip = config.proj_clip or math.inf
        gates = amp_matmul(x, input_weight)  # (D, M, 4H), overwritten by the activations
        h = paddle.empty([D, B + M, P], x.dtype)
        c = paddle.empty([D, B + M, H], x.dtype)
        h[:, :B] = first_h
        c[:, :B] = first_c
        steps = _steps(batch_sizes, B)
        last_h = first_h
        for step in steps:
            n = step.rows
            if n < last_h.shape[1]:  # the shortest rows have ended
                last_h = last_h[:, :n]
            h_products = _product(last_h, recurrent)  # (D, n, 4H)
            m = paddle.empty([D, n, H], x.dtype)
            _launch(
                launch,
                "cell_forward",
                directions=D,
                rows=n,
                width=H,
                batch=B,
                entries=M,
                first=step.first,
                before=step.rows_before,
                clip=cell_clip,
                forget_bias=config.forget_bias,
                bias=bias,
                products=h_products,
                gates=gates,
                c=c,
                m=m,
            )
            last_h = _product(m, projection)  # (D, n, P)
            _launch(
                launch,
                "clip_forward",
                directions=D,
                rows=n,
                width=P,
                batch=B,
                entries=M,
                first=step.first,
                before=step.rows_before,
                clip=proj_clip,
                projected=last_h,
                h=h,
            )
        ctx.launch = launch
        ctx.cell_clip = cell_clip
        ctx.proj_clip = proj_clip
        ctx.steps = steps
        ctx.x = x
        ctx.h = h
        ctx.c = c
        ctx.gates = gates
        ctx.input_weight = input_weight
        ctx.recurrent = recurrent
        ctx.projection = projection
        ctx.precision = precision.current()
        ctx.needs_grad = [not tensor.stop_gradient for tensor in (x, first_h, first_c, *weights)]
        last = to_tensor(_last_entries(batch_sizes, B))
        final_h = paddle.gather(h, last, axis=1)
        final_c = paddle.gather(c, last, axis=1)
        return h[:, B:], final_h, final_c

    @staticmethod
    def backward(ctx, d_outputs, d_h, d_c):
        launch = ctx.launch
        x = ctx.x
        D, M, P = x.shape
        _, B, H = d_c.shape
        d_outputs = d_outputs.contiguous()
        d_h = d_h.contiguous()
        d_c = d_c.clone()
        d_projected = paddle.empty([D, M, P], x.dtype)
        h_before = paddle.empty([D, M, P], x.dtype)
        all_m = paddle.empty([D, M, H], x.dtype)
        d_h_after = d_h  # the gradient that reaches the h of a step's rows from the step after
        rows_after = 0
        with precision.temporarily(ctx.precision):
            for step in reversed(ctx.steps):
                n = step.rows
                d_step = paddle.empty([D, n, P], x.dtype)
                _launch(
                    launch,
                    "clip_backward",
                    directions=D,
                    rows=n,
                    width=P,
                    batch=B,
                    entries=M,
                    first=step.first,
                    before=step.rows_before,
                    clip=ctx.proj_clip,
                    after=rows_after,
                    h=ctx.h,
                    d_outputs=d_outputs,
                    products=d_h_after,
                    d_h=d_h,
                    step=d_step,
                    d_projected=d_projected,
                    h_before=h_before,
                )
                d_m = _product(d_step, ctx.projection, transpose_y=True)  # (D, n, H)
                d_step_gates = paddle.empty([D, n, 4 * H], x.dtype)
                _launch(
                    launch,
                    "cell_backward",
                    directions=D,
                    rows=n,
                    width=H,
                    batch=B,
                    entries=M,
                    first=step.first,
                    before=step.rows_before,
                    clip=ctx.cell_clip,
                    d_m=d_m,
                    c=ctx.c,
                    d_c=d_c,
                    gates=ctx.gates,
                    step=d_step_gates,
                    m=all_m,
                )
                d_h_after = _product(d_step_gates, ctx.recurrent, transpose_y=True)  # (D, n, P)
                rows_after = n
            # the kernels have overwritten the gates by their gradients
            d_gates = amp_operand(ctx.gates)
            d_x = amp_matmul(d_gates, ctx.input_weight, transpose_y=True)
            d_first_h = d_h_after
            if rows_after < B:
                d_first_h = paddle.concat([d_h_after, d_h[:, rows_after:]], axis=1)
            d_input_weight = amp_matmul(x, d_gates, transpose_x=True)
            d_recurrent_weight = amp_matmul(h_before, d_gates, transpose_x=True)
            # the sum over the entries, as a product, which is faster
            ones = paddle.ones([D, 1, M], x.dtype)
            d_bias = paddle.matmul(ones, ctx.gates).squeeze(1)
            d_projection_weight = amp_matmul(all_m, d_projected, transpose_x=True)
        gradients = (
            d_x,
            d_first_h,
            d_c,
            d_input_weight,
            d_recurrent_weight,
            d_bias,
            d_projection_weight,
        )
        return tuple(
            gradient if needed else None
            for gradient, needed in zip(gradients, ctx.needs_grad, strict=True)
        )


def _launch(launch: Callable, kernel: str, **arguments) -> None:
    """Launch a kernel with arguments in the order of gpu_lstm.c, which their names check."""
    if tuple(arguments) != PARAMETERS[kernel]:
        raise TypeError(f"gpu_lstm.c: {kernel} takes {', '.join(PARAMETERS[kernel])}")
    launch(kernel, *arguments.values())


def _product(x: paddle.Tensor, weight: paddle.Tensor, transpose_y: bool = False) -> paddle.Tensor:
    """Compute the product of a step (D, n, .), which is narrow and deep.

    In full float32, cuBLAS is slow at such products in a batch: then each direction has its own.
    """
    if precision.bfloat16_enabled() or paddle_compat.tf32_allowed(paddle):
        return amp_matmul(x, weight, transpose_y=transpose_y)
    products = [
        amp_matmul(direction, direction_weight, transpose_y=transpose_y)
        for direction, direction_weight in zip(x.unbind(), weight.unbind(), strict=True)
    ]
    return paddle.stack(products)


def _steps(batch_sizes: list[int], rows: int) -> list[Step]:
    """List the steps. rows: of the initial state."""
    steps = []
    first = 0
    rows_before = rows
    for n in batch_sizes:
        steps.append(Step(rows=n, first=first, rows_before=rows_before))
        first += n
        rows_before = n
    return steps


def _last_entries(batch_sizes: list[int], rows: int) -> np.ndarray:
    """Return the index of each row's final state among the initial states and the entries (B,)."""
    lengths = (np.array(batch_sizes)[:, None] > np.arange(rows)).sum(axis=0)
    firsts = np.cumsum([0, rows, *batch_sizes])  # of the initial states, then of each step
    return firsts[lengths] + np.arange(rows)


def run_directions(
    launch: Callable, config: ELMoConfig, batch_sizes: list[int], inputs: Sequence[Sequence]
) -> list[tuple]:
    """Run the directions of a layer: per direction its LayerInput, to a LayerOutput's tensors."""
    stacked = [paddle.stack(directions) for directions in zip(*inputs, strict=True)]
    outputs, h, c = KernelFunction.apply(launch, config, batch_sizes, *stacked)
    return list(zip(outputs.unbind(), h.unbind(), c.unbind(), strict=True))


@functools.cache
def kernels(device: str, equations: Callable) -> Callable | None:
    """Compile and check the kernels for this device.

    Returns a function that launches one; None if they do not work.
    equations: computes one direction with operators; what the kernels are compared with.
    """
    if not device.startswith("gpu") or os.environ.get("ELMO_FUSED") == "0":
        return None
    try:
        major, minor = paddle_compat.capability(paddle, device)
        cubin = nvrtc.compile(SOURCE.read_bytes(), f"sm_{major}{minor}")
        number = int(device.partition(":")[2] or 0)
        stream = partial(paddle_compat.current_stream, paddle)
        launch = nvrtc.Kernels(cubin, number, stream).launch
        largest = difference(launch, equations)
        if not largest < TOLERANCE:
            raise OSError(f"their results differ from those of Paddle's operators by {largest:.1e}")
    except OSError as error:
        missing = "without the kernels of gpu_lstm.c, which make an LSTM faster"
        log.warning(f"{device}: {missing}: {error}")
        return None
    return launch


def difference(launch: Callable, equations: Callable) -> float:
    """Return the largest difference between the kernels and the equations.

    Of results and gradients, as a share of the largest. Rows have different lengths, and both clips
    are active.
    """
    P = 5
    H = 7
    config = ELMoConfig(projection_dim=P, cell_dim=H, cell_clip=0.3, proj_clip=0.1)
    batch_sizes = [4, 3, 3, 1]
    M = sum(batch_sizes)
    shapes = [[M, P], [4, P], [4, H], [P, 4 * H], [P, 4 * H], [4 * H], [H, P]]
    random = np.random.default_rng(0)
    directions = []
    for _ in range(2):
        directions.append([random.standard_normal(shape, np.float32) / 2 for shape in shapes])

    def by_kernels(inputs: list[list]) -> list[tuple]:
        return run_directions(launch, config, batch_sizes, inputs)

    def by_equations(inputs: list[list]) -> list[tuple]:
        return [equations(config, batch_sizes, *tensors) for tensors in inputs]

    found = _results(by_kernels, directions)
    expected = _results(by_equations, directions)
    return max(
        float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True)
    )


def _results(run: Callable, directions: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the outputs of all directions, and the gradients of the sum of their squares."""
    with paddle.enable_grad(), precision.only("float32"):
        inputs = []
        for arrays in directions:
            inputs.append([paddle.to_tensor(array, stop_gradient=False) for array in arrays])
        outputs = list(itertools.chain.from_iterable(run(inputs)))
        loss = sum((output * output).sum() for output in outputs)
        gradients = paddle.grad(loss, list(itertools.chain.from_iterable(inputs)))
    return [tensor.numpy() for tensor in outputs + list(gradients)]
