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

Why a hand-written backward pass: autograd through the loop would compute one product per weight and step, and sum them.
Here the loop only leaves the gates' gradients behind, and each weight's gradient is a single product. Like any PyLayer of
Paddle 3, it cannot be differentiated twice (a second backward pass over a retained graph crashes Paddle).
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
from elmo_core.machine import products
from elmo_core.machine.runtime import paddle, run_in_parallel, to_tensor
from elmo_core.network import fused
from elmo_core.network.matmul import amp_matmul, amp_operand, packed

MAX_GATE_ELEMENTS = 2**26  # 256 MB of float32: bounds the gate inputs held in memory at once
State = tuple[paddle.Tensor, paddle.Tensor]  # h (B, P) and c (B, H)


class LayerInput(NamedTuple):
    """The input, initial state and weights of one direction of a layer, or the gradients with respect to them."""

    x: paddle.Tensor  # packed (M, P), or (N, P) with indices
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
        self.input_weight = self.create_parameter([input_dim, 4 * cell_dim], default_initializer=uniform)
        self.recurrent_weight = self.create_parameter([input_dim, 4 * cell_dim], default_initializer=uniform)
        self.bias = self.create_parameter([4 * cell_dim], is_bias=True)
        self.projection_weight = self.create_parameter([cell_dim, input_dim], default_initializer=uniform)

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
        batch_sizes = len(lengths) - np.searchsorted(np.sort(lengths), np.arange(longest), side="right")
        offsets = np.concatenate([[0], np.cumsum(batch_sizes)])
        step = np.repeat(np.arange(longest), batch_sizes)
        row = sorted_indices[np.arange(len(step)) - offsets[step]]
        return cls(sorted_indices, batch_sizes.tolist(), offsets, row, step)

    def token_indices(self, n: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Packed indices of the outputs of each row's n (B,) tokens, forward and backward (B, T), and their mask (B, T).

        Step 0 of a row is its begin or end marker, step k the k-th word from the direction's start. first: step of the
        first token, 1, or 0 if the markers are tokens, too. T is the largest n.
        """
        rank = np.argsort(self.sorted_indices)[:, None]
        step, n = np.arange(n.max(initial=0)), n[:, None]
        mask = step < n
        forward = self.offsets[np.where(mask, first + step, 0)] + rank
        backward = self.offsets[np.where(mask, first + n - 1 - step, 0)] + rank
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
    tensors = [LayerInput(x, *state, *d.weights()) for d, x, state in zip(directions, inputs, states, strict=True)]
    config, is_fused = directions[0].config, fused.is_supported(inputs[0])
    training = paddle.is_grad_enabled() and not all(tensor.stop_gradient for tensor in _flatten(tensors))
    width, rows = 4 * states[0][1].shape[1], sum(batch_sizes)
    if indices and not (is_fused and (len(inputs[0]) * width <= MAX_GATE_ELEMENTS or training)):
        tensors = [t._replace(x=paddle.gather(t.x, index)) for t, index in zip(tensors, indices, strict=True)]
        indices = None
    if is_fused:
        # few rows: reading W_x in one product, not in each step, saves time
        few = rows < 4 * len(batch_sizes) and rows * width <= MAX_GATE_ELEMENTS and not training
        indices = indices or [paddle.arange(rows) if few else None] * len(tensors)
        runs = [_FusedDirection(config, batch_sizes, i, t) for i, t in zip(indices, tensors, strict=True)]
    else:
        runs = [_StackedDirections(config, batch_sizes, tensors)]
    if not training:
        return _run_forward(runs, training=False)
    return _layer_outputs(LayerFunction.apply(runs, *_flatten(tensors)))


class LayerFunction(paddle.autograd.PyLayer):
    """All directions of a layer as one autograd operation, which takes and returns flat lists of tensors."""

    @staticmethod
    def forward(ctx, runs, *tensors):
        ctx.runs, ctx.precision = runs, products.current()
        ctx.needs_grad = [not tensor.stop_gradient for run in runs for tensor in _flatten(run.directions)]
        return tuple(_flatten(_run_forward(runs, training=True)))

    @staticmethod
    def backward(ctx, *gradients):
        outputs = iter(_layer_outputs(gradients))
        tasks = [partial(run.backward, list(itertools.islice(outputs, len(run.directions)))) for run in ctx.runs]
        with products.precision(ctx.precision):
            gradients = [gradient for inputs in run_in_parallel(tasks) for gradient in _flatten(inputs)]
        return tuple(d if needed else None for d, needed in zip(gradients, ctx.needs_grad, strict=True))


def _flatten(groups: Iterable[Sequence]) -> list:
    return list(itertools.chain.from_iterable(groups))


def _layer_outputs(tensors: Sequence[paddle.Tensor]) -> list[LayerOutput]:
    return [LayerOutput(*tensors[k : k + 3]) for k in range(0, len(tensors), 3)]


def _run_forward(runs, training: bool) -> list[LayerOutput]:
    return _flatten(run_in_parallel([partial(run.forward, training) for run in runs]))


class _FusedDirection:
    """One direction of a layer over one batch, run by the compiled loops; keeps what backward needs."""

    def __init__(self, config: ELMoConfig, batch_sizes: list[int], index: paddle.Tensor | None, tensors: LayerInput):
        self.config, self.batch_sizes, self.index, self.directions = config, batch_sizes, index, [tensors]
        H, P = tensors.projection_weight.shape
        self.shared = {"steps": len(batch_sizes), "batch_sizes": batch_sizes, "P": P, "H": H}  # by both kernels
        self.shared |= {"cell_clip": config.cell_clip or math.inf, "proj_clip": config.proj_clip or math.inf}

    def forward(self, training: bool) -> list[LayerOutput]:
        (tensors,) = self.directions
        cell_dim, projection_dim = tensors.projection_weight.shape
        with paddle.no_grad():
            bias = tensors.bias + _forget_bias(cell_dim, self.config.forget_bias, tensors.bias.dtype)
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
            weights = {"recurrent": self._packed(), "down": self._packed(tensors.projection_weight)}
            arguments = {**self.shared, **weights, **inputs, **saved, **output._asdict()}
            fused.kernel().lstmp_forward(**arguments, preactivations=empty([n + 1, 4 * cell_dim]))
            if training:  # detached: saving the output itself would create a reference cycle that is never freed
                self.saved = saved, output.outputs.detach()
            return [output]

    def backward(self, gradients: list[LayerOutput]) -> list[LayerInput]:
        (tensors,), (d_output,) = self.directions, gradients
        saved, outputs = self.saved
        gates, cells = saved["gates"], saved["cells"]
        with paddle.no_grad():
            d_h, d_c, d_bias = d_output.h.clone(), d_output.c.clone(), paddle.empty_like(tensors.bias)
            d_projected = paddle.empty_like(outputs)
            d_gates, d_outgoing = (self._operand(x.shape, x) for x in (gates, d_projected))
            d_x = paddle.empty_like(tensors.x) if self.index is None else None
            empty = partial(paddle.empty, dtype=cells.dtype)
            n, widths = self.batch_sizes[0], (cells.shape[1], saved["gemm_input"].shape[1])
            scratch = {"d_cell_output": empty([n + 4, widths[0]]), "d_gemm_input": empty([n, widths[1]])}
            inputs = {
                "initial_c": tensors.c.contiguous(),
                "outputs": outputs,
                "d_outputs": d_output.outputs.contiguous(),
            }
            results = {"d_h": d_h, "d_c": d_c, "d_projected": d_projected, "d_x": d_x, "d_bias": d_bias}
            results |= {"d_gates": d_gates, "d_outgoing": d_outgoing}
            weights = {
                "recurrent": self._packed(transposed=True),
                "up": self._packed(tensors.projection_weight, transposed=True),
            }
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
                d_input_weight, d_recurrent_weight = amp_matmul(tensors.x, d_gates, transpose_x=True), d_weight
            d_projection_weight = amp_matmul(saved["cell_output"], d_outgoing, transpose_x=True)
            return [LayerInput(d_x, d_h, d_c, d_input_weight, d_recurrent_weight, d_bias, d_projection_weight)]

    def _packed(self, *weights: paddle.Tensor, transposed: bool = False) -> fused.Packed:
        """A right-hand side of every step; without `weights`, what the kernel multiplies with h, or with x and h."""
        (tensors,) = self.directions
        recurrent = (*[tensors.input_weight] * (self.index is None), tensors.recurrent_weight)
        return packed(weights or recurrent, transposed, len(self.batch_sizes), sum(self.batch_sizes))

    def _operand(self, shape: Sequence[int], same: paddle.Tensor | None = None) -> paddle.Tensor:
        """Memory for operands of products; in float32, `same` if given."""
        if products.bfloat16_enabled():
            return paddle.empty(shape, "bfloat16")
        return paddle.empty(shape) if same is None else same


@functools.lru_cache(8)
def _forget_bias(cell_dim: int, value: float, dtype: paddle.dtype) -> paddle.Tensor:
    """What is added to the biases of the four gates (4H,)."""
    return paddle.to_tensor(np.repeat([0, 0, value, 0], cell_dim), dtype, place=paddle.CPUPlace())


class _StackedDirections:
    """All directions of a layer over one batch in Paddle operators, stacked on an axis D.

    On a GPU every operator is a kernel launch, and small models are bound by launches. So the loop over the steps has as
    few operators as possible: both directions and all four gates share each one, and whatever does not depend on the
    previous step is computed for all steps at once. Gates are the leading axis, so gates with the same activation are
    contiguous. `unbind`, slices and reshapes of contiguous tensors are views: writing into them writes into the whole.
    `split` copies.
    """

    def __init__(self, config: ELMoConfig, batch_sizes: Sequence[int], directions: Sequence[LayerInput]):
        self.config, self.directions = config, directions
        self.blocks = _blocks(batch_sizes, 4 * sum(direction.c.shape[1] for direction in directions))

    def forward(self, training: bool) -> list[LayerOutput]:
        inputs, *stacks = zip(*self.directions, strict=True)
        with paddle.no_grad():
            h, c, input_weight, recurrent_weight, bias, projection_weight = map(paddle.stack, stacks)
            input_weight, recurrent_weight = (  # (4, D, P, H)
                amp_operand(_gates_first(weight, "jifo")) for weight in (input_weight, recurrent_weight)
            )
            bias = _gates_first(bias.unsqueeze(1), "jifo")  # (4, D, 1, H)
            bias[2] += self.config.forget_bias
            projection_weight = amp_operand(projection_weight)
            self.saved, outputs, ended = [], [], []
            for first, steps, n in self.blocks:
                if n < h.shape[1]:
                    ended.append((h[:, n:], c[:, n:]))
                    h, c = h[:, :n], c[:, :n]
                x = paddle.stack([x[first : first + steps * n] for x in inputs])  # (D, t * n, P)
                gates = _gate_products(x, input_weight).reshape([4 * len(x), steps, -1])
                gates = gates.transpose([1, 0, 2]).contiguous()
                gates.reshape([steps, -1]).add_(bias.expand([4, len(x), n, c.shape[2]]).reshape([-1]))
                gates = gates.reshape([steps, 4, *c.shape])  # (t, 4, D, n, H)
                initial, cells, projected = (h, c), [], []
                step_gates, step_sigmoids = gates.unbind(), gates[:, 1:].unbind()
                single_gates = gates.reshape([4 * steps, *c.shape]).unbind()
                for k in range(steps):
                    step_gates[k].add_(_gate_products(h, recurrent_weight))
                    j, i, f, o = single_gates[4 * k : 4 * k + 4]  # (D, n, H)
                    j.tanh_()
                    step_sigmoids[k].sigmoid_()
                    c = (f * c).add_(i * j)
                    if self.config.cell_clip:
                        c = c.clip_(-self.config.cell_clip, self.config.cell_clip)
                    h = amp_matmul(o * c.tanh(), projection_weight)
                    if self.config.proj_clip:
                        h = h.clip_(-self.config.proj_clip, self.config.proj_clip)
                    cells.append(c)
                    projected.append(h)
                projected = paddle.stack(projected)  # (t, D, n, P)
                outputs.append(_steps_to_rows(projected))
                if training:
                    self.saved.append((initial, gates, cells, projected))
            ended.append((h, c))
            final_h, final_c = (_concat(parts[::-1]) for parts in zip(*ended, strict=True))
            return list(map(LayerOutput, _concat(outputs), final_h, final_c))

    def backward(self, gradients: list[LayerOutput]) -> list[LayerInput]:
        d_outputs, *d_final = zip(*gradients, strict=True)
        with paddle.no_grad():
            inputs, _, _, *weights = zip(*self.directions, strict=True)
            x, input_weight, recurrent_weight, _, projection_weight = map(paddle.stack, (inputs, *weights))
            recurrent_weight = amp_operand(_gates_first(recurrent_weight, "ijfo"))  # (4, D, P, H)
            projection_weight = amp_operand(projection_weight)
            d_final_h, d_final_c = map(paddle.stack, d_final)
            d_h, d_c = (d_state[:, : self.blocks[-1][2]] for d_state in (d_final_h, d_final_c))
            results = []
            for (first, steps, n), saved in zip(reversed(self.blocks), reversed(self.saved), strict=True):
                d_h, d_c = _append_ended(d_h, d_final_h, n), _append_ended(d_c, d_final_c, n)
                d_blocks = [d[first : first + steps * n].reshape([steps, n, -1]) for d in d_outputs]
                d_projected = paddle.stack(d_blocks, axis=1)  # (t, D, n, P)
                weights = recurrent_weight, projection_weight
                d_h, d_c, *rows = self._block_backward(d_projected, d_h, d_c, saved, *weights)
                results.append(rows)
            n_rows = d_final_h.shape[1]
            d_h, d_c = _append_ended(d_h, d_final_h, n_rows), _append_ended(d_c, d_final_c, n_rows)
            results = map(_concat, zip(*reversed(results), strict=True))
            d_gates, d_projected, cell_output, previous_h = results  # (D, M, .)
            ones = paddle.ones([1, d_gates.shape[1]], d_gates.dtype)
            d_stacked = LayerInput(
                x=amp_matmul(d_gates, input_weight, transpose_y=True),
                h=d_h,
                c=d_c,
                input_weight=amp_matmul(x, d_gates, transpose_x=True),
                recurrent_weight=amp_matmul(previous_h, d_gates, transpose_x=True),
                bias=paddle.matmul(ones, d_gates).squeeze(1),  # faster than a sum
                projection_weight=amp_matmul(cell_output, d_projected, transpose_x=True),
            )
            return list(map(LayerInput, *d_stacked))

    def _block_backward(self, d_projected, d_h, d_c, saved, recurrent_weight, projection_weight):
        """Backpropagate through a block. d_projected (t, D, n, P): its outputs' gradients, modified in place.

        Returns the gradients of the initial h and c; then, with the steps flattened into rows, those of the gates and of the
        projection's output, the projection's input, and each step's previous h.
        """
        (initial_h, initial_c), gates, cells, outputs = saved
        factors, cell_output = self._gradient_factors(gates, initial_c, cells)
        steps, _, *shape = factors.shape  # (t, 6, D, n, H)
        flat = factors.reshape([steps, 6, -1])  # other broadcasts are slow on CPUs
        # views of the factors: every product below replaces a factor by a gradient
        times_d_c, times_d_m = flat[:, :4].unbind(), flat[:, 4:].unbind()
        d_previous_c, d_c_from_m, d_gates = flat[:, 0].unbind(), flat[:, 5].unbind(), factors[:, 1:5].unbind()
        d_steps = d_projected.unbind()  # (D, n, P)
        proj_masks = _clip_mask(outputs, self.config.proj_clip).unbind() if self.config.proj_clip else None
        if self.config.cell_clip:
            d_c = d_c * _clip_mask(cells[-1], self.config.cell_clip)
        d_c = d_c.reshape([-1])
        for k in reversed(range(steps)):
            d_h = d_steps[k].add_(d_h)
            if proj_masks:
                d_h = d_h.multiply_(proj_masks[k])
            d_m = amp_matmul(d_h, projection_weight, transpose_y=True).reshape([-1])  # d_m = d_h W_p^T
            times_d_m[k].multiply_(d_m)  # d_o, and the part of d_c that comes through m
            times_d_c[k].multiply_(d_c_from_m[k].add_(d_c))  # d_c of the previous step, d_i, d_j, d_f
            d_c = d_previous_c[k]
            d_h = amp_matmul(d_gates[k], recurrent_weight, transpose_y=True).sum(0)  # of the previous step
        previous_h = paddle.concat([initial_h.unsqueeze(0), outputs[:-1]])
        d_gates = paddle.concat(factors.split(6, axis=1)[1:5], axis=4).squeeze(1)  # (t, D, n, 4H)
        rows = map(_steps_to_rows, (d_gates, d_projected, cell_output, previous_h))
        return d_h, d_c.reshape(shape), *rows

    def _gradient_factors(self, gates, initial_c, cells):
        """Elementwise factors of the backward pass for all steps of a block, and the projection's input m.

        factors (t, 6, D, n, H): 0-3 multiply d_c, giving the gradients of the previous c and of gates i, j, f; 4-5
        multiply d_m, giving those of gate o and of c. Cell clipping is included.
        """
        j, i, f, o = (gate.squeeze(1) for gate in gates.split(4, axis=1))  # (t, D, n, H)
        previous_c, c = paddle.stack([initial_c, *cells[:-1]]), paddle.stack(cells)
        tanh_c = c.tanh()
        for_i, for_j, for_f = j * (i - i * i), i * (1 - j * j), previous_c * (f - f * f)
        for_o, for_c, m = tanh_c * (o - o * o), o * (1 - tanh_c * tanh_c), o * tanh_c
        if self.config.cell_clip:
            mask = _clip_mask(c, self.config.cell_clip)
            for_c.multiply_(mask)
            if len(cells) > 1:  # clipping of the initial c belongs to the previous block
                f[1:].multiply_(mask[:-1])
        return paddle.stack([f, for_i, for_j, for_f, for_o, for_c], axis=1), m


def _blocks(batch_sizes: Sequence[int], width: int) -> list[tuple[int, int, int]]:
    """Group the steps into blocks with equally many rows: (first packed index, steps, rows).

    Gates of `width` elements per row fit MAX_GATE_ELEMENTS in each block of more than one step.
    """
    blocks, first = [], 0
    for n, group in itertools.groupby(batch_sizes):
        remaining, max_steps = len(list(group)), max(1, MAX_GATE_ELEMENTS // (n * width))
        while remaining:
            steps = min(remaining, max_steps)
            blocks.append((first, steps, n))
            first += n * steps
            remaining -= steps
    return blocks


def _gates_first(weights, order: str):
    """Weights of all directions (D, P, 4H) with the gates on the first axis, in this order: (4, D, P, H)."""
    gates = dict(zip("ijfo", weights.split(4, axis=2), strict=True))
    return paddle.stack([gates[name] for name in order])


def _gate_products(x, weights):
    """The products (4, D, n, H) of x (D, n, P) and each gate's weights (4, D, P, H).

    x is expanded explicitly: a broadcasting product makes the GPU wait for a list of addresses.
    """
    return amp_matmul(x.expand([4, *x.shape]), weights)


def _steps_to_rows(x):
    """Rearrange (t, D, n, W) as (D, t * n, W)."""
    steps, directions, n, width = x.shape
    return x.reshape([steps, directions, -1]).transpose([1, 0, 2]).reshape([directions, steps * n, width])


def _concat(tensors: Sequence[paddle.Tensor]):
    return tensors[0] if len(tensors) == 1 else paddle.concat(tensors, axis=1)


def _append_ended(d_state, d_final, n: int):
    """Extend a state's gradient (D, m, W) to n rows with the final-state gradients of the rows that end at this step."""
    m = d_state.shape[1]
    return d_state if m == n else paddle.concat([d_state, d_final[:, m:n]], axis=1)


def _clip_mask(x, clip: float):
    """1 where clipping changed nothing, 0 where it stops the gradient."""
    return (x.abs() < paddle.full([], clip, x.dtype)).astype(x.dtype)  # a plain number: Paddle 2 makes it a float32
