"""The operators of which the exported networks are made. Each runtime has its own: paddle_graph.py, onnx_graph.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = Any  # of a graph, with + - * < >=; numbers beside it are constants of its type


@dataclass(frozen=True)
class Output:
    name: str
    shape: tuple[int | str, ...]
    dtype: str
    meaning: str


class Operators(Protocol):
    """A graph under construction. A dimension is a number, a `size` that is known when the graph runs, or -1: the rest.

    In a sum or product of floats only one of the two may be repeated along its axes: where both are, as in (n, 1) + (1, m),
    Paddle 3.3 with oneDNN gives wrong numbers.
    """

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Array: ...
    def output(self, name: str, x: Array, shape: Sequence[int | str]) -> None: ...
    def weight(self, array: np.ndarray) -> Array: ...

    def size(self, x: Array, axis: int) -> Array: ...
    def arange(self, n: Array) -> Array: ...
    def zeros(self, dims: Sequence, dtype: str) -> Array: ...
    def cast(self, x: Array, dtype: str) -> Array: ...
    def equal(self, x: Array, number: int) -> Array: ...
    def minimum(self, x: Array, other: Array | int) -> Array: ...
    def maximum(self, x: Array, other: Array | int) -> Array: ...

    def reshape(self, x: Array, dims: Sequence) -> Array: ...
    def transpose(self, x: Array, axes: Sequence[int]) -> Array: ...
    def concat(self, arrays: Sequence[Array], axis: int) -> Array: ...
    def stack(self, arrays: Sequence[Array], axis: int) -> Array: ...
    def split(self, x: Array, n: int, axis: int) -> Sequence[Array]: ...
    def head(self, x: Array, n: Array, axis: int) -> Array:
        """The first n along an axis."""

    def lookup(self, table: Array, rows: Array) -> Array:
        """Rows of the table's first axis, in the shape of `rows`."""

    def pick(self, x: Array, places: Array) -> Array:
        """Of each row of x (n, k) what stands at its place. places (n,)"""

    def distinct_rows(self, x: Array) -> tuple[Array, Array]:
        """Of the rows of x (n, k), where the first of each kind is (N,), and the kind of each (n,)."""

    def operand(self, array: np.ndarray) -> Array:
        """A weight (..., n, m) for `matmul`."""

    def matmul(self, x: Array, operand: Array) -> Array: ...
    def windows(self, x: Array, filters: Array) -> Array:
        """The products of x (N, D, C) with filters (F, D, width) at every place, (N, F, C - width + 1)."""

    def sigmoid(self, x: Array) -> Array: ...
    def tanh(self, x: Array) -> Array: ...
    def relu(self, x: Array) -> Array: ...
    def clip(self, x: Array, bound: float) -> Array: ...
    def softmax(self, x: Array) -> Array: ...
    def max(self, x: Array, axis: int) -> Array: ...
    def sum(self, x: Array, axis: int) -> Array: ...
    def argmax(self, x: Array, axis: int) -> Array: ...

    def scan(
        self,
        step: Callable,
        states: Sequence[Array],
        x: Array,
        axis: int,
        dtype: str = "float32",
        reverse: bool = False,
    ) -> tuple[Array, list[Array]]:
        """`step(x_t, *states)` over an axis of x, or from its end, gives an output, of the type, and the next states.

        Returns the outputs along the same axis, in the order of x, and the last states.
        """
