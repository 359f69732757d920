"""Formulas of SyntaxGym's predictions, such as `(2;%gram%) > (2;%ungram%)`.

    formula     comparison {& or | comparison}, from left to right
    comparison  sum {<, > or = sum}
    sum         value {+ or - value}, from left to right
    value       (REGION;%CONDITION%), a number, or a formula in ( ) or [ ]

A REGION is a number, or * for all regions of the sentence.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from elmo_core.messages import UserError

REGION = re.compile(r"\(\s*(?P<region>[0-9]{1,9}|\*)\s*;\s*%(?P<condition>[^%]*)%\s*\)")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
CLOSING = {"(": ")", "[": "]"}
VALUES = "a region such as (2;%name%), a number or a bracket"
OPERATORS = "+ - < > = & |"
MAX_DEPTH = 50  # brackets within brackets
# Values that differ by less are equal, as in SyntaxGym: surprisal depends a little on the batch.
ABSOLUTE_TOLERANCE = 1e-3
RELATIVE_TOLERANCE = 1e-5

NUMBERS = "numbers"
COMPARISONS = "comparisons"


class _Level(NamedTuple):
    """Operators of the same precedence, what they stand between, and what they make of it."""

    operators: tuple[str, ...]
    operands: str
    result: str


LEVELS = [  # those that bind least first
    _Level(("&", "|"), operands=COMPARISONS, result=COMPARISONS),
    _Level(("<", ">", "="), operands=NUMBERS, result=COMPARISONS),
    _Level(("+", "-"), operands=NUMBERS, result=NUMBERS),
]


class RegionName(NamedTuple):
    """A region of a condition. region: None for all of the sentence."""

    condition: str
    region: int | None


Step = RegionName | float | str  # a value, or the operator that joins the two values before it


@dataclass(frozen=True)
class Formula:
    """A prediction. steps: in postfix order, as `a b >` for `a > b`."""

    text: str
    steps: list[Step]

    @property
    def regions(self) -> list[RegionName]:
        """The regions that it names."""
        return [step for step in self.steps if isinstance(step, RegionName)]

    def holds(self, values: Mapping[RegionName, np.ndarray]) -> np.ndarray:
        """Tell where the prediction holds. values: of its regions, arrays of one shape."""
        stack: list[np.ndarray | float] = []
        for step in self.steps:
            if isinstance(step, RegionName):
                stack.append(values[step])
            elif isinstance(step, str):
                right = stack.pop()
                left = stack.pop()
                stack.append(OPERATIONS[step](left, right))
            else:
                stack.append(step)
        (result,) = stack
        return np.asarray(result)


def _is_equal(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.isclose(left, right, rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE)


def _is_less(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left < right) & ~_is_equal(left, right)


def _is_greater(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left > right) & ~_is_equal(left, right)


OPERATIONS: dict[str, Callable] = {
    "+": np.add,
    "-": np.subtract,
    "<": _is_less,
    ">": _is_greater,
    "=": _is_equal,
    "&": np.logical_and,
    "|": np.logical_or,
}


def parse_formula(text: str, where: str) -> Formula:
    """Parse a formula. where: its position, for messages."""
    parser = _Parser(text, where)
    return Formula(text, parser.parse())


class _Parser:
    """Parses a formula by recursive descent, and collects its steps."""

    def __init__(self, text: str, where: str):
        self.text = text
        self.where = where
        self.position = 0
        self.depth = 0
        self.steps: list[Step] = []

    def parse(self) -> list[Step]:
        kind = self._level(0)
        if self.position < len(self.text):
            self._fail(f"one of {OPERATORS}")
        if kind != COMPARISONS:
            self._fail("a comparison with < > or =")
        return self.steps

    def _level(self, number: int) -> str:
        """Parse operators of a level of LEVELS, and all that bind more; return the result's kind.

        They are applied from left to right.
        """
        if number == len(LEVELS):
            return self._value()
        level = LEVELS[number]
        kind = self._level(number + 1)
        while self._peek() in level.operators:
            operator = self.text[self.position]
            self._check_operand(kind, level)
            self.position += 1
            right = self._level(number + 1)
            self._check_operand(right, level)
            self.steps.append(operator)
            kind = level.result
        return kind

    def _value(self) -> str:
        """Parse a region, a number or a bracket; return the kind of its value."""
        opening = self._peek()
        region = REGION.match(self.text, self.position)
        number = NUMBER.match(self.text, self.position)
        if region:
            self.position = region.end()
            name = None if region["region"] == "*" else int(region["region"])
            self.steps.append(RegionName(region["condition"].strip(), name))
            return NUMBERS
        if number and math.isfinite(float(number[0])):
            self.position = number.end()
            self.steps.append(float(number[0]))
            return NUMBERS
        if opening not in CLOSING:
            self._fail(VALUES)
        if self.depth == MAX_DEPTH:
            self._fail(f"at most {MAX_DEPTH} brackets within brackets")
        self.position += 1
        self.depth += 1
        kind = self._level(0)
        self.depth -= 1
        if self._peek() != CLOSING[opening]:
            self._fail(f"{CLOSING[opening]} or one of {OPERATORS}")
        self.position += 1
        return kind

    def _peek(self) -> str:
        """Skip white space, and return the next character, or nothing at the end."""
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1
        return self.text[self.position : self.position + 1]

    def _check_operand(self, kind: str, level: _Level) -> None:
        if kind != level.operands:
            operators = " ".join(level.operators)
            self._fail(f"{level.operands} on both sides of {operators}, not {kind}")

    def _fail(self, expected: str) -> NoReturn:
        """Raise an error that shows the place."""
        rest = self.text[self.position :]
        place = f"character {self.position + 1}: found {rest[:20]!r}" if rest else "the end"
        raise UserError(
            f"{self.where}, {place}, expected {expected}. The formula is {self.text!r:.200}"
        )
