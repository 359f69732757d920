"""The operators of exported networks, for Paddle Inference. onnx_graph.py has the same for ONNX."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.machine.runtime import paddle

# A graph's array, with + - * / < >=; numbers in these become constants of its type.
Array = Any
# Of an array: a number, a `size` that is known only at run time, or -1 for the rest.
Dims = Sequence[Any]
# Maps an array x_t and the states to an output and the next states.
Step = Callable[..., tuple[Array, Sequence[Array]]]

functional = paddle.nn.functional
static = paddle.static
tensor_array = paddle.tensor.array


@contextmanager
def paddle_graph(path: Path) -> Iterator["PaddleGraph"]:
    """Yield a graph to fill. At the end of the block it is written.

    The files are PATH.pdiparams and PATH.json, or PATH.pdmodel before Paddle 3.
    """
    paddle.enable_static()
    try:
        program = static.Program()
        with static.program_guard(program, static.Program()), static.scope_guard(static.Scope()):
            graph = PaddleGraph()
            yield graph
            executor = static.Executor(paddle.CPUPlace())
            static.save_inference_model(
                path_prefix=str(path),
                feed_vars=graph.inputs,
                fetch_vars=graph.outputs,
                executor=executor,
                program=program,
            )
    finally:
        paddle.disable_static()


class PaddleGraph:
    """A graph under construction.

    In a sum or product of floats, broadcast only one of the two: if both are, as in
    (n, 1) + (1, m), Paddle 3.3 with oneDNN computes wrong numbers.
    """

    def __init__(self) -> None:
        self.inputs: list[Array] = []
        self.outputs: list[Array] = []

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Array:
        """Add an input. shape: dimensions that are known only at run time have names."""
        dims = [-1 if isinstance(n, str) else n for n in shape]
        x = static.data(name, dims, dtype)
        self.inputs.append(x)
        return x

    def output(self, name: str, x: Array, shape: Sequence[int | str]) -> None:
        """Make x the next output. Paddle names it itself, and finds its shape."""
        self.outputs.append(x)

    def weight(self, array: np.ndarray) -> Array:
        """Add an array to the graph."""
        zero = paddle.nn.initializer.Constant(0)
        weight = static.create_parameter(
            list(array.shape), str(array.dtype), default_initializer=zero
        )
        tensor = static.global_scope().var(weight.name).get_tensor()
        tensor.set(np.ascontiguousarray(array), paddle.CPUPlace())
        return weight

    def operand(self, array: np.ndarray) -> Array:
        """Add a weight (..., n, m) for `matmul`.

        It is transposed, because MKL is then up to 2.4 times faster with few rows.
        """
        return self.weight(array.swapaxes(-1, -2))

    def matmul(self, x: Array, operand: Array) -> Array:
        """Multiply x (..., k, n) with an `operand`. (..., k, m)"""
        return paddle.matmul(x, operand, transpose_y=True)

    def product(self, x: Array, y: Array) -> Array:
        """Multiply two arrays (n, ., k) and (n, k, .)."""
        return paddle.matmul(x, y)

    def windows(self, x: Array, filters: Array) -> Array:
        """Apply filters (F, D, width) to each window of x (N, D, C). (N, F, C - width + 1)"""
        return functional.conv1d(x, filters)

    def tanh(self, x: Array) -> Array:
        return paddle.tanh(x)

    def sigmoid(self, x: Array) -> Array:
        return functional.sigmoid(x)

    def relu(self, x: Array) -> Array:
        return functional.relu(x)

    def softmax(self, x: Array) -> Array:
        """Compute the softmax over the last axis."""
        return functional.softmax(x)

    def clip(self, x: Array, low: float, high: float) -> Array:
        return paddle.clip(x, low, high)

    def max(self, x: Array, axis: int) -> Array:
        return paddle.max(x, axis)

    def sum(self, x: Array, axis: int) -> Array:
        return paddle.sum(x, axis)

    def cast(self, x: Array, dtype: str) -> Array:
        return paddle.cast(x, dtype)

    def reshape(self, x: Array, dims: Dims) -> Array:
        return paddle.reshape(x, dims)

    def transpose(self, x: Array, axes: Sequence[int]) -> Array:
        return paddle.transpose(x, axes)

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return paddle.concat(arrays, axis)

    def stack(self, arrays: Sequence[Array], axis: int) -> Array:
        return paddle.stack(arrays, axis)

    def split(self, x: Array, n: int, axis: int) -> list[Array]:
        """Split x into n equal parts."""
        return paddle.split(x, n, axis)

    def arange(self, n: Array) -> Array:
        """Count from 0 to n - 1, int64."""
        return paddle.arange(n)

    def zeros(self, dims: Dims, dtype: str) -> Array:
        return paddle.zeros(dims, dtype)

    def size(self, x: Array, axis: int) -> Array:
        """Return the length of an axis, int64."""
        return paddle.shape(x)[axis].astype("int64")

    def head(self, x: Array, n: Array, axis: int) -> Array:
        """Return the first n along an axis, or all if there are fewer."""
        return paddle.slice(x, axes=[axis], starts=[0], ends=[n])

    def lookup(self, table: Array, rows: Array) -> Array:
        """Return table[rows]."""
        return paddle.gather_nd(table, rows.unsqueeze(-1))

    def distinct_rows(self, x: Array) -> tuple[Array, Array]:
        """Find the N distinct rows of x (n, k), as `np.unique` does.

        Returns the indices of their first occurrences (N,), and which of them each row is (n,).
        """
        _, first, inverse = paddle.unique(x, return_index=True, return_inverse=True, axis=0)
        return first, inverse

    def scan(self, step: Step, states: Sequence[Array], x: Array, axis: int) -> Array:
        """Run `output, states = step(x_t, *states)` over an axis of x.

        Returns the outputs along this axis.
        """
        n = self.size(x, axis).reshape([1])

        def is_running(t: Array, outputs: Array, *states: Array) -> Array:
            return t < n

        def body(t: Array, outputs: Array, *states: Array) -> list[Array]:
            x_t = paddle.index_select(x, t, axis).squeeze(axis)
            output, states = step(x_t, *states)
            tensor_array.array_write(output, t, outputs)
            return [t + 1, outputs, *states]

        first = paddle.zeros([1], "int64")
        empty = tensor_array.create_array("float32")
        _, outputs, *_ = static.nn.while_loop(is_running, body, [first, empty, *states])
        stacked, _ = paddle.tensor.manipulation.tensor_array_to_tensor(
            outputs, axis=axis, use_stack=True
        )
        return stacked
