"""Inputs of an exported network: their tables, and the graph's first steps, from raw ids to batches.

Letters: B sentences, T tokens of the longest, C characters of a token. D is the axis of the two directions, forward first.

Each direction reads a sentence in its own order, the backward one from its last token, with the padding at the end. So
padding never affects a state. Results at padding are set to zero at the end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmo_core.config import MAX_CHARS, ELMoConfig
from elmo_core.text.characters import MAX_BYTES, CodePoints
from elmo_core.text.tokens import UNK_ID, Vocabulary
from export.paddle_graph import Array, PaddleGraph


@dataclass(frozen=True)
class IdInput:
    """An input of ids from `first` to below `end`: of tokens, (B, T), or of their characters, (B, T, columns).

    table: the name of a file in which a word's id is its line number, or a JSON object {character: id}; content: its text.
    unknown: the id of words that are not in the table. longest: number of a word's characters that are looked up.
    lower: whether unknown words are looked up in lower case. most: maximum position in a word.
    """

    meaning: str
    end: int
    columns: int = 0
    first: int = 0
    padding: int = 0  # fills up short sentences and short tokens
    table: str = ""
    content: str = ""
    unknown: int = 0
    longest: int = 0
    lower: bool = False
    most: int = 0

    @property
    def shape(self) -> tuple[int | str, ...]:
        return ("B", "T", self.columns) if self.columns else ("B", "T")

    def spec(self) -> dict[str, int | str | bool]:
        """The entry of inputs.json: all that a program needs to compute the ids."""
        names = ("columns", "table", "longest", "lower", "most")
        spec = {"padding": self.padding} | {name: getattr(self, name) for name in names if getattr(self, name)}
        return spec if self.columns else {**spec, "unknown": self.unknown}


BYTES = IdInput("its bytes + 1 between 259 and 260, then 261", end=262, columns=MAX_CHARS, first=1, padding=261)


def table_input(table: str, lines: Sequence[str], meaning: str = "", **more) -> IdInput:
    """An input of line numbers in a table. meaning: appended to "line in TABLE, from 0"."""
    content = "\n".join(lines) + "\n"
    return IdInput(f"line in {table}, from 0{meaning}", len(lines), table=table, content=content, **more)


def word_input(vocabulary: Vocabulary, table: str) -> IdInput:
    longest = MAX_BYTES if isinstance(vocabulary.alphabet, CodePoints) else 0
    return table_input(table, vocabulary.tokens, unknown=UNK_ID, longest=longest)


def character_input(config: ELMoConfig, vocabulary: Vocabulary | None, table: str) -> IdInput:
    """The characters that a biLM reads."""
    if config.alphabet == "bytes":
        return replace(BYTES, columns=config.max_characters)
    ids = vocabulary.alphabet.ids
    content, padding = json.dumps(ids, ensure_ascii=False) + "\n", ids[CodePoints.PAD]
    return IdInput("its characters", config.n_characters, MAX_CHARS, padding=padding, table=table, content=content)


class Sentences:
    """A batch in a graph, made safe: an empty batch gets a pair of sentences and a token of padding, which `trimmed`
    removes; a sentence with an id outside its table has no tokens; lengths are at most T.
    """

    def __init__(self, ops: PaddleGraph, inputs: Mapping[str, IdInput]):
        self.ops, self.inputs = ops, inputs
        ids = self._read_inputs()
        self.lengths = self._safe_lengths(ids)  # (B,)
        self.mask = self._mask(self.lengths)  # (B, T)
        self.ids = {name: self._padded(x, inputs[name]) for name, x in ids.items()}
        row, self.direction = ops.arange(self.rows), ops.reshape(ops.weight(np.arange(2)), [2, 1, 1])
        self.direction_index = ops.reshape(self.direction, [2, 1]) + row * 0  # (D, B)
        order = self._reading_order()  # (D, T, B)
        self.input_index = order + row * self.steps  # (D, T, B) indices into the B * T tokens
        outputs = ops.transpose(order, [2, 1, 0]) * self.rows + ops.reshape(row, [-1, 1, 1])
        self.output_index = (
            outputs + ops.reshape(self.direction, [2]) * self.tokens
        )  # (B, T, D) into the D * T * B outputs

    def _read_inputs(self) -> dict[str, Array]:
        """The ids, none empty; sets the batch's sizes."""
        ops = self.ops
        ids = {name: ops.input(name, spec.shape, "int64") for name, spec in self.inputs.items()}
        first = next(iter(ids.values()))
        self.original_sizes = {"B": ops.size(first, 0), "T": ops.size(first, 1)}
        ids = {name: self._not_empty(x, self.inputs[name].columns) for name, x in ids.items()}
        first = next(iter(ids.values()))
        self.rows, self.steps = (ops.size(first, axis) for axis in (0, 1))
        self.tokens = self.rows * self.steps
        return ids

    def _not_empty(self, x: Array, columns: int) -> Array:
        """x; if it has no rows or no steps, with two rows and a step of zeros."""
        ops, last = self.ops, [columns] if columns else []
        rows, steps = (ops.cast(ops.size(x, axis) < 1, "int64") for axis in (0, 1))
        x = ops.concat([x, ops.zeros([rows * 2, ops.size(x, 1), *last], "int64")], axis=0)
        return ops.concat([x, ops.zeros([ops.size(x, 0), steps, *last], "int64")], axis=1)

    def _safe_lengths(self, ids: Mapping[str, Array]) -> Array:
        """The input `lengths`, from 0 to T, and 0 for sentences with an id outside its table."""
        ops = self.ops
        lengths = ops.input("lengths", ["B"], "int64")
        lengths = ops.concat([lengths, ops.zeros([self.rows - self.original_sizes["B"]], "int64")], axis=0)
        lengths = ops.minimum(lengths, self.steps) * ops.cast(lengths >= 1, "int64")
        mask = self._mask(lengths)
        for name, spec in self.inputs.items():
            outside = ops.cast(ids[name] < spec.first, "int64") + ops.cast(ids[name] >= spec.end, "int64")
            outside = ops.max(outside, axis=2) if spec.columns else outside
            lengths = lengths * (1 - ops.max(outside * mask, axis=1))
        return lengths

    def _mask(self, lengths: Array) -> Array:
        """1 at tokens, 0 at padding. (B, T)"""
        step = self.ops.reshape(self.ops.arange(self.steps), [1, -1])
        return self.ops.cast(step < self.ops.reshape(lengths, [-1, 1]), "int64")

    def _padded(self, x: Array, spec: IdInput) -> Array:
        mask = self.ops.reshape(self.mask, [self.rows, self.steps, 1]) if spec.columns else self.mask
        return x * mask + (1 - mask) * spec.padding

    def _reading_order(self) -> Array:
        """The position of the token that each direction reads at each step. (D, T, B)"""
        ops = self.ops
        step, length = ops.reshape(ops.arange(self.steps), [-1, 1]), ops.reshape(self.lengths, [1, -1])
        backward = step + (length - 1 - step * 2) * ops.cast(step < length, "int64")
        return ops.stack([step + length * 0, backward], axis=0)

    def distinct(self, *names: str) -> tuple[list[Array], Array]:
        """Per input, the ids of the distinct tokens, (N, C) or (N, 1); and each token's index among them, (B * T,)."""
        flat = [self.ops.reshape(self.ids[name], [-1, max(1, self.inputs[name].columns)]) for name in names]
        first, inverse = self.ops.distinct_rows(self.ops.concat(flat, axis=1))
        return [self.ops.lookup(x, first) for x in flat], inverse

    def align_outputs(self, outputs: Array, width: int) -> Array:
        """Both directions' outputs (D, T, B, width), aligned to the tokens. (B, T, 2 * width)"""
        aligned = self.ops.lookup(self.ops.reshape(outputs, [-1, width]), self.output_index)
        return self.ops.reshape(aligned, [self.rows, self.steps, 2 * width])

    def masked(self, x: Array) -> Array:
        """x (B, T, width) with zeros at padding."""
        mask = self.ops.cast(self.mask, "float32")
        return x * self.ops.reshape(mask, [self.rows, self.steps, 1])

    def mean(self, x: Array) -> Array:
        """Means of x (B, T, width) over each sentence's tokens; zero without tokens. (B, width)"""
        n = self.ops.cast(self.lengths + self.ops.cast(self.lengths < 1, "int64"), "float32")
        return self.ops.sum(self.masked(x), axis=1) / self.ops.reshape(n, [-1, 1])

    def trimmed(self, x: Array, shape: Sequence[int | str]) -> Array:
        """x, whose shape has the letters B and T, cut to the sizes of the input batch."""
        for axis, n in enumerate(shape):
            x = self.ops.head(x, self.original_sizes[n], axis) if n in self.original_sizes else x
        return x
