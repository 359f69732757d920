"""Formulas of suites: against Python's arithmetic, SyntaxGym's precedence, mistakes in them."""

import random

import numpy as np
import pytest

from elmo import UserError
from elmo_tools.experiments.formulas import MAX_DEPTH, RegionName, parse_formula

A = RegionName("a", 1)
B = RegionName("b-2_x", 1)
WHOLE = RegionName("a", None)


def holds(text: str, **values: float) -> bool:
    """Whether a formula holds. values: of the regions 1 of conditions."""
    named = {RegionName(name, 1): np.array(value) for name, value in values.items()}
    return bool(parse_formula(text, "here").holds(named))


def random_formula(random_: random.Random, depth: int, values: list[float]) -> tuple[str, float]:
    """A sum in brackets, and its value. values: of the region 1 of the conditions c0, c1, ..."""
    text, total = "", 0.0
    for k in range(random_.randint(1, 3)):
        sign = random_.choice("+-") if k else ""
        if depth and random_.random() < 0.6:
            inner, value = random_formula(random_, depth - 1, values)
            part = random_.choice(["({})", "[{} ]"]).format(inner)
        elif random_.random() < 0.5:
            value = round(random_.uniform(-9, 9), 2)
            part = str(value)
        else:
            index = random_.randrange(len(values))
            value = values[index]
            part = random_.choice(["(1;%c{}%)", "( 1 ; %c{}% )"]).format(index)
        text += random_.choice(["", " "]) + sign + random_.choice(["", " "]) + part
        total += -value if sign == "-" else value
    return text, total


def test_formulas_have_the_values_of_arithmetic():
    """Sums with brackets of both kinds, on both sides of each comparison, joined in brackets."""
    random_ = random.Random(0)
    values = [random_.uniform(0, 20) for _ in range(4)]
    named = {RegionName(f"c{k}", 1): np.array(value) for k, value in enumerate(values)}
    n_true = 0
    for _ in range(100):
        left, a = random_formula(random_, 3, values)
        right, b = random_formula(random_, 3, values)
        for comparison, expected in (("<", a < b), (">", a > b)):
            formula = parse_formula(f"{left}{comparison}{right}", "here")
            assert formula.holds(named) == expected, formula.text
            joined = f"[{left}{comparison}{right}] & 1 < 2 | ({right} = {left} + 2)"
            assert parse_formula(joined, "here").holds(named) == expected or abs(a + 2 - b) < 0.01
            n_true += expected
        assert parse_formula(f"{left} = {left}", "here").holds(named)
    assert n_true == 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 - 4 - 3 < 0", True),  # from left to right
        ("5+4=9-1+1", True),
        ("5-(3+2)=0", True),
        ("[5-3]+2 = 4.", True),
        ("-1 < -.5", True),
        ("1e1 - +9 > 0", True),
        ("1 < 2 | 1 < 2 & 1 > 2", False),  # & and | bind alike
        ("1 < 2 | (1 < 2 & 1 > 2)", True),
        ("1 > 2 & 1 < 2 | 1 < 2", True),
        ("\t1\n<\u00a02 ", True),
    ],
)
def test_precedence_is_that_of_syntaxgym(text, expected):
    assert holds(text) is expected


def test_exactly_one_comparison_holds():
    """What the batch changes in a surprisal makes no difference."""
    for b, sign in ((7, "="), (7.0005, "="), (7.0015, "<"), (6.998, ">")):
        found = [
            comparison for comparison in "<=>" if holds(f"(1;%a%){comparison}(1;%b%)", a=7, b=b)
        ]
        assert found == [sign]
    assert holds("(1;%a%)=(1;%b%)", a=1000, b=1000.01), "relative to the values"


def test_a_formula_names_its_regions():
    formula = parse_formula("[(1;%a%)-( 1 ;% b-2_x %)]>(*;%a%)", "here")
    assert formula.regions == [A, B, WHOLE]
    values = {A: np.array([[1, 5, 9]]), B: np.array([[0, 1, 2]]), WHOLE: np.array([[4, 4, 4]])}
    np.testing.assert_array_equal(formula.holds(values), [[False, False, True]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the end, expected a region"),
        ("(1;%a%) >", "the end, expected a region"),
        ("(1;%a%)", "the end, expected a comparison"),
        ("(1;%a%) * 2 > 1", r"character 9: found '\* 2 > 1', expected one of"),
        ("(1;%a%) >= 1", "character 10: found '= 1'"),
        ("(1;%a%) == 1", "character 10: found '= 1'"),
        ("abs((1;%a%)) > 1", "'abs"),
        ("(1;%a) > 1", "';%a"),
        ("(1;a) > 1", "';a"),
        ("(-1;%a%) > 1", "';%a%"),
        ("(%a%;1) > 1", "'%a%;1"),
        ("[1 < 2)", r"expected \]"),
        ("(1 < 2", r"expected \)"),
        ("1 < 2]", r"found '\]'"),
        ("1 < 2 < 3", "numbers on both sides of .*, not comparisons"),
        ("1 + (2 < 3) > 1", "numbers on both sides of .*, not comparisons"),
        ("(2 < 3) > 1", "numbers on both sides of .*, not comparisons"),
        ("1 & 2 < 3", r"comparisons on both sides of & \|, not numbers"),
        ("2 < 3 | 1", r"comparisons on both sides of & \|, not numbers"),
        ("1 < 1e999", "'1e999'"),
        ("1 < 2 # comment", "'# comment'"),
        ("__import__('os').system('true') < 1", "__import__"),
        ("1 ＞ 0", "'＞ 0'"),
        ("(" * 100_000, f"at most {MAX_DEPTH} brackets"),
        ("[" * 60 + "1" + "]" * 60 + " < 2", f"at most {MAX_DEPTH} brackets"),
    ],
)
def test_a_formula_that_does_not_parse_shows_the_place(text, words):
    with pytest.raises(UserError, match=rf"^s.json, prediction 2, .*{words}"):
        parse_formula(text, "s.json, prediction 2")


def test_long_formulas_are_read():
    text = "+".join(["(1;%a%)"] * 20_000)
    assert holds(f"{text} = 20000", a=1)
    depth = MAX_DEPTH
    nested = "(" * depth + "1" + ")" * depth
    assert holds(f"{nested} + {nested} = 2")


def test_any_characters_are_a_formula_or_a_mistake():
    random_ = random.Random(1)
    pieces = ["(1;%a%)", "2<(1;%a%)", "2", *"()[]+-<>=&|*;%"]
    n_formulas = 0
    for _ in range(5000):
        text = "".join(random_.choices(pieces, k=random_.randint(1, 6)))
        try:
            assert holds(text, a=3.0) in (True, False)
            n_formulas += 1
        except UserError:
            pass
    assert n_formulas > 10
