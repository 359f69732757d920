"""A batch of sentences in an exported graph: which steps are padding, and in which order each direction reads the tokens.

Letters: B sentences, T tokens of the longest, at least 1; F numbers of a vector. D is the axis of the two directions,
forward first.

The backward direction reads a sentence from its last token, with the padding at the end. So padding never affects a state.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from elmo_tools.export.paddle_graph import Array, PaddleGraph


class Sentences:
    """inputs: the entries of inputs.json, by name. lengths: the name of the input (B,) of the sentences' lengths."""

    def __init__(
        self, ops: PaddleGraph, inputs: Mapping[str, dict[str, Any]], lengths: str = "lengths"
    ):
        self.ops, self.inputs = ops, inputs
        ids = {name: ops.input(name, spec["shape"], "int64") for name, spec in inputs.items()}
        self.lengths = ops.input(lengths, ["B"], "int64")
        first = next(iter(ids.values()))
        self.rows, self.steps = ops.size(first, 0), ops.size(first, 1)
        step, length = (
            ops.reshape(ops.arange(self.steps), [1, -1]),
            ops.reshape(self.lengths, [-1, 1]),
        )
        self.mask = ops.cast(step < length, "int64")  # (B, T)
        backward = (
            step + (length - 1 - step * 2) * self.mask
        )  # the token that is read at each step, (B, T)
        self._backward = (
            backward + ops.reshape(ops.arange(self.rows), [-1, 1]) * self.steps
        )  # among all B * T
        self.ids = {name: self._padded(x, inputs[name]) for name, x in ids.items()}

    def _padded(self, x: Array, spec: Mapping[str, Any]) -> Array:
        mask = (
            self.ops.reshape(self.mask, [self.rows, self.steps, 1])
            if len(spec["shape"]) > 2
            else self.mask
        )
        return x * mask + (1 - mask) * spec["padding"]

    def both(self, x: Array, width: int) -> Array:
        """Return x (B, T, F) as each direction reads it, (D, B, T, F)."""
        return self.ops.stack([x, self._reversed(x, width)], axis=0)

    def aligned(self, x: Array, width: int) -> Array:
        """Return both directions' outputs (D, B, T, F), aligned to the tokens. (B, T, 2F)"""
        forward, backward = self.ops.split(x, 2, axis=0)
        forward = self.ops.reshape(forward, [self.rows, self.steps, width])
        return self.ops.concat([forward, self._reversed(backward, width)], axis=2)

    def _reversed(self, x: Array, width: int) -> Array:
        return self.ops.lookup(self.ops.reshape(x, [-1, width]), self._backward)

    def of_tokens(self, x: Array, index: Array, width: int) -> Array:
        """Rows (B, T, F) of x (..., F) by each token's index (B * T,) among them."""
        index = self.ops.reshape(index, [self.rows, self.steps])
        return self.ops.lookup(self.ops.reshape(x, [-1, width]), index)

    def masked(self, x: Array) -> Array:
        """x (B, T, F) with zeros at padding."""
        mask = self.ops.cast(self.mask, "float32")
        return x * self.ops.reshape(mask, [self.rows, self.steps, 1])

    def padding_scores(self, score: float) -> Array:
        """`score` at padding, else 0. (B, T)"""
        return (1.0 - self.ops.cast(self.mask, "float32")) * score

    def mean(self, x: Array) -> Array:
        """Compute means of x (B, T, F) over each sentence's tokens; zero without tokens. (B, F)"""
        n = self.ops.cast(self.lengths + self.ops.cast(self.lengths < 1, "int64"), "float32")
        return self.ops.sum(self.masked(x), axis=1) / self.ops.reshape(n, [-1, 1])

    def distinct(self, *names: str) -> tuple[list[Array], Array]:
        """Per input, the ids of the distinct tokens, (N, C) or (N, 1); and each token's index among them, (B * T,)."""
        columns = [int(np.prod(self.inputs[name]["shape"][2:])) for name in names]
        flat = [
            self.ops.reshape(self.ids[name], [-1, n])
            for name, n in zip(names, columns, strict=True)
        ]
        first, inverse = self.ops.distinct_rows(self.ops.concat(flat, axis=1))
        return [self.ops.lookup(x, first) for x in flat], inverse
