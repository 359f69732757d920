"""The operators of which the exported networks are made, for Paddle Inference. onnx_graph.py has the same ones for ONNX."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.machine.runtime import paddle

Array = Any  # of a graph, with + - * / < >=; numbers beside it are constants of its type
functional, static, array = paddle.nn.functional, paddle.static, paddle.tensor.array


@contextmanager
def paddle_graph(path: Path) -> Iterator["PaddleGraph"]:
    """A graph to fill; when the block ends, it is written to `path`.pdiparams and `path`.json, before Paddle 3 .pdmodel."""
    paddle.enable_static()
    try:
        program = static.Program()
        with (
            warnings.catch_warnings(),
            static.program_guard(program, static.Program()),
            static.scope_guard(static.Scope()),
        ):
            warnings.filterwarnings("ignore", message=".*force_cpu.*")  # of Paddle 2's own loops
            graph = PaddleGraph()
            yield graph
            executor = static.Executor(paddle.CPUPlace())
            static.save_inference_model(str(path), graph.inputs, graph.outputs, executor, program=program)
    finally:
        paddle.disable_static()


class PaddleGraph:
    """A graph under construction. A dimension is a number, a `size` that is known when the graph runs, or -1: the rest.

    In a sum or product of floats only one of the two may be repeated along its axes: where both are, as in (n, 1) + (1, m),
    Paddle 3.3 with oneDNN gives wrong numbers.
    """

    cast, reshape, transpose = map(staticmethod, (paddle.cast, paddle.reshape, paddle.transpose))
    concat, stack, split, arange = map(staticmethod, (paddle.concat, paddle.stack, paddle.split, paddle.arange))
    tanh, sigmoid, relu = map(staticmethod, (paddle.tanh, functional.sigmoid, functional.relu))
    zeros, max, sum, argmax = map(staticmethod, (paddle.zeros, paddle.max, paddle.sum, paddle.argmax))
    softmax, minimum, clip = map(staticmethod, (functional.softmax, paddle.minimum, paddle.clip))
    windows = staticmethod(functional.conv1d)  # x (N, D, C), filters (F, D, width) -> (N, F, C - width + 1)

    def __init__(self):
        self.inputs, self.outputs = [], []

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Array:
        self.inputs.append(static.data(name, [-1 if isinstance(n, str) else n for n in shape], dtype))
        return self.inputs[-1]

    def output(self, name: str, x: Array, shape: Sequence[int | str]) -> None:
        self.outputs.append(x)

    def weight(self, array: np.ndarray) -> Array:
        zero = paddle.nn.initializer.Constant(0)
        made = static.create_parameter(list(array.shape), str(array.dtype), default_initializer=zero)
        static.global_scope().var(made.name).get_tensor().set(np.ascontiguousarray(array), paddle.CPUPlace())
        return made

    def operand(self, array: np.ndarray) -> Array:
        """A weight (..., n, m) for `matmul`: with few rows, MKL is up to 2.4 times faster on the transposed one."""
        return self.weight(array.swapaxes(-1, -2))

    def matmul(self, x: Array, operand: Array) -> Array:
        return paddle.matmul(x, operand, transpose_y=True)

    def size(self, x: Array, axis: int) -> Array:
        return paddle.shape(x)[axis].astype("int64")

    def head(self, x: Array, n: Array, axis: int) -> Array:
        """The first n along an axis, or as many as there are."""
        return paddle.slice(x, [axis], [0], [n])

    def lookup(self, table: Array, rows: Array) -> Array:
        """Rows of the table's first axis, in the shape of `rows`."""
        return paddle.gather_nd(table, rows.unsqueeze(-1))

    def distinct_rows(self, x: Array) -> tuple[Array, Array]:
        """The first row of each kind among the rows of x (n, k), by their numbers (N,), and the kind of each row (n,)."""
        _, first, kind = paddle.unique(x, return_index=True, return_inverse=True, axis=0)
        return first, kind

    def scan(self, step: Callable, states: Sequence[Array], x: Array, dtype="float32", reverse=False):
        """Run `step(x_t, *states)` over axis 1 of x, or from its end; it returns an output, of the type, and new states.

        Returns the outputs along axis 1, in the order of x, and the last states.
        """
        n = self.size(x, 1).reshape([1])

        def body(t: Array, outputs: Array, *states: Array) -> list[Array]:
            place = n - 1 - t if reverse else t
            output, states = step(paddle.index_select(x, place, 1).squeeze(1), *states)
            array.array_write(output, place, outputs)
            return [t + 1, outputs, *states]

        start = [paddle.zeros([1], "int64"), array.create_array(dtype), *states]
        _, outputs, *states = static.nn.while_loop(lambda t, *_: t < n, body, start)
        return paddle.tensor.manipulation.tensor_array_to_tensor(outputs, axis=1, use_stack=True)[0], states
