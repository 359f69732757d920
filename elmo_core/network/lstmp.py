"""A projected LSTM (LSTMP) with cell and projection clipping, over rows of different lengths.

    i, j, f, o = split(x W_x + h W_h + b)
    c = clip(sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j), +-cell_clip)
    h = clip((sigmoid(o) * tanh(c)) W_p, +-proj_clip)

Shapes: B rows, T steps, P projection size, H cell size, D directions, N input vectors, M = sum of all row lengths.

Rows are packed like PyTorch's PackedSequence: longest first, then step by step, each step with only the n_t rows that
are still active:

    row 0:  a b c d        steps:  a e h | b f i | c g | d       batch sizes: 3 3 2 1
    row 1:  e f g          packed: (M, .) with no padding anywhere
    row 2:  h i

So padding costs nothing, and a row's final state is that of its own last step. The input may also be N vectors and M
indices into them; the compiled loops then multiply each vector with W_x only once.

`equations` is the reference, and what runs without the compiled loops: autograd differentiates it. The compiled loops have
a backward pass of their own: autograd would compute one product per weight and step, and sum them. Here the loop only
leaves the gates' gradients behind, and each weight's gradient is a single product. Like any PyLayer of Paddle 3, it cannot
be differentiated twice (a second backward pass over a retained graph crashes Paddle).
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import fused, gpu_lstm, precision
from elmo_core.kernels.matmul import amp_matmul, amp_operand, packed
from elmo_core.machine.runtime import paddle, run_in_parallel, to_tensor

sigmoid, tanh = paddle.nn.functional.sigmoid, paddle.tanh

MAX_GATE_ELEMENTS = 2**26  # 256 MB of float32: bounds the gate inputs held in memory at once
State = tuple[paddle.Tensor, paddle.Tensor]  # h (B, P) and c (B, H)
BiLMState = list[list[State]]  # [layer][direction]


def map_state(function: Callable, *states: BiLMState) -> BiLMState:
    """Apply a function to each tensor of a state, or to the corresponding tensors of several."""
    return [
        [tuple(map(function, *sides)) for sides in zip(*pairs, strict=True)]
        for pairs in zip(*states, strict=True)
    ]


class LayerInput(NamedTuple):
    """The input, initial state and weights of one direction of a layer, or the gradients with respect to them."""

    x: paddle.Tensor  # (M, P) or (N, P), see _prepare
    h: paddle.Tensor  # (B, P)
    c: paddle.Tensor  # (B, H)
    input_weight: paddle.Tensor  # (P, 4H)
    recurrent_weight: paddle.Tensor  # (P, 4H)
    bias: paddle.Tensor  # (4H,)
    projection_weight: paddle.Tensor  # (H, P)


class LayerOutput(NamedTuple):
    """The outputs and final state of one direction of a layer, or the gradients with respect to them."""

    outputs: paddle.Tensor  # packed (M, P)
    h: paddle.Tensor  # (B, P)
    c: paddle.Tensor  # (B, H)


class LSTMP(paddle.nn.Layer):
    """The weights of one direction of one layer, gates in the order i, j, f, o."""

    def __init__(self, config: ELMoConfig):
        super().__init__()
        self.config, input_dim, cell_dim = config, config.projection_dim, config.cell_dim
        uniform = paddle.nn.initializer.XavierUniform()
        self.input_weight = self.create_parameter(
            [input_dim, 4 * cell_dim], default_initializer=uniform
        )
        self.recurrent_weight = self.create_parameter(
            [input_dim, 4 * cell_dim], default_initializer=uniform
        )
        self.bias = self.create_parameter([4 * cell_dim], is_bias=True)
        self.projection_weight = self.create_parameter(
            [cell_dim, input_dim], default_initializer=uniform
        )

    def weights(self) -> tuple[paddle.Tensor, ...]:
        return self.input_weight, self.recurrent_weight, self.bias, self.projection_weight

    def zero_state(self, rows: int) -> State:
        cell_dim, projection_dim = self.projection_weight.shape
        dtype = self.bias.dtype
        return paddle.zeros([rows, projection_dim], dtype), paddle.zeros([rows, cell_dim], dtype)


@dataclass
class Packing:
    """How rows of given lengths are packed. All in NumPy, so the loop over the steps never waits for the device."""

    sorted_indices: np.ndarray  # (B,) row indices, longest first
    batch_sizes: list[int]  # (T,) active rows per step
    offsets: np.ndarray  # (T + 1,) first packed index of each step
    row: np.ndarray  # (M,) original row of each packed entry
    step: np.ndarray  # (M,) its step

    @classmethod
    def from_lengths(cls, lengths: np.ndarray) -> "Packing":
        lengths = np.asarray(lengths)
        sorted_indices = np.argsort(-lengths, kind="stable")
        longest = int(lengths.max(initial=0))
        # for every t, the number of rows longer than t
        batch_sizes = len(lengths) - np.searchsorted(
            np.sort(lengths), np.arange(longest), side="right"
        )
        offsets = np.concatenate([[0], np.cumsum(batch_sizes)])
        step = np.repeat(np.arange(longest), batch_sizes)
        row = sorted_indices[np.arange(len(step)) - offsets[step]]
        return cls(sorted_indices, batch_sizes.tolist(), offsets, row, step)

    def token_indices(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the packed outputs of each row's n (B,) tokens, forward and backward (B, T), and their mask (B, T).

        Step 0 of a row is its begin or end marker, step k the k-th word from the direction's start. T is the largest n.
        """
        rank = np.argsort(self.sorted_indices)[:, None]
        step, n = np.arange(n.max(initial=0)), n[:, None]
        mask = step < n
        forward = self.offsets[np.where(mask, 1 + step, 0)] + rank
        backward = self.offsets[np.where(mask, n - step, 0)] + rank
        return forward * mask, backward * mask, mask

    def sort(self, state: State) -> State:
        """Reorder a state's rows to packed order."""
        return _reordered(state, self.sorted_indices)

    def unsort(self, state: State) -> State:
        """Restore the original order of a state's rows."""
        return _reordered(state, np.argsort(self.sorted_indices))


def _reordered(state: State, order: np.ndarray) -> State:
    if (np.diff(order) > 0).all():
        return state
    indices = to_tensor(order)
    return tuple(paddle.gather(tensor, indices) for tensor in state)


def run_layer(
    directions: Sequence[LSTMP],
    inputs: Sequence[paddle.Tensor],
    states: Sequence[State],
    batch_sizes: list[int],
    indices: Sequence[paddle.Tensor] | None = None,
) -> list[LayerOutput]:
    """Run the directions of one layer.

    inputs: per direction, packed (M, P), or (N, P) with (M,) `indices` into it.
    states: per direction, h (B, P) and c (B, H), in packed order. There is at least one step.
    """
    config, indices = directions[0].config, indices or [None] * len(directions)
    tensors = [
        LayerInput(x, *state, *d.weights())
        for d, x, state in zip(directions, inputs, states, strict=True)
    ]
    if not fused.is_supported(inputs[0]):
        gathered = [
            x if index is None else paddle.gather(x, index)
            for x, index in zip(inputs, indices, strict=True)
        ]
        tensors = [t._replace(x=x) for t, x in zip(tensors, gathered, strict=True)]
        if inputs[0].dtype == paddle.float32 and (
            launch := gpu_lstm.kernels(paddle.get_device(), equations)
        ):
            return [
                LayerOutput(*results)
                for results in gpu_lstm.run_directions(launch, config, batch_sizes, tensors)
            ]
        return [equations(config, batch_sizes, *t) for t in tensors]
    training = paddle.is_grad_enabled() and not all(
        tensor.stop_gradient for tensor in _flatten(tensors)
    )
    width = 4 * config.cell_dim
    prepared = [
        _prepare(x, index, batch_sizes, width, training)
        for x, index in zip(inputs, indices, strict=True)
    ]
    runs = [
        _FusedDirection(config, batch_sizes, *x, t) for x, t in zip(prepared, tensors, strict=True)
    ]
    if not training:
        return run_in_parallel([partial(run.forward, training) for run in runs])
    return _layer_outputs(LayerFunction.apply(runs, *_flatten(run.tensors for run in runs)))


def equations(
    config: ELMoConfig,
    batch_sizes: list[int],
    x: paddle.Tensor,
    h: paddle.Tensor,
    c: paddle.Tensor,
    input_weight: paddle.Tensor,
    recurrent_weight: paddle.Tensor,
    bias: paddle.Tensor,
    projection_weight: paddle.Tensor,
) -> LayerOutput:
    """Compute one direction of a layer as the paper writes it. The shapes are those of LayerInput."""
    if paddle.is_grad_enabled() or len(x) * len(bias) <= MAX_GATE_ELEMENTS:  # one product is faster
        gate_inputs = (amp_matmul(x, input_weight) + bias).split(batch_sizes)
    else:
        gate_inputs = (amp_matmul(step, input_weight) + bias for step in x.split(batch_sizes))
    outputs, ended = [], []
    for n, gate_input in zip(batch_sizes, gate_inputs, strict=True):
        if n < len(h):  # the shortest rows end here
            ended.insert(0, (h[n:], c[n:]))
            h, c = h[:n], c[:n]
        i, j, f, o = (gate_input + amp_matmul(h, recurrent_weight)).split(4, axis=1)  # (n, H)
        c = _clip(sigmoid(f + config.forget_bias) * c + sigmoid(i) * tanh(j), config.cell_clip)
        h = _clip(amp_matmul(sigmoid(o) * tanh(c), projection_weight), config.proj_clip)
        outputs.append(h)
    final_h, final_c = zip((h, c), *ended, strict=True)
    return LayerOutput(paddle.concat(outputs), paddle.concat(final_h), paddle.concat(final_c))


def _clip(x: paddle.Tensor, limit: float) -> paddle.Tensor:
    """Clip to +-limit, 0: not at all. An active clip stops the gradient."""
    return x.clip(-limit, limit) if limit else x


def _prepare(
    x: paddle.Tensor,
    index: paddle.Tensor | None,
    batch_sizes: list[int],
    width: int,
    training: bool,
) -> tuple[paddle.Tensor, paddle.Tensor | None]:
    """Choose whether the compiled loops multiply the input with W_x, of `width` columns, before the loop or in it.

    Returns vectors (N, P) to multiply before it, and which of them each entry reads (M,); or the entries' (M, P), and None.
    """
    if index is not None:
        if training or len(x) * width <= MAX_GATE_ELEMENTS:
            return x, index
        x = paddle.gather(x, index)
    rows = len(x)
    # few rows: reading W_x in one product, not in each step, saves time
    few = rows < 4 * len(batch_sizes) and rows * width <= MAX_GATE_ELEMENTS and not training
    return x, paddle.arange(rows) if few else None


class LayerFunction(paddle.autograd.PyLayer):
    """All directions of a layer as one autograd operation, which takes and returns flat lists of tensors."""

    @staticmethod
    def forward(ctx, runs, *tensors):
        ctx.runs, ctx.precision = runs, precision.current()
        ctx.needs_grad = [not tensor.stop_gradient for tensor in tensors]
        return tuple(_flatten(run_in_parallel([partial(run.forward, True) for run in runs])))

    @staticmethod
    def backward(ctx, *gradients):
        tasks = [
            partial(run.backward, d)
            for run, d in zip(ctx.runs, _layer_outputs(gradients), strict=True)
        ]
        with precision.temporarily(ctx.precision):
            gradients = _flatten(run_in_parallel(tasks))
        return tuple(
            d if needed else None for d, needed in zip(gradients, ctx.needs_grad, strict=True)
        )


def _flatten(groups: Iterable[Sequence]) -> list:
    return list(itertools.chain.from_iterable(groups))


def _layer_outputs(tensors: Sequence[paddle.Tensor]) -> list[LayerOutput]:
    return [LayerOutput(*tensors[k : k + 3]) for k in range(0, len(tensors), 3)]


class _FusedDirection:
    """One direction of a layer over one batch, run by the compiled loops; keeps what backward needs."""

    def __init__(
        self,
        config: ELMoConfig,
        batch_sizes: list[int],
        x: paddle.Tensor,
        index: paddle.Tensor | None,
        tensors: LayerInput,
    ):
        self.config, self.batch_sizes, self.index, self.tensors = (
            config,
            batch_sizes,
            index,
            tensors._replace(x=x),
        )
        H, P = tensors.projection_weight.shape
        self.shared = {
            "steps": len(batch_sizes),
            "batch_sizes": batch_sizes,
            "P": P,
            "H": H,
        }  # by both kernels
        self.shared |= {
            "cell_clip": config.cell_clip or math.inf,
            "proj_clip": config.proj_clip or math.inf,
        }

    def forward(self, training: bool) -> LayerOutput:
        tensors = self.tensors
        cell_dim, projection_dim = tensors.projection_weight.shape
        with paddle.no_grad():
            bias = tensors.bias + _forget_bias(
                cell_dim, self.config.forget_bias, tensors.bias.dtype
            )
            if self.index is None:  # the kernel multiplies x together with h
                inputs = {"x": tensors.x, "gate_inputs": bias, "indices": None}
            else:
                gate_inputs = amp_matmul(tensors.x, tensors.input_weight).add_(bias)
                inputs = {"x": None, "gate_inputs": gate_inputs, "indices": self.index}
            m, n = sum(self.batch_sizes), self.batch_sizes[0]
            kept, empty = m if training else n, partial(paddle.empty, dtype=bias.dtype)
            saved = {
                "gemm_input": self._operand([kept, (1 + (self.index is None)) * projection_dim]),
                "cell_output": self._operand([kept, cell_dim]),
                "gates": empty([m, 4 * cell_dim]) if training else None,
                "cells": empty([m, cell_dim]) if training else None,
            }
            output = LayerOutput(empty([m, projection_dim]), tensors.h.clone(), tensors.c.clone())
            weights = dict(zip(("recurrent", "down"), self._packed(), strict=True))
            arguments = {**self.shared, **weights, **inputs, **saved, **output._asdict()}
            fused.kernel().lstmp_forward(**arguments, preactivations=empty([n + 1, 4 * cell_dim]))
            if training:  # detached: saving the output itself would create a reference cycle that is never freed
                self.saved = saved, output.outputs.detach()
            return output

    def backward(self, d_output: LayerOutput) -> LayerInput:
        tensors, (saved, outputs) = self.tensors, self.saved
        gates, cells = saved["gates"], saved["cells"]
        with paddle.no_grad():
            d_h, d_c, d_bias = (
                d_output.h.clone(),
                d_output.c.clone(),
                paddle.empty_like(tensors.bias),
            )
            d_projected = paddle.empty_like(outputs)
            d_gates, d_outgoing = (self._operand(x.shape, x) for x in (gates, d_projected))
            d_x = paddle.empty_like(tensors.x) if self.index is None else None
            empty = partial(paddle.empty, dtype=cells.dtype)
            n, widths = self.batch_sizes[0], (cells.shape[1], saved["gemm_input"].shape[1])
            scratch = {
                "d_cell_output": empty([n + 4, widths[0]]),
                "d_gemm_input": empty([n, widths[1]]),
            }
            inputs = {
                "initial_c": tensors.c.contiguous(),
                "outputs": outputs,
                "d_outputs": d_output.outputs.contiguous(),
            }
            results = {
                "d_h": d_h,
                "d_c": d_c,
                "d_projected": d_projected,
                "d_x": d_x,
                "d_bias": d_bias,
            }
            results |= {"d_gates": d_gates, "d_outgoing": d_outgoing}
            weights = dict(zip(("recurrent", "up"), self._packed(transposed=True), strict=True))
            # gates is overwritten by its gradient
            fused.kernel().lstmp_backward(
                **self.shared, **weights, **inputs, cells=cells, gates=gates, **results, **scratch
            )
            d_weight = amp_matmul(saved["gemm_input"], d_gates, transpose_x=True)
            if self.index is None:
                d_input_weight, d_recurrent_weight = d_weight.split(2)
            else:  # sum the gate gradients of all entries that read the same vector
                zeros = paddle.zeros([len(tensors.x), gates.shape[1]], gates.dtype)
                d_gates = amp_operand(zeros.index_add_(self.index, 0, gates))
                d_x = amp_matmul(d_gates, tensors.input_weight, transpose_y=True)
                d_input_weight, d_recurrent_weight = (
                    amp_matmul(tensors.x, d_gates, transpose_x=True),
                    d_weight,
                )
            d_projection_weight = amp_matmul(saved["cell_output"], d_outgoing, transpose_x=True)
            return LayerInput(
                d_x, d_h, d_c, d_input_weight, d_recurrent_weight, d_bias, d_projection_weight
            )

    def _packed(self, transposed: bool = False) -> list[fused.Packed]:
        """Pack the matrices of a step: of its product with h, or with x and h, and of that with the cell's output."""
        recurrent = [self.tensors.input_weight, self.tensors.recurrent_weight]
        matrices = (
            recurrent if self.index is None else recurrent[1:],
            [self.tensors.projection_weight],
        )
        return [
            packed(weights, transposed, len(self.batch_sizes), sum(self.batch_sizes))
            for weights in matrices
        ]

    def _operand(self, shape: Sequence[int], same: paddle.Tensor | None = None) -> paddle.Tensor:
        """Return memory for operands of products; in float32, `same` if given."""
        if precision.bfloat16_enabled():
            return paddle.empty(shape, "bfloat16")
        return paddle.empty(shape, "float32") if same is None else same


@functools.lru_cache(8)
def _forget_bias(cell_dim: int, value: float, dtype: paddle.dtype) -> paddle.Tensor:
    """Return the forget gate's constant, as an addition to the biases of the four gates (4H,)."""
    return paddle.to_tensor(np.repeat([0, 0, value, 0], cell_dim), dtype, place=paddle.CPUPlace())
