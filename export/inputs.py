"""What goes into an exported network: its inputs with their tables, and the batches that they make in a graph.

Letters: B sentences, T tokens of the longest, C characters of a token. D is the axis of the two directions, forward first.

Either direction reads a sentence in its own order, the backward one its last token first, and padding behind it: so padding
never reaches a state. What is computed for padding is set to zero at the end.
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
class Ids:
    """An input of numbers from `first` to below `end`: of tokens, (B, T), or of their characters, (B, T, columns).

    table: the file in which a word's number is its line, or a JSON object {character: number}, and `content` its text.
    unknown: the number of what is not there. longest: characters of a word that are looked up. lower: whether a word that
    is not there is looked up in lower case. most: of places in a word.
    """

    meaning: str
    end: int
    columns: int = 0
    first: int = 0
    padding: int = 0  # stands behind a sentence, and behind a token's characters
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
        """What a program needs to know to make the numbers."""
        names = ("columns", "table", "longest", "lower", "most")
        spec = {"padding": self.padding} | {name: getattr(self, name) for name in names if getattr(self, name)}
        return spec if self.columns else {**spec, "unknown": self.unknown}


BYTES = Ids("its bytes + 1 between 259 and 260, then 261", end=262, columns=MAX_CHARS, first=1, padding=261)


def lines_of(table: str, lines: Sequence[str], meaning: str = "", **more) -> Ids:
    """An input of the numbers of a table's lines. meaning: what is added to "line in TABLE, from 0"."""
    content = "\n".join(lines) + "\n"
    return Ids(f"line in {table}, from 0{meaning}", len(lines), table=table, content=content, **more)


def words_of(vocabulary: Vocabulary, table: str) -> Ids:
    longest = MAX_BYTES if isinstance(vocabulary.alphabet, CodePoints) else 0
    return lines_of(table, vocabulary.tokens, unknown=UNK_ID, longest=longest)


def characters_of(config: ELMoConfig, vocabulary: Vocabulary | None, table: str) -> Ids:
    """The characters that a biLM reads."""
    if config.alphabet == "bytes":
        return replace(BYTES, columns=config.max_characters)
    ids = vocabulary.alphabet.ids
    content, padding = json.dumps(ids, ensure_ascii=False) + "\n", ids[CodePoints.PAD]
    return Ids("its characters", config.n_characters, MAX_CHARS, padding=padding, table=table, content=content)


class Sentences:
    """Sentences in a graph, made safe: an empty batch gets a pair of sentences and a token of padding, which `trimmed` takes
    away; a sentence with a number that is outside its table has no tokens, and a length is at most T.
    """

    def __init__(self, ops: PaddleGraph, inputs: Mapping[str, Ids]):
        self.ops, self.inputs = ops, inputs
        given = {name: ops.input(name, ids.shape, "int64") for name, ids in inputs.items()}
        first = next(iter(given.values()))
        self.given = {"B": ops.size(first, 0), "T": ops.size(first, 1)}
        given = {name: self._not_empty(x, inputs[name].columns) for name, x in given.items()}
        first = next(iter(given.values()))
        self.rows, self.steps = (ops.size(first, axis) for axis in (0, 1))
        self.tokens = self.rows * self.steps

        lengths = ops.input("lengths", ["B"], "int64")
        lengths = ops.concat([lengths, ops.zeros([self.rows - self.given["B"]], "int64")], axis=0)
        lengths = ops.minimum(lengths, self.steps) * ops.cast(lengths >= 1, "int64")
        present = self._present(lengths)
        for name, ids in inputs.items():
            outside = ops.cast(given[name] < ids.first, "int64") + ops.cast(given[name] >= ids.end, "int64")
            outside = ops.max(outside, axis=2) if ids.columns else outside
            lengths = lengths * (1 - ops.max(outside * present, axis=1))
        self.lengths, self.present = lengths, self._present(lengths)  # (B,), (B, T)
        self.ids = {name: self._padded(given[name], ids) for name, ids in inputs.items()}

        step, length = ops.reshape(ops.arange(self.steps), [-1, 1]), ops.reshape(lengths, [1, -1])
        backward = step + (length - 1 - step * 2) * ops.cast(step < length, "int64")
        order = ops.stack([step + length * 0, backward], axis=0)  # (D, T, B) the token that is read at each step
        row, direction = ops.arange(self.rows), ops.weight(np.arange(2))
        self.direction = ops.reshape(direction, [2, 1, 1])
        self.both = ops.reshape(direction, [2, 1]) + row * 0  # (D, B)
        self.read = order + row * self.steps  # (D, T, B) its place among the B * T tokens
        returned = ops.transpose(order, [2, 1, 0]) * self.rows + ops.reshape(row, [-1, 1, 1])
        self.returned = returned + direction * self.tokens  # (B, T, D) its place among the outputs (D * T * B)

    def _not_empty(self, x: Array, columns: int) -> Array:
        """x; or, where it has no rows or no steps, two rows and a step of zeros."""
        ops, last = self.ops, [columns] if columns else []
        rows, steps = (ops.cast(ops.size(x, axis) < 1, "int64") for axis in (0, 1))
        x = ops.concat([x, ops.zeros([rows * 2, ops.size(x, 1), *last], "int64")], axis=0)
        return ops.concat([x, ops.zeros([ops.size(x, 0), steps, *last], "int64")], axis=1)

    def _present(self, lengths: Array) -> Array:
        """1 at the tokens of sentences, 0 at padding. (B, T)"""
        step = self.ops.reshape(self.ops.arange(self.steps), [1, -1])
        return self.ops.cast(step < self.ops.reshape(lengths, [-1, 1]), "int64")

    def _padded(self, x: Array, ids: Ids) -> Array:
        present = self.ops.reshape(self.present, [self.rows, self.steps, 1]) if ids.columns else self.present
        return x * present + (1 - present) * ids.padding

    def distinct(self, *names: str) -> tuple[list[Array], Array]:
        """The characters (N, C), or number (N, 1), of the distinct tokens of inputs, and each token's kind (B * T,)."""
        flat = [self.ops.reshape(self.ids[name], [-1, max(1, self.inputs[name].columns)]) for name in names]
        first, kind = self.ops.distinct_rows(self.ops.concat(flat, axis=1))
        return [self.ops.lookup(x, first) for x in flat], kind

    def in_order(self, outputs: Array, width: int) -> Array:
        """Outputs (D, T, B, width) of both directions, where their tokens are. (B, T, 2 * width)"""
        found = self.ops.lookup(self.ops.reshape(outputs, [-1, width]), self.returned)
        return self.ops.reshape(found, [self.rows, self.steps, 2 * width])

    def masked(self, x: Array) -> Array:
        """x (B, T, width) with zeros beyond the ends of sentences."""
        present = self.ops.cast(self.present, "float32")
        return x * self.ops.reshape(present, [self.rows, self.steps, 1])

    def mean(self, x: Array) -> Array:
        """The means of x (B, T, width) over the tokens of each sentence, zero for one without tokens. (B, width)"""
        n = self.ops.cast(self.lengths + self.ops.cast(self.lengths < 1, "int64"), "float32")
        return self.ops.sum(self.masked(x), axis=1) / self.ops.reshape(n, [-1, 1])

    def trimmed(self, x: Array, shape: Sequence[int | str]) -> Array:
        """x, whose shape has the letters B and T, as large as the batch that went in."""
        for axis, n in enumerate(shape):
            x = self.ops.head(x, self.given[n], axis) if n in self.given else x
        return x
