"""Projected LSTMs on a CPU: the steps of each direction by the compiled loops of fused.c.

The equations, the packing of rows and the letters are those of elmo_core/network/lstmp.py.

The loops have a backward pass of their own. Autograd would compute one product per weight and step,
and sum them. Here the loop only leaves the gates' gradients behind, and each weight's gradient is a
single product. Like any PyLayer of Paddle 3, it cannot be differentiated twice (a second backward
pass over a retained graph crashes Paddle).

If the entries read N vectors, each vector is multiplied with W_x only once.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import fused, precision
from elmo_core.kernels.matmul import amp_matmul, amp_operand, prepared
from elmo_core.machine.runtime import paddle, run_in_parallel

MAX_GATE_ELEMENTS = 2**26  # 256 MB of float32: bounds the gate inputs held in memory at once


class LayerInput(NamedTuple):
    """The input, initial state and weights of one direction of a layer, or their gradients."""

    x: paddle.Tensor  # (M, P), or (N, P) with indices into it
    h: paddle.Tensor  # (B, P)
    c: paddle.Tensor  # (B, H)
    input_weight: paddle.Tensor  # (P, 4H)
    recurrent_weight: paddle.Tensor  # (P, 4H)
    bias: paddle.Tensor  # (4H,)
    projection_weight: paddle.Tensor  # (H, P)

    def gathered(self, index: paddle.Tensor) -> "LayerInput":
        """Replace the vectors (N, P) by those that each entry reads (M, P)."""
        return self._replace(x=paddle.gather(self.x, index))


class LayerOutput(NamedTuple):
    """The outputs and final state of one direction of a layer, or their gradients."""

    outputs: paddle.Tensor  # packed (M, P)
    h: paddle.Tensor  # (B, P)
    c: paddle.Tensor  # (B, H)


def run_directions(
    config: ELMoConfig,
    batch_sizes: list[int],
    inputs: Sequence[LayerInput],
    indices: Sequence[paddle.Tensor | None],
) -> list[LayerOutput]:
    """Run the directions of one layer, in parallel if there are threads for it.

    indices: per direction, the vector that each entry reads (M,), or None if `x` is (M, P).
    """
    is_trained = not all(tensor.stop_gradient for tensor in _flatten(inputs))
    training = is_trained and paddle.is_grad_enabled()
    runs = [
        _Direction.chosen(config, batch_sizes, direction_inputs, index, training)
        for direction_inputs, index in zip(inputs, indices, strict=True)
    ]
    if training:
        tensors = _flatten(run.inputs for run in runs)
        return _layer_outputs(_LayerFunction.apply(runs, *tensors))
    return run_in_parallel([partial(run.forward, training=False) for run in runs])


class _LayerFunction(paddle.autograd.PyLayer):
    """All directions of a layer as one autograd operation, with flat lists of tensors."""

    @staticmethod
    def forward(ctx, runs, *tensors):
        ctx.runs = runs
        ctx.precision = precision.current()
        ctx.needs_grad = [not tensor.stop_gradient for tensor in tensors]
        outputs = run_in_parallel([partial(run.forward, training=True) for run in runs])
        return tuple(_flatten(outputs))

    @staticmethod
    def backward(ctx, *d_tensors):
        d_outputs = _layer_outputs(d_tensors)
        tasks = [
            partial(run.backward, d_output)
            for run, d_output in zip(ctx.runs, d_outputs, strict=True)
        ]
        with precision.temporarily(ctx.precision):
            gradients = _flatten(run_in_parallel(tasks))
        return tuple(
            gradient if needed else None
            for gradient, needed in zip(gradients, ctx.needs_grad, strict=True)
        )


def _flatten(groups: Iterable[Sequence]) -> list:
    return list(itertools.chain.from_iterable(groups))


def _layer_outputs(tensors: Sequence[paddle.Tensor]) -> list[LayerOutput]:
    """Group a flat list: outputs, h and c of each direction."""
    return [
        LayerOutput(outputs=tensors[k], h=tensors[k + 1], c=tensors[k + 2])
        for k in range(0, len(tensors), 3)
    ]


@dataclass
class _Saved:
    """What the backward pass reads of the forward pass."""

    gemm_input: paddle.Tensor  # (M, P or 2P): what each step multiplied with W_h, or W_x and W_h
    cell_output: paddle.Tensor  # (M, H): what each step multiplied with W_p
    gates: paddle.Tensor  # (M, 4H): the activations, which `backward` overwrites
    cells: paddle.Tensor  # (M, H)
    outputs: paddle.Tensor  # (M, P)


class _Direction:
    """One direction of a layer over one batch.

    index: the vector of `inputs.x` (N, P) that each entry reads (M,): the vectors are multiplied
    with W_x before the loop. None: `inputs.x` is (M, P), and each step multiplies its entries and h
    in one product.
    """

    def __init__(
        self,
        config: ELMoConfig,
        batch_sizes: list[int],
        inputs: LayerInput,
        index: paddle.Tensor | None,
    ):
        self.batch_sizes = batch_sizes
        self.inputs = inputs
        self.index = index
        self.forget_bias = config.forget_bias
        self.cell_clip = config.cell_clip or math.inf
        self.proj_clip = config.proj_clip or math.inf
        self.saved: _Saved | None = None

    @classmethod
    def chosen(
        cls,
        config: ELMoConfig,
        batch_sizes: list[int],
        inputs: LayerInput,
        index: paddle.Tensor | None,
        training: bool,
    ) -> "_Direction":
        """Choose whether to multiply the input with W_x before the loop or in it."""
        gate_width = 4 * config.cell_dim
        if index is not None:
            if training or len(inputs.x) * gate_width <= MAX_GATE_ELEMENTS:
                return cls(config, batch_sizes, inputs, index)
            inputs = inputs.gathered(index)
        entries = len(inputs.x)
        # with few rows, reading W_x in one product, and not in each step, saves time
        has_few_rows = entries < 4 * len(batch_sizes)
        fits = entries * gate_width <= MAX_GATE_ELEMENTS
        if has_few_rows and fits and not training:
            return cls(config, batch_sizes, inputs, paddle.arange(entries))
        return cls(config, batch_sizes, inputs, None)

    def forward(self, training: bool) -> LayerOutput:
        """Run the steps. training: keep what `backward` needs."""
        inputs = self.inputs
        H, P = inputs.projection_weight.shape
        dtype = inputs.bias.dtype
        rows = self.batch_sizes[0]
        entries = sum(self.batch_sizes)
        kept = entries if training else rows  # otherwise each step overwrites the one before
        with paddle.no_grad():
            bias = inputs.bias + _forget_bias(H, self.forget_bias, dtype)
            if self.index is None:
                gate_inputs = bias
                gemm_input = _operand_memory([kept, 2 * P])
            else:
                gate_inputs = amp_matmul(inputs.x, inputs.input_weight).add_(bias)
                gemm_input = _operand_memory([kept, P])
            cell_output = _operand_memory([kept, H])
            gates = paddle.empty([entries, 4 * H], dtype) if training else None
            cells = paddle.empty([entries, H], dtype) if training else None
            outputs = paddle.empty([entries, P], dtype)
            h = inputs.h.clone()
            c = inputs.c.clone()
            fused.kernel().lstmp_forward(
                steps=len(self.batch_sizes),
                batch_sizes=self.batch_sizes,
                P=P,
                H=H,
                gate_inputs=gate_inputs,
                indices=self.index,
                x=inputs.x if self.index is None else None,
                recurrent=self._recurrent(transposed=False),
                down=self._projection(transposed=False),
                cell_clip=self.cell_clip,
                proj_clip=self.proj_clip,
                h=h,
                c=c,
                outputs=outputs,
                preactivations=paddle.empty([rows + 1, 4 * H], dtype),
                gemm_input=gemm_input,
                cell_output=cell_output,
                gates=gates,
                cells=cells,
            )
            if training:
                # detached: the output itself would make a reference cycle that is never freed
                self.saved = _Saved(
                    gemm_input=gemm_input,
                    cell_output=cell_output,
                    gates=gates,
                    cells=cells,
                    outputs=outputs.detach(),
                )
            return LayerOutput(outputs, h, c)

    def backward(self, d_output: LayerOutput) -> LayerInput:
        """Return the gradients of the input, the initial state and the weights."""
        inputs = self.inputs
        saved = self.saved
        H, P = inputs.projection_weight.shape
        dtype = saved.cells.dtype
        rows = self.batch_sizes[0]
        with paddle.no_grad():
            d_h = d_output.h.clone()
            d_c = d_output.c.clone()
            d_bias = paddle.empty_like(inputs.bias)
            d_x = paddle.empty_like(inputs.x) if self.index is None else None
            d_projected = paddle.empty_like(saved.outputs)
            d_gates = _operand_of(saved.gates)
            d_outgoing = _operand_of(d_projected)
            gemm_width = saved.gemm_input.shape[1]
            fused.kernel().lstmp_backward(
                steps=len(self.batch_sizes),
                batch_sizes=self.batch_sizes,
                P=P,
                H=H,
                recurrent=self._recurrent(transposed=True),
                up=self._projection(transposed=True),
                cell_clip=self.cell_clip,
                proj_clip=self.proj_clip,
                initial_c=inputs.c.contiguous(),
                outputs=saved.outputs,
                d_outputs=d_output.outputs.contiguous(),
                cells=saved.cells,
                gates=saved.gates,
                d_h=d_h,
                d_c=d_c,
                d_projected=d_projected,
                d_gates=d_gates,
                d_outgoing=d_outgoing,
                d_x=d_x,
                d_bias=d_bias,
                d_cell_output=paddle.empty([rows + 4, H], dtype),
                d_gemm_input=paddle.empty([rows, gemm_width], dtype),
            )
            d_weight = amp_matmul(saved.gemm_input, d_gates, transpose_x=True)
            if self.index is None:
                d_input_weight, d_recurrent_weight = d_weight.split(2)
            else:
                d_recurrent_weight = d_weight
                # sum the gate gradients, which the loop wrote over the gates, of all entries that
                # read the same vector
                zeros = paddle.zeros([len(inputs.x), 4 * H], dtype)
                d_gates = amp_operand(zeros.index_add_(self.index, 0, saved.gates))
                d_x = amp_matmul(d_gates, inputs.input_weight, transpose_y=True)
                d_input_weight = amp_matmul(inputs.x, d_gates, transpose_x=True)
            return LayerInput(
                x=d_x,
                h=d_h,
                c=d_c,
                input_weight=d_input_weight,
                recurrent_weight=d_recurrent_weight,
                bias=d_bias,
                projection_weight=amp_matmul(saved.cell_output, d_outgoing, transpose_x=True),
            )

    def _recurrent(self, transposed: bool) -> fused.PreparedWeight:
        """Prepare W_h for the products of all steps; with W_x above it if the steps multiply x."""
        weights = [self.inputs.recurrent_weight]
        if self.index is None:
            weights = [self.inputs.input_weight, self.inputs.recurrent_weight]
        return prepared(weights, transposed, len(self.batch_sizes), sum(self.batch_sizes))

    def _projection(self, transposed: bool) -> fused.PreparedWeight:
        """Prepare W_p for the products of all steps."""
        weights = [self.inputs.projection_weight]
        return prepared(weights, transposed, len(self.batch_sizes), sum(self.batch_sizes))


def _operand_memory(shape: Sequence[int]) -> paddle.Tensor:
    """Return memory for an operand of products in the current precision."""
    return paddle.empty(shape, "bfloat16" if precision.bfloat16_enabled() else "float32")


def _operand_of(tensor: paddle.Tensor) -> paddle.Tensor:
    """Return memory for a tensor as an operand: in float32 it is the tensor itself."""
    return _operand_memory(tensor.shape) if precision.bfloat16_enabled() else tensor


@functools.lru_cache(8)
def _forget_bias(cell_dim: int, value: float, dtype: paddle.dtype) -> paddle.Tensor:
    """Return the forget gate's constant, as an addition to the biases of the four gates (4H,)."""
    return paddle.to_tensor(np.repeat([0, 0, value, 0], cell_dim), dtype, place=paddle.CPUPlace())
