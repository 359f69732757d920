"""What goes into an exported network, and both ways of running over it.

Letters: B sentences, T tokens of the longest, C characters of a token. D is the axis of the two directions, forward first.

Either direction reads a sentence in its own order, the backward one its last token first, and padding behind it: so padding
never reaches a state. What is computed for padding is set to zero at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from export.operators import Array, Operators


@dataclass(frozen=True)
class Ids:
    """An input of numbers from `first` to below `end`: of tokens, (B, T), or of their characters, (B, T, columns).

    table: the file in which a word's number is its line, or a JSON object {character: number}.
    unknown: the number of what is not there. longest: characters of a word that are looked up. lower: whether a word that
    is not there is looked up in lower case. most: of places in a word.
    """

    meaning: str
    end: int
    columns: int = 0
    first: int = 0
    padding: int = 0  # stands behind a sentence, and behind a token's characters
    table: str = ""
    unknown: int = 0
    longest: int = 0
    lower: bool = False
    most: int = 0

    @property
    def shape(self) -> tuple[int | str, ...]:
        return ("B", "T", self.columns) if self.columns else ("B", "T")

    def spec(self) -> dict[str, int | str | bool]:
        """What a program needs to know to make the numbers."""
        names = ("columns", "table", "longest", "lower", "most")
        spec = {"padding": self.padding} | {name: getattr(self, name) for name in names if getattr(self, name)}
        return spec if self.columns else {**spec, "unknown": self.unknown}


class Sentences:
    """Batches of any size, made safe: an empty one gets a sentence and a token of padding, which `trimmed` takes away; a
    sentence with a number that is outside its table has no tokens, and a length is at most T.
    """

    def __init__(self, ops: Operators, ids: Mapping[str, Ids], least: int = 1):
        """least: sentences that an empty batch gets."""
        self.ops = ops
        given = {name: ops.input(name, one.shape, "int64") for name, one in ids.items()}
        first = next(iter(given.values()))
        self.given_size = [ops.size(first, axis) for axis in (0, 1)]
        given = {name: _not_empty(ops, x, ids[name].columns, least) for name, x in given.items()}
        first = next(iter(given.values()))
        self.rows, self.steps = (ops.size(first, axis) for axis in (0, 1))
        self.tokens = self.rows * self.steps

        lengths = ops.input("lengths", ["B"], "int64")
        lengths = ops.concat([lengths, ops.zeros([self.rows - self.given_size[0]], "int64")], axis=0)
        lengths = ops.maximum(ops.minimum(lengths, self.steps), 0)
        present = self._present(lengths)
        for name, one in ids.items():
            outside = ops.cast(given[name] < one.first, "int64") + ops.cast(given[name] >= one.end, "int64")
            outside = ops.max(outside, axis=2) if one.columns else outside
            lengths = lengths * (1 - ops.max(outside * present, axis=1))
        self.lengths, self.present = lengths, self._present(lengths)  # (B,), (B, T)
        self.ids = {name: self._padded(given[name], one) for name, one in ids.items()}

        step, length = ops.reshape(ops.arange(self.steps), [-1, 1]), ops.reshape(lengths, [1, -1])
        backward = step + (length - 1 - step * 2) * ops.cast(step < length, "int64")
        order = ops.stack([step + length * 0, backward], axis=0)  # (D, T, B) the token that is read at each step
        row, self.direction = ops.arange(self.rows), ops.weight(np.array([[[0]], [[1]]]))
        self.both = ops.reshape(self.direction, [2, 1]) + row * 0  # (D, B)
        self.read = order + row * self.steps  # (D, T, B) its place among the B * T tokens
        returned = ops.transpose(order, [0, 2, 1]) * self.rows + ops.reshape(row, [-1, 1])
        self.returned = returned + self.direction * self.tokens  # (D, B, T) its place among the outputs (D * T * B)

    def _present(self, lengths: Array) -> Array:
        """1 at the tokens of sentences, 0 at padding. (B, T)"""
        step = self.ops.reshape(self.ops.arange(self.steps), [1, -1])
        return self.ops.cast(step < self.ops.reshape(lengths, [-1, 1]), "int64")

    def _padded(self, x: Array, ids: Ids) -> Array:
        present = self.ops.reshape(self.present, [self.rows, self.steps, 1]) if ids.columns else self.present
        return x * present + (1 - present) * ids.padding

    def both_products(self, x: Array, weight: np.ndarray, read: Array) -> tuple[Array, Array]:
        """The products (., width) of rows x (n, P) with both directions' weights (D, P + 1, width), the last of which is the
        bias, and where those are that are read at each step, (D, T, B), for the places (D, T, B) of the rows that are read.

        A sum for the bias would take Paddle as long as the product.
        """
        products = self.ops.matmul(with_one(self.ops, x), self.ops.operand(np.concatenate(list(weight), axis=1)))
        return self.ops.reshape(products, [-1, weight.shape[2]]), read * 2 + self.direction

    def in_order(self, outputs: Array, width: int) -> Array:
        """Outputs (D, T, B, width) of both directions, where their tokens are. (B, T, 2 * width)"""
        found = self.ops.lookup(self.ops.reshape(outputs, [-1, width]), self.returned)  # (D, B, T, width)
        forward, backward = self.ops.split(found, 2, axis=0)
        shape = [self.rows, self.steps, width]
        return self.ops.concat([self.ops.reshape(forward, shape), self.ops.reshape(backward, shape)], axis=2)

    def masked(self, x: Array) -> Array:
        """x (B, T, width) with zeros beyond the ends of sentences."""
        present = self.ops.cast(self.present, "float32")
        return x * self.ops.reshape(present, [self.rows, self.steps, 1])

    def mean(self, x: Array) -> Array:
        """The means of x (B, T, width) over the tokens of each sentence, zero for one without tokens. (B, width)"""
        n = self.ops.cast(self.ops.maximum(self.lengths, 1), "float32")
        return self.ops.sum(self.masked(x), axis=1) / self.ops.reshape(n, [-1, 1])

    def trimmed(self, x: Array, axes: Sequence[int]) -> Array:
        """x as large as the batch that went in. axes: those of its sentences and, if it has one, of its tokens."""
        for axis, n in zip(axes, self.given_size, strict=False):
            x = self.ops.head(x, n, axis)
        return x


def with_one(ops: Operators, x: Array) -> Array:
    """x (n, P) with a one behind each row, which the bias is multiplied by. (n, P + 1)"""
    return ops.concat([x, ops.zeros([ops.size(x, 0), 1], "float32") + 1.0], axis=1)


def _not_empty(ops: Operators, x: Array, columns: int, least: int) -> Array:
    """x with at least so many rows and a step, which are zeros."""
    last = [columns] if columns else []
    rows, steps = (ops.maximum(n - ops.size(x, axis), 0) for axis, n in enumerate((least, 1)))
    x = ops.concat([x, ops.zeros([rows, ops.size(x, 1), *last], "int64")], axis=0)
    return ops.concat([x, ops.zeros([ops.size(x, 0), steps, *last], "int64")], axis=1)
