"""The projected LSTM (LSTMP) with cell and projection clips, over ragged rows, with its own backward pass.

    i, j, f, o = split(x W_x + h W_h + b)
    c = clip(sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j), +-cell_clip)
    h = clip((sigmoid(o) * tanh(c)) W_p, +-proj_clip)

Letters: B rows, T steps, P projection, H cell, N input vectors, M = sum of all row lengths.

Rows are packed: the longest first, and of step t only the n_t rows that still live, one step after another:

    row 0:  a b c d        steps:  a e h | b f i | c g | d       sizes: 3 3 2 1
    row 1:  e f g          packed: (M, .) with no padding anywhere
    row 2:  h i

So padding costs nothing, and the state a row ends with is that of its own last step. The input may be given as N
vectors and M row numbers into them: then the input product is made once for each vector, however often it is read.

Why an own backward: automatic differentiation through the loop makes a product for each weight at each step and adds
them up. Here the loop only leaves the gradients of the gates behind, and each weight's gradient is one product. Like any
PyLayer of Paddle 3, it cannot be differentiated twice (Paddle crashes on a second pass over a retained graph).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from elmo_core.machine.products import amp_matmul, amp_operand
from elmo_core.machine.runtime import paddle, run_in_parallel, to_tensor
from elmo_core.network import fused

INPUT_GATES_AT_ONCE = 2**26  # elements, 256 MB of float32: what inference holds of one direction's input products
State = tuple[paddle.Tensor, paddle.Tensor]  # h (B, P) and c (B, H)


@dataclass(frozen=True)
class Cell:
    """What of a cell is not learnt. A clip of 0 means none."""

    forget_bias: float = 1.0
    cell_clip: float = 3.0
    proj_clip: float = 3.0


class LSTMP(paddle.nn.Layer):
    """The weights of one direction of one layer, gates in the order i, j, f, o."""

    def __init__(self, input_dim: int, cell_dim: int, cell: Cell):
        super().__init__()
        self.cell = cell
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
    """How rows of given lengths are packed. All on the host: the loop over the steps never asks the device."""

    order: np.ndarray  # (B,) the rows, longest first
    sizes: list[int]  # (T,) rows alive at each step
    offsets: np.ndarray  # (T + 1,) where each step begins in the packed rows
    row: np.ndarray  # (M,) of each packed place, its row among the given ones
    step: np.ndarray  # (M,) and its step

    @classmethod
    def of(cls, lengths: np.ndarray) -> "Packing":
        lengths = np.asarray(lengths)
        order = np.argsort(-lengths, kind="stable")
        longest = int(lengths.max(initial=0))
        # how many rows are longer than t, for every t
        sizes = len(lengths) - np.searchsorted(np.sort(lengths), np.arange(longest), side="right")
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        step = np.repeat(np.arange(longest), sizes)
        row = order[np.arange(len(step)) - offsets[step]]
        return cls(order, sizes.tolist(), offsets, row, step)

    def word_places(self, n_words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the outputs of every row's words are, forward and backward (B, T), and the mask (B, T) of real words.

        Step 0 of a row is its marker, step k the k-th word from the direction's own start; T is the longest row's words.
        """
        rank = np.argsort(self.order)[:, None]
        step, left = np.arange(n_words.max(initial=0)), n_words[:, None]
        mask = step < left
        forward = self.offsets[np.where(mask, 1 + step, 0)] + rank
        backward = self.offsets[np.where(mask, left - step, 0)] + rank
        return forward * mask, backward * mask, mask

    def sort(self, state: State) -> State:
        """A state's rows in the packed order."""
        return state if self._in_order else tuple(paddle.gather(part, to_tensor(self.order)) for part in state)

    def unsort(self, state: State) -> State:
        """A state's rows back in the given order."""
        if self._in_order:
            return state
        back = to_tensor(np.argsort(self.order))
        return tuple(paddle.gather(part, back) for part in state)

    @property
    def _in_order(self) -> bool:
        return bool((np.diff(self.order) > 0).all())


def run_layer(
    directions: Sequence[LSTMP],
    inputs: Sequence[paddle.Tensor],
    states: Sequence[State],
    sizes: Sequence[int],
    rows: Sequence[paddle.Tensor | None] | None = None,
) -> tuple[list[paddle.Tensor], list[State]]:
    """Run the directions of one layer side by side.

    inputs: for each direction packed (M, P), or (N, P) where `rows` gives the (M,) row numbers into it.
    states: for each direction h (B, P) and c (B, H), rows in the packed order. There is at least one step.
    Returns for each direction the outputs, packed (M, P), and the state each row ends with.
    """
    rows = rows or [None] * len(directions)
    tensors = [[x, *state, *lstmp.weights()] for lstmp, x, state in zip(directions, inputs, states, strict=True)]
    cell, is_fused = directions[0].cell, fused.suits(inputs[0])
    training = paddle.is_grad_enabled() and not all(tensor.stop_gradient for one in tensors for tensor in one)
    fits = len(inputs[0]) * 4 * states[0][1].shape[1] <= INPUT_GATES_AT_ONCE
    if not (is_fused and (fits or training)):
        for one, index in zip(tensors, rows, strict=True):
            one[0] = one[0] if index is None else paddle.gather(one[0], index)
        rows = [None] * len(directions)
    if is_fused:
        jobs = [_Direction(cell, sizes, index, one) for index, one in zip(rows, tensors, strict=True)]
    else:
        jobs = [_Stacked(cell, sizes, tensors)]
    tensors = [tensor for job in jobs for tensor in job.tensors]
    results = _LayerFunction.apply(jobs, *tensors) if training else _run_forward(jobs, training=False)
    outputs = [results[k] for k in range(0, len(results), 3)]
    return outputs, [(results[k + 1], results[k + 2]) for k in range(0, len(results), 3)]


class _LayerFunction(paddle.autograd.PyLayer):
    """One layer's directions as one differentiable operation: 7 tensors in and 3 out for each direction."""

    @staticmethod
    def forward(ctx, jobs, *tensors):
        ctx.jobs = jobs
        for job in jobs:
            job.wanted = [not tensor.stop_gradient for tensor in job.tensors]
        return tuple(_run_forward(jobs, training=True))

    @staticmethod
    def backward(ctx, *gradients):
        share = len(gradients) // len(ctx.jobs)
        groups = [gradients[k : k + share] for k in range(0, len(gradients), share)]
        tasks = [lambda j=job, g=g: j.backward(*g) for job, g in zip(ctx.jobs, groups, strict=True)]
        return tuple(gradient for group in run_in_parallel(tasks) for gradient in group)


def _run_forward(jobs, training: bool) -> list[paddle.Tensor]:
    groups = run_in_parallel([lambda j=job: j.forward(training) for job in jobs])
    return [tensor for group in groups for tensor in group]


class _Direction:
    """One direction of one layer over one batch by the compiled loops, and what the backward pass needs of the forward."""

    def __init__(self, cell: Cell, sizes: Sequence[int], index: paddle.Tensor | None, tensors):
        self.cell, self.sizes, self.index, self.tensors = cell, sizes, index, tensors
        self.wanted: list[bool] = []

    def forward(self, training: bool) -> tuple[paddle.Tensor, ...]:
        """Outputs (M, P), last h (B, P), last c (B, H)."""
        x, h, c, input_weight, recurrent_weight, bias, _ = self.tensors
        with paddle.no_grad():
            cell_dim = c.shape[1]
            forget = paddle.zeros_like(bias)
            forget[2 * cell_dim : 3 * cell_dim] = self.cell.forget_bias
            bias = bias + forget
            if self.index is None:  # x is multiplied together with h
                inputs, weight = bias, paddle.concat([input_weight, recurrent_weight])
            else:
                inputs, weight, x = amp_matmul(x, input_weight).add_(bias), recurrent_weight, None
            h, c = h.clone(), c.clone()
            n_places, empty = sum(self.sizes), partial(paddle.empty, dtype=h.dtype)
            room = n_places if training else self.sizes[0]
            outputs, read = empty([n_places, h.shape[1]]), empty([room, len(weight)])
            sums, m = empty([self.sizes[0], 4 * cell_dim]), empty([room, cell_dim])
            gates, cells = (empty([n_places, width]) if training else None for width in (4 * cell_dim, cell_dim))
            buffers = {"outputs": outputs, "sums": sums, "read": read, "m": m, "gates": gates, "cells": cells}
            given = {"inputs": inputs, "rows": self.index, "x": x, "h": h, "c": c}
            fused.kernel().lstmp_forward(**self._arguments(weight), **given, **buffers)
            if training:  # the tensor of the outputs itself would close a circle that is never freed
                self.saved = weight, read, gates, m, cells, outputs.detach()
            return outputs, h, c

    def backward(self, d_outputs, d_last_h, d_last_c) -> tuple[paddle.Tensor | None, ...]:
        """Gradients of x, h, c, W_x, W_h, b, W_p; None for those not wanted."""
        x, _, first_c, input_weight, _, bias, _ = self.tensors
        with paddle.no_grad():
            weight, read, gates, m, cells, outputs = self.saved
            d_h, d_c = d_last_h.clone(), d_last_c.clone()
            d_projected, d_bias = paddle.empty_like(outputs), paddle.empty_like(bias)
            d_x = paddle.empty_like(x) if self.index is None else None
            d_m = paddle.empty([self.sizes[0], cells.shape[1]], dtype=cells.dtype)
            d_read = paddle.empty([self.sizes[0], len(weight)], dtype=cells.dtype)
            given = {"first_c": first_c.contiguous(), "outputs": outputs, "d_outputs": d_outputs.contiguous()}
            made = {"gates": gates, "d_h": d_h, "d_c": d_c, "d_projected": d_projected, "d_x": d_x, "d_bias": d_bias}
            room = {"cells": cells, "d_m": d_m, "d_read": d_read}
            fused.kernel().lstmp_backward(**self._arguments(weight), **given, **made, **room)
            d_weight = amp_matmul(read, gates, transpose_x=True)
            if d_x is None:  # the gradients of places that read the same input are summed first
                zeros = paddle.zeros([len(x), gates.shape[1]], gates.dtype)
                d_gates = zeros.index_add_(self.index, 0, gates)
                d_x = amp_matmul(d_gates, input_weight, transpose_y=True)
                d_input_weight, d_recurrent_weight = amp_matmul(x, d_gates, transpose_x=True), d_weight
            else:
                d_input_weight, d_recurrent_weight = d_weight.split(2)
            d_weights = d_input_weight, d_recurrent_weight, d_bias, amp_matmul(m, d_projected, transpose_x=True)
            return _wanted((d_x, d_h, d_c, *d_weights), self.wanted)

    def _arguments(self, weight: paddle.Tensor) -> dict:
        """Those of both loops."""
        projection = self.tensors[-1]
        (H, P), steps = projection.shape, len(self.sizes)
        clips = {"cell_clip": self.cell.cell_clip or math.inf, "proj_clip": self.cell.proj_clip or math.inf}
        return {
            "steps": steps,
            "sizes": self.sizes,
            "P": P,
            "H": H,
            "weight": weight,
            "projection": projection,
            **clips,
        }


def _wanted(gradients: Sequence[paddle.Tensor], wanted: Sequence[bool]) -> tuple[paddle.Tensor | None, ...]:
    return tuple(gradient if want else None for gradient, want in zip(gradients, wanted, strict=True))


class _Stacked:
    """All directions of a layer over one batch in Paddle operators, stacked on an axis D.

    On a GPU every operator is a kernel launch, and small models are bound by launches. So the loop over steps has as few
    operators as possible: both directions and all four gates share each one, and whatever does not depend on the previous
    step is computed for all steps at once. Gates are the leading axis, so gates with the same activation are contiguous.
    `unbind`, slices and reshapes of contiguous tensors are views: writing into them writes into the whole. `split` copies.
    """

    def __init__(self, cell: Cell, sizes: Sequence[int], directions: Sequence[Sequence[paddle.Tensor]]):
        self.cell, self.directions = cell, directions
        self.tensors = [tensor for tensors in directions for tensor in tensors]
        self.blocks = _blocks(sizes, 4 * sum(c.shape[1] for _, _, c, *_ in directions))
        self.wanted: list[bool] = []

    def forward(self, training: bool) -> tuple[paddle.Tensor, ...]:
        """Of each direction: outputs (M, P), last h (B, P), last c (B, H)."""
        inputs, *stacks = zip(*self.directions, strict=True)
        with paddle.no_grad():
            h, c, input_weight, recurrent_weight, bias, projection_weight = map(paddle.stack, stacks)
            input_weight, recurrent_weight = (  # (4, D, P, H)
                amp_operand(_gates_first(weight, "jifo")) for weight in (input_weight, recurrent_weight)
            )
            bias = _gates_first(bias.unsqueeze(1), "jifo")  # (4, D, 1, H)
            bias[2] += self.cell.forget_bias
            projection_weight = amp_operand(projection_weight)
            self.saved, outputs, ended = [], [], []
            for first, steps, n in self.blocks:
                if n < h.shape[1]:
                    ended.append((h[:, n:], c[:, n:]))
                    h, c = h[:, :n], c[:, :n]
                x = paddle.stack([x[first : first + steps * n] for x in inputs])  # (D, t * n, P)
                gates = _of_gates(x, input_weight).reshape([4 * len(x), steps, -1]).transpose([1, 0, 2]).contiguous()
                gates.reshape([steps, -1]).add_(bias.expand([4, len(x), n, c.shape[2]]).reshape([-1]))
                gates = gates.reshape([steps, 4, *c.shape])  # (t, 4, D, n, H)
                start, cells, projected = (h, c), [], []
                sums, sigmoids = gates.unbind(), gates[:, 1:].unbind()
                alone = gates.reshape([4 * steps, *c.shape]).unbind()
                for k in range(steps):
                    sums[k].add_(_of_gates(h, recurrent_weight))
                    j, i, f, o = alone[4 * k : 4 * k + 4]  # (D, n, H)
                    j.tanh_()
                    sigmoids[k].sigmoid_()
                    c = (f * c).add_(i * j)
                    if self.cell.cell_clip:
                        c = c.clip_(-self.cell.cell_clip, self.cell.cell_clip)
                    h = amp_matmul(o * c.tanh(), projection_weight)
                    if self.cell.proj_clip:
                        h = h.clip_(-self.cell.proj_clip, self.cell.proj_clip)
                    cells.append(c)
                    projected.append(h)
                whole = paddle.stack(projected)  # (t, D, n, P)
                outputs.append(_in_rows(whole))
                if training:
                    self.saved.append((start, gates, cells, whole))
            ended.append((h, c))
            last_h, last_c = (_joined(parts[::-1], axis=1) for parts in zip(*ended, strict=True))
            outputs = _joined(outputs, axis=1)
            return tuple(part for made in zip(outputs, last_h, last_c, strict=True) for part in made)

    def backward(self, *gradients) -> tuple[paddle.Tensor | None, ...]:
        """Gradients of each direction's x, h, c, W_x, W_h, b, W_p; None for those not wanted."""
        d_outputs, *d_last = (gradients[k::3] for k in range(3))
        with paddle.no_grad():
            inputs, _, _, *weights = zip(*self.directions, strict=True)
            x, input_weight, recurrent_weight, _, projection_weight = map(paddle.stack, (inputs, *weights))
            by_gate = amp_operand(_gates_first(recurrent_weight, "ijfo"))  # (4, D, P, H)
            projection_weight = amp_operand(projection_weight)
            d_last_h, d_last_c = (paddle.stack(parts) for parts in d_last)
            d_h, d_c = (part[:, : self.blocks[-1][2]] for part in (d_last_h, d_last_c))
            collected = []
            for (first, steps, n), saved in zip(reversed(self.blocks), reversed(self.saved), strict=True):
                d_h, d_c = _with_ended(d_h, d_last_h, n), _with_ended(d_c, d_last_c, n)
                places = [x[first : first + steps * n].reshape([steps, n, -1]) for x in d_outputs]
                d_projected = paddle.stack(places, axis=1)  # (t, D, n, P)
                made = self._block_backward(d_projected, d_h, d_c, saved, by_gate, projection_weight)
                d_h, d_c, *rows = made
                collected.append(rows)
            d_h, d_c = _with_ended(d_h, d_last_h, len(gradients[1])), _with_ended(d_c, d_last_c, len(gradients[2]))
            parts = zip(*reversed(collected), strict=True)
            d_gates, d_projected, m, previous_h = (_joined(part, axis=1) for part in parts)  # (D, M, .)
            made = (
                amp_matmul(d_gates, input_weight, transpose_y=True),
                d_h,
                d_c,
                amp_matmul(x, d_gates, transpose_x=True),
                amp_matmul(previous_h, d_gates, transpose_x=True),
                paddle.matmul(paddle.ones([1, d_gates.shape[1]], d_gates.dtype), d_gates).squeeze(1),  # a sum is slow
                amp_matmul(m, d_projected, transpose_x=True),
            )
            return _wanted([gradient for group in zip(*made, strict=True) for gradient in group], self.wanted)

    def _block_backward(self, d_projected, d_h, d_c, saved, recurrent_weight, projection_weight):
        """Through a block's steps, from d_projected (t, D, n, P), the gradients of its outputs, which it changes.

        Returns the gradients of the h and c that it started from and, in rows, of the gates (D, t * n, 4H), of what was
        projected (P), what was projected (H) and the h that each step started from (P).
        """
        (first_h, first_c), gates, cells, outputs = saved
        slots, m = self._factors(gates, first_c, cells)
        steps, _, *shape = slots.shape  # (t, 6, D, n, H)
        flat = slots.reshape([steps, 6, -1])  # of equal shapes or with a vector: a CPU is slow to broadcast others
        through_c, through_m = flat[:, :4].unbind(), flat[:, 4:].unbind()
        to_previous, to_c, d_gates = flat[:, 0].unbind(), flat[:, 5].unbind(), slots[:, 1:5].unbind()
        d_steps = d_projected.unbind()  # (D, n, P)
        inside = _inside(outputs, self.cell.proj_clip).unbind() if self.cell.proj_clip else None
        if self.cell.cell_clip:
            d_c = d_c * _inside(cells[-1], self.cell.cell_clip)
        d_c = d_c.reshape([-1])
        for k in reversed(range(steps)):
            d_h = d_steps[k].add_(d_h)
            if inside:
                d_h = d_h.multiply_(inside[k])
            through_m[k].multiply_(amp_matmul(d_h, projection_weight, transpose_y=True).reshape([-1]))
            through_c[k].multiply_(to_c[k].add_(d_c))
            d_c = to_previous[k]
            d_h = amp_matmul(d_gates[k], recurrent_weight, transpose_y=True).sum(0)
        previous_h = paddle.concat([first_h.unsqueeze(0), outputs[:-1]])
        d_gates = paddle.concat(slots.split(6, axis=1)[1:5], axis=4).squeeze(1)  # (t, D, n, 4H)
        return d_h, d_c.reshape(shape), *map(_in_rows, (d_gates, d_projected, m, previous_h))

    def _factors(self, gates, first_c, cells):
        """By what a step's d_c and d_m are multiplied, for all steps of a block at once; and what was projected.

        Slots (t, 6, D, n, H): d_c by the first four, giving the gradients of the step before's c and of the gates i, j and
        f; d_m by the last two, giving those of the gate o and of c. A clip of the cells is part of them.
        """
        j, i, f, o = (part.squeeze(1) for part in gates.split(4, axis=1))  # (t, D, n, H)
        previous_c, c = paddle.stack([first_c, *cells[:-1]]), paddle.stack(cells)
        tanh_c = c.tanh()
        through_i, through_j, through_f = j * (i - i * i), i * (1 - j * j), previous_c * (f - f * f)
        through_o, to_c, m = tanh_c * (o - o * o), o * (1 - tanh_c * tanh_c), o * tanh_c
        if self.cell.cell_clip:
            inside = _inside(c, self.cell.cell_clip)
            to_c.multiply_(inside)
            if len(cells) > 1:  # what the block started from is the business of the block before
                f[1:].multiply_(inside[:-1])
        return paddle.stack([f, through_i, through_j, through_f, through_o, to_c], axis=1), m


def _blocks(sizes: Sequence[int], width: int) -> list[tuple[int, int, int]]:
    """The steps in blocks of equally many rows: of each its first place, steps and rows.

    None is longer than what INPUT_GATES_AT_ONCE allows for gates so wide.
    """
    blocks, place = [], 0
    for n, group in itertools.groupby(sizes):
        left, most = len(list(group)), max(1, INPUT_GATES_AT_ONCE // (n * width))
        while left:
            blocks.append((place, min(left, most), n))
            place += n * blocks[-1][1]
            left -= blocks[-1][1]
    return blocks


def _gates_first(weights, order: str):
    """Weights of all directions (D, P, 4H) with the gates on the first axis, in this order: (4, D, P, H)."""
    gates = dict(zip("ijfo", weights.split(4, axis=2), strict=True))
    return paddle.stack([gates[name] for name in order])


def _of_gates(x, weights):
    """The products (4, D, n, H) of x (D, n, P) and each gate's weights (4, D, P, H).

    x is repeated first: a product that repeats it by itself has a GPU wait for a list of addresses.
    """
    return amp_matmul(x.expand([4, *x.shape]), weights)


def _in_rows(x):
    """(t, D, n, W) as (D, t * n, W)."""
    steps, directions, n, width = x.shape
    return x.reshape([steps, directions, -1]).transpose([1, 0, 2]).reshape([directions, steps * n, width])


def _joined(parts: Sequence[paddle.Tensor], axis: int):
    return parts[0] if len(parts) == 1 else paddle.concat(parts, axis)


def _with_ended(d_state, d_last, n: int):
    """The gradient of a state (D, m, W), and of the n rows those whose last step this is."""
    m = d_state.shape[1]
    return d_state if m == n else paddle.concat([d_state, d_last[:, m:n]], axis=1)


def _inside(x, clip: float):
    """1 where a clip has changed nothing, and 0 where it stops the gradient."""
    return (x.abs() < paddle.full([], clip, x.dtype)).astype(x.dtype)  # a number alone: Paddle 2 makes it a float32
