"""Inputs of an exported network: their tables, and the graph's first steps, from raw ids to batches.

Letters: B sentences, T tokens of the longest, at least 1; C characters of a token; in taggers of jieba's words W words of
the longest. D is the axis of the two directions, forward first.

Each direction reads a sentence in its own order, the backward one from its last token, with the padding at the end. So
padding never affects a state. Results at padding are set to zero at the end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmo_core.config import MAX_CHARS, ELMoConfig
from elmo_core.text.characters import MAX_BYTES, CodePoints
from elmo_core.text.tokens import UNK_ID, Vocabulary
from export.paddle_graph import Array, PaddleGraph

TOKENS = ("B", "T")


@dataclass(frozen=True)
class IdInput:
    """An input of ids of tokens, (B, T), or of their characters, (B, T, columns).

    table: the name of a file in which a word's id is its line number, or a JSON object {character: id}; content: its text.
    unknown: the id of words that are not in the table. longest: number of a word's characters that are looked up.
    lower: whether unknown words are looked up in lower case. axes: letters of its sizes.
    """

    meaning: str
    columns: int = 0
    padding: int = 0  # fills up short sentences and short tokens
    table: str = ""
    content: str = ""
    unknown: int = 0
    longest: int = 0
    lower: bool = False
    axes: tuple[str, str] = TOKENS

    @property
    def shape(self) -> tuple[int | str, ...]:
        return (*self.axes, self.columns) if self.columns else self.axes

    def spec(self) -> dict[str, Any]:
        """Return the entry of inputs.json: all that a program needs to compute the ids."""
        spec = {"shape": self.shape, "padding": self.padding}
        spec |= {name: value for name in ("table", "longest", "lower") if (value := getattr(self, name))}
        return {**spec, "unknown": self.unknown} if self.table and not self.columns else spec


BYTES = IdInput("its bytes + 1 between 259 and 260, then 261", columns=MAX_CHARS, padding=261)


def table_input(table: str, lines: Sequence[str], meaning: str = "", **more) -> IdInput:
    """Describe an input of line numbers in a table. meaning: appended to "line in TABLE, from 0"."""
    content = "\n".join(lines) + "\n"
    return IdInput(f"line in {table}, from 0{meaning}", table=table, content=content, **more)


def word_input(vocabulary: Vocabulary, table: str, axes: tuple[str, str] = TOKENS) -> IdInput:
    longest = MAX_BYTES if isinstance(vocabulary.alphabet, CodePoints) else 0
    return table_input(table, vocabulary.tokens, unknown=UNK_ID, longest=longest, axes=axes)


def character_input(config: ELMoConfig, vocabulary: Vocabulary | None, table: str) -> IdInput:
    """Describe the characters that a biLM reads."""
    if config.alphabet == "bytes":
        return replace(BYTES, columns=config.max_characters)
    ids = vocabulary.alphabet.ids
    content, padding = json.dumps(ids, ensure_ascii=False) + "\n", ids[CodePoints.PAD]
    return IdInput("its characters", MAX_CHARS, padding=padding, table=table, content=content)


class Sentences:
    """A batch in a graph: which steps are padding, and in which order each direction reads the tokens."""

    def __init__(self, ops: PaddleGraph, inputs: Mapping[str, IdInput], lengths: str = "lengths"):
        self.ops, self.inputs = ops, inputs
        ids = {name: ops.input(name, spec.shape, "int64") for name, spec in inputs.items()}
        first = next(iter(ids.values()))
        self.rows, self.steps = rows, steps = ops.size(first, 0), ops.size(first, 1)
        self.lengths = ops.input(lengths, ["B"], "int64")
        self.mask = ops.cast(ops.reshape(ops.arange(steps), [1, -1]) < ops.reshape(self.lengths, [-1, 1]), "int64")
        self.ids = {name: self._padded(x, inputs[name]) for name, x in ids.items()}
        self.tokens = rows * steps
        row, self.direction = ops.arange(rows), ops.reshape(ops.weight(np.arange(2)), [2, 1, 1])
        self.direction_index = ops.reshape(self.direction, [2, 1]) + row * 0  # (D, B)
        step, length = ops.reshape(ops.arange(steps), [-1, 1]), ops.reshape(self.lengths, [1, -1])
        backward = step + (length - 1 - step * 2) * ops.cast(step < length, "int64")
        # the position of the token that each direction reads at each step, (D, T, B)
        order = ops.stack([step + length * 0, backward], axis=0)
        self.input_index = order + row * steps  # (D, T, B) indices into the B * T tokens
        outputs = ops.transpose(order, [2, 1, 0]) * rows + ops.reshape(row, [-1, 1, 1])
        # (B, T, D) indices into the D * T * B outputs
        self.output_index = outputs + ops.reshape(self.direction, [2]) * self.tokens

    def _padded(self, x: Array, spec: IdInput) -> Array:
        mask = self.ops.reshape(self.mask, [self.rows, self.steps, 1]) if spec.columns else self.mask
        return x * mask + (1 - mask) * spec.padding

    def align_outputs(self, outputs: Array, width: int) -> Array:
        """Return both directions' outputs (D, T, B, width), aligned to the tokens. (B, T, 2 * width)"""
        aligned = self.ops.lookup(self.ops.reshape(outputs, [-1, width]), self.output_index)
        return self.ops.reshape(aligned, [self.rows, self.steps, 2 * width])

    def masked(self, x: Array) -> Array:
        """x (B, T, width) with zeros at padding."""
        mask = self.ops.cast(self.mask, "float32")
        return x * self.ops.reshape(mask, [self.rows, self.steps, 1])

    def padding_scores(self, score: float) -> Array:
        """`score` at padding, else 0. (B, T)"""
        return (1.0 - self.ops.cast(self.mask, "float32")) * score

    def mean(self, x: Array) -> Array:
        """Compute means of x (B, T, width) over each sentence's tokens; zero without tokens. (B, width)"""
        n = self.ops.cast(self.lengths + self.ops.cast(self.lengths < 1, "int64"), "float32")
        return self.ops.sum(self.masked(x), axis=1) / self.ops.reshape(n, [-1, 1])

    def distinct(self, *names: str) -> tuple[list[Array], Array]:
        """Per input, the ids of the distinct tokens, (N, C) or (N, 1); and each token's index among them, (B * T,)."""
        flat = [self.ops.reshape(self.ids[name], [-1, max(1, self.inputs[name].columns)]) for name in names]
        first, inverse = self.ops.distinct_rows(self.ops.concat(flat, axis=1))
        return [self.ops.lookup(x, first) for x in flat], inverse
