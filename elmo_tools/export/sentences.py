"""A batch of sentences in an exported graph: what is padding, and how each direction reads it.

Letters: B sentences, T tokens of the longest, at least 1; C numbers of a token; F numbers of a
vector; N distinct tokens. D is the axis of the two directions, forward first.

The backward direction reads a sentence from its last token, with the padding at the end. So padding
never affects a state.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmo_tools.export.paddle_graph import Array, PaddleGraph

IMPOSSIBLE = -1e30  # score


class Sentences:
    """A batch of sentences.

    inputs: the entries of inputs.json, by name. lengths: the name of the input (B,) of the
    sentences' lengths. ids: what each input holds, (B, T, C) or (B, T), with its padding.
    """

    def __init__(
        self, ops: PaddleGraph, inputs: Mapping[str, dict[str, Any]], lengths: str = "lengths"
    ):
        self.ops = ops
        self.inputs = inputs
        ids = {name: ops.input(name, spec["shape"], "int64") for name, spec in inputs.items()}
        self.lengths = ops.input(lengths, ["B"], "int64")
        first = next(iter(ids.values()))
        self.rows = ops.size(first, 0)  # B
        self.steps = ops.size(first, 1)  # T
        step = ops.reshape(ops.arange(self.steps), [1, -1])
        length = ops.reshape(self.lengths, [-1, 1])
        self.mask = ops.cast(step < length, "int64")  # (B, T)
        # The token that the backward direction reads at each step; padding stays where it is.
        backward = step + (length - 1 - step * 2) * self.mask  # (B, T)
        first_tokens = ops.reshape(ops.arange(self.rows), [-1, 1]) * self.steps
        self._backward = backward + first_tokens  # (B, T), among all B * T
        self.ids = {name: self._padded(x, inputs[name]) for name, x in ids.items()}

    def _padded(self, x: Array, spec: Mapping[str, Any]) -> Array:
        """Replace what x (B, T) or (B, T, C) holds beyond the sentences' ends."""
        mask = self.mask
        if len(spec["shape"]) > 2:
            mask = self.ops.reshape(mask, [self.rows, self.steps, 1])
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
        """Reverse each sentence of x (B, T, F), without its padding."""
        return self.ops.lookup(self.ops.reshape(x, [-1, width]), self._backward)

    def of_tokens(self, x: Array, index: Array, width: int) -> Array:
        """Return rows (B, T, F) of x (..., F) by each token's index (B * T,) among them."""
        index = self.ops.reshape(index, [self.rows, self.steps])
        return self.ops.lookup(self.ops.reshape(x, [-1, width]), index)

    def masked(self, x: Array) -> Array:
        """Return x (B, T, F) with zeros at padding."""
        mask = self.ops.cast(self.mask, "float32")
        return x * self.ops.reshape(mask, [self.rows, self.steps, 1])

    def padding_scores(self) -> Array:
        """Return `IMPOSSIBLE` at padding, else 0. (B, T)"""
        return (1.0 - self.ops.cast(self.mask, "float32")) * IMPOSSIBLE

    def mean(self, x: Array) -> Array:
        """Compute means of x (B, T, F) over each sentence's tokens; zero without tokens. (B, F)"""
        is_empty = self.ops.cast(self.lengths < 1, "int64")
        divisors = self.ops.cast(self.lengths + is_empty, "float32")
        sums = self.ops.sum(self.masked(x), axis=1)
        return sums / self.ops.reshape(divisors, [-1, 1])

    def maximum(self, x: Array) -> Array:
        """Compute maxima of x (B, T, F) over each sentence's tokens; zero without tokens. (B, F)"""
        ops = self.ops
        has_tokens = ops.cast(ops.max(self.mask, axis=1), "float32")
        scores = ops.reshape(self.padding_scores(), [self.rows, self.steps, 1])
        maxima = ops.max(x + scores, axis=1)
        return maxima * ops.reshape(has_tokens, [-1, 1])

    def distinct(self, names: Sequence[str]) -> tuple[list[Array], Array]:
        """Find the distinct tokens by these inputs together.

        Returns the ids of the distinct tokens in each input, (N, C) or (N, 1), and each token's
        index among them, (B * T,).
        """
        flat = []
        for name in names:
            columns = int(np.prod(self.inputs[name]["shape"][2:]))
            flat.append(self.ops.reshape(self.ids[name], [-1, columns]))
        first, inverse = self.ops.distinct_rows(self.ops.concat(flat, axis=1))
        distinct_ids = [self.ops.lookup(x, first) for x in flat]
        return distinct_ids, inverse
