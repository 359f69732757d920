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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from elmo_core import fused
from elmo_core.runtime import in_parallel, operand, paddle, product

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
        return state if self._in_order else tuple(paddle.gather(part, paddle.to_tensor(self.order)) for part in state)

    def unsort(self, state: State) -> State:
        """A state's rows back in the given order."""
        if self._in_order:
            return state
        back = paddle.to_tensor(np.argsort(self.order))
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
    states: for each direction h (B, P) and c (B, H), rows in the packed order.
    Returns for each direction the outputs, packed (M, P), and the state each row ends with.
    """
    rows = rows or [None] * len(directions)
    fused.suits(inputs[0])  # the kernel is built here, once, and not by both directions' threads
    jobs = []
    for lstmp, x, index, (h, c) in zip(directions, inputs, rows, states, strict=True):
        jobs.append(_Direction(lstmp.cell, sizes, index, [x, h, c, *lstmp.weights()]))
    tensors = [tensor for job in jobs for tensor in job.tensors]
    if paddle.is_grad_enabled() and not all(tensor.stop_gradient for tensor in tensors):
        results = _LayerFunction.apply(jobs, *tensors)
    elif len(slices := _slices(sizes, 4 * states[0][1].shape[1])) > 1:
        return _run_in_slices(directions, inputs, states, sizes, rows, slices)
    else:
        results = _run_forward(jobs, training=False)
    outputs = [results[k] for k in range(0, len(results), 3)]
    return outputs, [(results[k + 1], results[k + 2]) for k in range(0, len(results), 3)]


def _run_in_slices(directions, inputs, states, sizes, rows, slices):
    """The same, some steps after others, so that very long rows need no more memory than others."""
    inputs = [x if index is None else paddle.gather(x, index) for x, index in zip(inputs, rows, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for first, last in slices:
        here = [x[offsets[first] : offsets[last]] for x in inputs]
        outputs, states = run_layer(directions, here, states, sizes[first:last])
        parts.append(outputs)
    return [paddle.concat(one) for one in zip(*parts, strict=True)], states


def _slices(sizes: Sequence[int], width: int) -> list[tuple[int, int]]:
    """Cut the steps where the input gates, so wide, would take more than INPUT_GATES_AT_ONCE; a step is never cut."""
    cuts, held = [0], 0
    for t, n in enumerate(sizes):
        if held and (held + n) * width > INPUT_GATES_AT_ONCE:
            cuts.append(t)
            held = 0
        held += n
    return list(itertools.pairwise([*cuts, len(sizes)]))


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
        triples = [gradients[k : k + 3] for k in range(0, len(gradients), 3)]
        tasks = [lambda j=job, g=g: j.backward(*g) for job, g in zip(ctx.jobs, triples, strict=True)]
        return tuple(gradient for group in in_parallel(tasks) for gradient in group)


def _run_forward(jobs, training: bool) -> list[paddle.Tensor]:
    groups = in_parallel([lambda j=job: j.forward(training) for job in jobs])
    return [tensor for group in groups for tensor in group]


class _Direction:
    """One direction of one layer over one batch: its tensors, and what the backward pass needs of the forward."""

    def __init__(self, cell: Cell, sizes: Sequence[int], index: paddle.Tensor | None, tensors):
        self.cell, self.sizes, self.index, self.tensors = cell, sizes, index, tensors
        self.offsets = [0, *np.cumsum(sizes).tolist()]
        self.wanted: list[bool] = []

    def forward(self, training: bool) -> tuple[paddle.Tensor, ...]:
        """Outputs (M, P), last h (B, P), last c (B, H)."""
        with paddle.no_grad():
            x, h, c, input_weight, recurrent_weight, _, projection_weight = self.tensors
            if not self.sizes:
                return paddle.zeros_like(x[:0]), h.clone(), c.clone()
            if fused.suits(x):
                return self._forward_fused(training)
            input_gates = product(x, input_weight).add_(self._whole_bias())
            recurrent_weight, projection_weight = operand(recurrent_weight), operand(projection_weight)
            outputs, ended, steps = [], [], []
            for t, n in enumerate(self.sizes):
                if n < len(h):
                    ended.append((h[n:], c[n:]))
                    h, c = h[:n], c[:n]
                gates = product(h, recurrent_weight).add_(self._at(t, input_gates))
                step = _Step.forward(gates, c, self.cell)
                h = product(step.m, projection_weight)
                if self.cell.proj_clip:
                    h = h.clip_(-self.cell.proj_clip, self.cell.proj_clip)
                c = step.c
                outputs.append(h)
                if training:
                    steps.append(step)
            outputs = paddle.concat(outputs)
            if training:
                self.steps, self.outputs = steps, outputs.detach()  # the tensor itself would close a circle
            ended.append((h, c))
            last_h, last_c = (paddle.concat(parts[::-1]) for parts in zip(*ended, strict=True))
            return outputs, last_h, last_c

    def backward(self, d_outputs, d_last_h, d_last_c) -> tuple[paddle.Tensor | None, ...]:
        """Gradients of x, h, c, W_x, W_h, b, W_p; None for those not wanted."""
        with paddle.no_grad():
            x, first_h, *_ = self.tensors
            if not self.sizes:
                gradients = (x * 0, d_last_h, d_last_c, *(weight * 0 for weight in self.tensors[3:]))
            elif fused.suits(x):
                gradients = self._backward_fused(d_outputs, d_last_h, d_last_c)
            else:
                d_gates, d_projected, m, d_h, d_c = self._backward_steps(d_outputs, d_last_h, d_last_c)
                d_x, d_input_weight = self._through_input(d_gates)
                d_recurrent_weight = product(self._previous_outputs(first_h), d_gates, transpose_x=True)
                d_projection_weight = product(m, d_projected, transpose_x=True)
                gradients = (d_x, d_h, d_c, d_input_weight, d_recurrent_weight, d_gates.sum(0), d_projection_weight)
            return tuple(g if want else None for g, want in zip(gradients, self.wanted, strict=True))

    def _backward_steps(self, d_outputs, d_last_h, d_last_c) -> tuple[paddle.Tensor, ...]:
        """Gradients of the gates (M, 4H) and of what was projected (M, P), what was projected (M, H), d_h and d_c."""
        _, _, first_c, _, recurrent_weight, _, projection_weight = self.tensors
        recurrent_weight, projection_weight = operand(recurrent_weight), operand(projection_weight)
        d_h, d_c = d_last_h[:0], d_last_c[:0]
        d_gates, d_projected = [], []
        for t in reversed(range(len(self.sizes))):
            a, b, n = self.offsets[t], self.offsets[t + 1], self.sizes[t]
            if n > len(d_h):  # rows whose last step this is
                d_h = paddle.concat([d_h, d_last_h[len(d_h) : n]])
                d_c = paddle.concat([d_c, d_last_c[len(d_c) : n]])
            d_h = d_h + d_outputs[a:b]
            if self.cell.proj_clip:
                d_h = d_h * (self.outputs[a:b].abs() < self.cell.proj_clip).astype(d_h.dtype)
            d_m = product(d_h, projection_weight, transpose_y=True)
            previous_c = self.steps[t - 1].c[:n] if t else first_c[:n]
            d_gate, d_c = self.steps[t].backward(d_m, d_c, previous_c, self.cell)
            d_projected.append(d_h)
            d_gates.append(d_gate)
            d_h = product(d_gate, recurrent_weight, transpose_y=True)
        if len(d_h) < len(d_last_h):  # rows without a single step
            d_h = paddle.concat([d_h, d_last_h[len(d_h) :]])
            d_c = paddle.concat([d_c, d_last_c[len(d_c) :]])
        m = paddle.concat([step.m for step in self.steps])
        return paddle.concat(d_gates[::-1]), paddle.concat(d_projected[::-1]), m, d_h, d_c

    def _forward_fused(self, training: bool) -> tuple[paddle.Tensor, ...]:
        """`forward` by the compiled loop."""
        x, h, c, input_weight, recurrent_weight, _, projection_weight = self.tensors
        if self.index is None:  # x is multiplied together with h
            inputs, weight = self._whole_bias(), paddle.concat([input_weight, recurrent_weight])
        else:
            inputs, weight, x = product(x, input_weight).add_(self._whole_bias()), recurrent_weight, None
        h, c = h.clone(), c.clone()
        (n_places, cell_dim), empty = (self.offsets[-1], c.shape[1]), partial(paddle.empty, dtype=h.dtype)
        room = n_places if training else self.sizes[0]
        outputs, read = empty([n_places, h.shape[1]]), empty([room, len(weight)])
        sums, m = empty([self.sizes[0], 4 * cell_dim]), empty([room, cell_dim])
        gates, cells = (empty([n_places, width]) if training else None for width in (4 * cell_dim, cell_dim))
        given = (inputs, self.index, x, weight, projection_weight, self.cell.cell_clip, self.cell.proj_clip)
        made = (h, c, outputs, sums, read, m, gates, cells)
        fused.kernel().lstmp_forward(self.sizes, projection_weight.shape, *given, *made)
        if training:  # the tensor of the outputs itself would close a circle that is never freed
            self.saved = weight, read, gates, m, cells, outputs.detach()
        return outputs, h, c

    def _backward_fused(self, d_outputs, d_last_h, d_last_c) -> tuple[paddle.Tensor, ...]:
        """`backward` by the compiled loop, which puts the gates' gradients where their activations were."""
        x, _, first_c, _, _, bias, projection_weight = self.tensors
        weight, read, gates, m, cells, outputs = self.saved
        d_h, d_c, d_projected, d_bias = (
            d_last_h.clone(),
            d_last_c.clone(),
            paddle.empty_like(outputs),
            paddle.empty_like(bias),
        )
        d_x = paddle.empty_like(x) if self.index is None else None
        d_m = paddle.empty([self.sizes[0], cells.shape[1]], dtype=cells.dtype)
        d_read = paddle.empty([self.sizes[0], len(weight)], dtype=cells.dtype)
        given = (weight, projection_weight, self.cell.cell_clip, self.cell.proj_clip)
        given += (first_c.contiguous(), outputs, d_outputs.contiguous(), cells)
        made = (gates, d_h, d_c, d_projected, d_x, d_bias, d_m, d_read)
        fused.kernel().lstmp_backward(self.sizes, projection_weight.shape, *given, *made)
        d_weight = product(read, gates, transpose_x=True)
        if d_x is None:
            d_x, d_input_weight = self._through_input(gates)
            d_recurrent_weight = d_weight
        else:
            d_input_weight, d_recurrent_weight = d_weight.split(2)
        d_projection_weight = product(m, d_projected, transpose_x=True)
        return d_x, d_h, d_c, d_input_weight, d_recurrent_weight, d_bias, d_projection_weight

    def _whole_bias(self):
        """The bias of the four gates, the forget bias included. (4H,)"""
        bias = self.tensors[5]
        cell_dim = len(bias) // 4
        forget = paddle.zeros_like(bias)
        forget[2 * cell_dim : 3 * cell_dim] = self.cell.forget_bias
        return bias + forget

    def _at(self, t: int, input_gates):
        a, b = self.offsets[t], self.offsets[t + 1]
        if self.index is None:
            return input_gates[a:b]
        return paddle.gather(input_gates, self.index[a:b])

    def _through_input(self, d_gates):
        """Gradients of x and of the input's weight, those of places that read the same input summed first."""
        x, input_weight = self.tensors[0], self.tensors[3]
        if self.index is not None:
            zeros = paddle.zeros([len(x), d_gates.shape[1]], d_gates.dtype)
            d_gates = zeros.index_add_(self.index, 0, d_gates)
        return product(d_gates, input_weight, transpose_y=True), product(x, d_gates, transpose_x=True)

    def _previous_outputs(self, first_h):
        """For every packed place the h its step started from. (M, P)"""
        parts = [first_h[: self.sizes[0]]]
        parts += [self.outputs[self.offsets[t - 1] :][:n] for t, n in enumerate(self.sizes) if t]
        return paddle.concat(parts)


@dataclass
class _Step:
    """One step's gates after their activations, and what they made of the cell. All (n, H)."""

    i: paddle.Tensor
    j: paddle.Tensor
    f: paddle.Tensor
    o: paddle.Tensor
    c: paddle.Tensor
    tanh_c: paddle.Tensor
    m: paddle.Tensor  # what is projected: o * tanh(c)

    @classmethod
    def forward(cls, gates: paddle.Tensor, c: paddle.Tensor, cell: Cell) -> "_Step":
        """gates: (n, 4H) before the activations; c: (n, H) of the step before."""
        i, j, f, o = gates.split(4, axis=1)
        i, j = i.sigmoid_(), j.tanh_()
        f, o = f.sigmoid_(), o.sigmoid_()
        c = (f * c).add_(i * j)
        if cell.cell_clip:
            c = c.clip_(-cell.cell_clip, cell.cell_clip)
        tanh_c = c.tanh()
        return cls(i, j, f, o, c, tanh_c, o * tanh_c)

    def backward(self, d_m, d_c, previous_c, cell: Cell):
        """Gradient of the gates before their activations (n, 4H), and of the step before's c (n, H)."""
        d_o = d_m * self.tanh_c
        d_c = d_c + d_m * self.o * (1 - self.tanh_c * self.tanh_c)
        if cell.cell_clip:
            d_c = d_c * (self.c.abs() < cell.cell_clip).astype(d_c.dtype)
        d_gates = [
            d_c * self.j * self.i * (1 - self.i),
            d_c * self.i * (1 - self.j * self.j),
            d_c * previous_c * self.f * (1 - self.f),
            d_o * self.o * (1 - self.o),
        ]
        return paddle.concat(d_gates, axis=1), d_c * self.f
