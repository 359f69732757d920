"""Code is plain at first sight: the rules of CONTRIBUTING.md that a syntax tree shows.

not_plain.tsv has the number of places in each file that break them. It may only become smaller:

    .venv/bin/python tests/house/test_plain.py          # shows the places
    .venv/bin/python tests/house/test_plain.py --save   # writes not_plain.tsv, with fewer places
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("not_plain.tsv")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def has(kind: type | tuple[type, ...], nodes: list[ast.AST]) -> bool:
    return any(isinstance(node, kind) for node in nodes)


def is_swap(target: ast.Tuple, value: ast.Tuple) -> bool:
    """Whether the values use what is assigned, as in a, b = b, a."""
    assigned = {ast.unparse(element) for element in target.elts}
    used = {ast.unparse(node) for element in value.elts for node in ast.walk(element)}
    return bool(assigned & used)


def fault(node: ast.AST) -> str | None:
    """The rule that a node breaks, if any."""
    if isinstance(node, ast.NamedExpr):
        return "a walrus"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "map":
        return "map(), where a comprehension says it"
    is_union = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr)
    if is_union and isinstance(node.value, ast.Dict | ast.DictComp):
        return "a dictionary is built in several statements"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        value = node.value
        if isinstance(value, ast.GeneratorExp):
            return "a generator is unpacked"
        if not isinstance(value, ast.Tuple) or is_swap(node.targets[0], value):
            return None
        if not all(isinstance(element, ast.Constant) for element in value.elts):
            return "unrelated values are assigned in one statement"
    if isinstance(node, COMPREHENSIONS):
        inner = [part for part in ast.walk(node) if part is not node]
        if len(node.generators) > 1 or has(COMPREHENSIONS, inner):
            return "a comprehension with two loops"
    if isinstance(node, ast.IfExp):
        inner = [part for part in ast.walk(node) if part is not node]
        return "a choice within a choice" if has(ast.IfExp, inner) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for text, factor in ((node.left, node.right), (node.right, node.left)):
            is_text = isinstance(text, ast.JoinedStr) or (
                isinstance(text, ast.Constant) and isinstance(text.value, str)
            )
            if is_text and not isinstance(factor, ast.Constant):
                return "a text is multiplied by a condition"
    return None


def faults(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found = fault(node)
        if found:
            yield node.lineno, found


def product_files() -> Iterator[Path]:
    """The Python files of the product: the scripts, the packages, the demos and the benchmarks."""
    for path in sorted(PROJECT.rglob("*.py")):
        top = path.relative_to(PROJECT).parts[0]
        if not top.startswith((".", "tests", "data", "build", "checkpoints", "runs")):
            yield path


def counts() -> dict[str, int]:
    found = {
        path.relative_to(PROJECT).as_posix(): len(list(faults(path))) for path in product_files()
    }
    return {name: number for name, number in found.items() if number}


def allowed() -> dict[str, int]:
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return {name: int(number) for name, number in rows}


def test_a_line_is_plain_at_first_sight():
    known = allowed()
    more = {name: number for name, number in counts().items() if number > known.get(name, 0)}
    assert not more, f"{__file__} shows the places"


def test_the_exceptions_become_fewer():
    found = counts()
    fewer = {name: number for name, number in allowed().items() if number > found.get(name, 0)}
    assert not fewer, f"write the smaller numbers: {__file__} --save"


def test_each_rule_is_noticed():
    broken = [
        "a, b = f(x), g(y)",
        "a, b = (f(x) for x in y)",
        "a = [x for y in z for x in y]",
        "a = [[x for x in y] for y in z]",
        "if a := f(): pass",
        "a = 1 if b else 2 if c else 3",
        "a = 's' * (n > 1)",
        "a = list(map(str, b))",
        "a |= {'b': 1}",
    ]
    for line in broken:
        assert any(fault(node) for node in ast.walk(ast.parse(line))), line
    for line in (
        "a, b = b, a",
        "a, b = f()",
        "a, b = 0, 1",
        "a = [f(x) for x in y]",
        "a = '-' * 3",
    ):
        assert not any(fault(node) for node in ast.walk(ast.parse(line))), line


if __name__ == "__main__":
    if "--save" in sys.argv:
        lines = [f"{name}\t{number}\n" for name, number in counts().items()]
        TABLE.write_text("".join(lines), encoding="utf-8")
    else:
        for path in product_files():
            for number, text in sorted(faults(path)):
                print(f"{path.relative_to(PROJECT)}:{number}: {text}")
