"""The operators of exported networks, for Paddle Inference. onnx_graph.py has the same ones for ONNX."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.machine.runtime import paddle

Array = Any  # a graph's array, with + - * / < >=; numbers in these become constants of its type
functional, static, array = paddle.nn.functional, paddle.static, paddle.tensor.array


@contextmanager
def paddle_graph(path: Path) -> Iterator["PaddleGraph"]:
    """A graph to fill. At the end of the block it is written to PATH.pdiparams and PATH.json (.pdmodel before Paddle 3)."""
    paddle.enable_static()
    try:
        program = static.Program()
        with static.program_guard(program, static.Program()), static.scope_guard(static.Scope()):
            graph = PaddleGraph()
            yield graph
            executor = static.Executor(paddle.CPUPlace())
            static.save_inference_model(
                str(path), graph.inputs, graph.outputs, executor, program=program
            )
    finally:
        paddle.disable_static()


class PaddleGraph:
    """A graph under construction. A dimension is a number, a `size` known only at run time, or -1 for the rest.

    In a sum or product of floats, broadcast only one of the two: if both are, as in (n, 1) + (1, m), Paddle 3.3 with
    oneDNN computes wrong numbers.
    """

    cast, reshape, transpose = map(staticmethod, (paddle.cast, paddle.reshape, paddle.transpose))
    concat, stack, split, arange = map(
        staticmethod, (paddle.concat, paddle.stack, paddle.split, paddle.arange)
    )
    tanh, sigmoid, relu = map(staticmethod, (paddle.tanh, functional.sigmoid, functional.relu))
    zeros, max, sum = map(staticmethod, (paddle.zeros, paddle.max, paddle.sum))
    softmax, clip = map(staticmethod, (functional.softmax, paddle.clip))
    product = staticmethod(paddle.matmul)  # of two arrays (n, ., k) and (n, k, .)
    windows = staticmethod(
        functional.conv1d
    )  # x (N, D, C), filters (F, D, width) -> (N, F, C - width + 1)

    def __init__(self):
        self.inputs, self.outputs = [], []

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Array:
        self.inputs.append(
            static.data(name, [-1 if isinstance(n, str) else n for n in shape], dtype)
        )
        return self.inputs[-1]

    def output(self, name: str, x: Array, shape: Sequence[int | str]) -> None:
        self.outputs.append(x)

    def weight(self, array: np.ndarray) -> Array:
        """Add an array to the graph."""
        zero = paddle.nn.initializer.Constant(0)
        weight = static.create_parameter(
            list(array.shape), str(array.dtype), default_initializer=zero
        )
        static.global_scope().var(weight.name).get_tensor().set(
            np.ascontiguousarray(array), paddle.CPUPlace()
        )
        return weight

    def operand(self, array: np.ndarray) -> Array:
        """Add a weight (..., n, m) for `matmul`: transposed, because MKL is then up to 2.4 times faster with few rows."""
        return self.weight(array.swapaxes(-1, -2))

    def matmul(self, x: Array, operand: Array) -> Array:
        return paddle.matmul(x, operand, transpose_y=True)

    def size(self, x: Array, axis: int) -> Array:
        return paddle.shape(x)[axis].astype("int64")

    def head(self, x: Array, n: Array, axis: int) -> Array:
        """Return the first n along an axis, or all if there are fewer."""
        return paddle.slice(x, [axis], [0], [n])

    def lookup(self, table: Array, rows: Array) -> Array:
        """table[rows]."""
        return paddle.gather_nd(table, rows.unsqueeze(-1))

    def distinct_rows(self, x: Array) -> tuple[Array, Array]:
        """np.unique over the rows of x (n, k): indices of first occurrences (N,), and the inverse (n,)."""
        _, first, inverse = paddle.unique(x, return_index=True, return_inverse=True, axis=0)
        return first, inverse

    def scan(self, step: Callable, states: Sequence[Array], x: Array, axis: int) -> Array:
        """Run `output, states = step(x_t, *states)` over an axis of x. Returns the outputs along this axis."""
        n = self.size(x, axis).reshape([1])

        def body(t: Array, outputs: Array, *states: Array) -> list[Array]:
            output, states = step(paddle.index_select(x, t, axis).squeeze(axis), *states)
            array.array_write(output, t, outputs)
            return [t + 1, outputs, *states]

        start = [paddle.zeros([1], "int64"), array.create_array("float32"), *states]
        outputs = static.nn.while_loop(lambda t, *_: t < n, body, start)[1]
        return paddle.tensor.manipulation.tensor_array_to_tensor(
            outputs, axis=axis, use_stack=True
        )[0]
