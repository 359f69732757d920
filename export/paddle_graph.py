"""The operators as Paddle's, in a static program for Paddle Inference."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from elmo_core.machine.runtime import paddle
from export.operators import Array

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
    """`operators.Operators`, whose arrays are the values of a static program."""

    cast, reshape, transpose = map(staticmethod, (paddle.cast, paddle.reshape, paddle.transpose))
    concat, stack, split, arange = map(staticmethod, (paddle.concat, paddle.stack, paddle.split, paddle.arange))
    tanh, sigmoid, relu = map(staticmethod, (paddle.tanh, functional.sigmoid, functional.relu))
    zeros, max, sum, argmax = map(staticmethod, (paddle.zeros, paddle.max, paddle.sum, paddle.argmax))
    softmax, windows = map(staticmethod, (functional.softmax, functional.conv1d))

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
        return self.weight(array.swapaxes(-1, -2))  # with few rows, MKL is up to 2.4 times faster

    def matmul(self, x: Array, operand: Array) -> Array:
        return paddle.matmul(x, operand, transpose_y=True)

    def size(self, x: Array, axis: int) -> Array:
        return paddle.shape(x)[axis].astype("int64")

    def equal(self, x: Array, number: int) -> Array:
        return paddle.equal(x, paddle.full([], number, x.dtype))

    def minimum(self, x: Array, other: Array | int) -> Array:
        return paddle.minimum(x, paddle.full([], other, x.dtype) if isinstance(other, int) else other)

    def maximum(self, x: Array, other: Array | int) -> Array:
        return paddle.maximum(x, paddle.full([], other, x.dtype) if isinstance(other, int) else other)

    def clip(self, x: Array, bound: float) -> Array:
        return paddle.clip(x, -bound, bound)

    def head(self, x: Array, n: Array, axis: int) -> Array:
        return paddle.slice(x, [axis], [0], [n])

    def lookup(self, table: Array, rows: Array) -> Array:
        return paddle.gather_nd(table, rows.unsqueeze(-1))

    def pick(self, x: Array, places: Array) -> Array:
        return paddle.take_along_axis(x, places.unsqueeze(1), axis=1).squeeze(1)

    def distinct_rows(self, x: Array) -> tuple[Array, Array]:
        _, first, kind = paddle.unique(x, return_index=True, return_inverse=True, axis=0)
        return first, kind

    def scan(
        self,
        step: Callable,
        states: Sequence[Array],
        x: Array,
        axis: int,
        dtype: str = "float32",
        reverse: bool = False,
    ) -> tuple[Array, list[Array]]:
        n = self.size(x, axis).reshape([1])

        def body(t: Array, outputs: Array, *states: Array) -> list[Array]:
            place = n - 1 - t if reverse else t
            output, states = step(paddle.index_select(x, place, axis).squeeze(axis), *states)
            array.array_write(output, place, outputs)
            return [t + 1, outputs, *states]

        start = [paddle.zeros([1], "int64"), array.create_array(dtype), *states]
        _, outputs, *states = static.nn.while_loop(lambda t, *_: t < n, body, start)
        return paddle.tensor.manipulation.tensor_array_to_tensor(outputs, axis=axis, use_stack=True)[0], states
