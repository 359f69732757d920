"""Settings: dataclasses whose fields have a description and limits, for Python, flags and config.json alike."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

PRECISIONS = "float32", "bfloat16", "auto"
PRECISION = "of ELMo's products: bfloat16 is faster on recent processors and GPUs; auto: bfloat16 if this one has it"


def setting(
    default: Any,
    help: str = "",
    *,
    minimum: float = 0,
    above: float = -math.inf,
    below: float | None = None,
    choices: Sequence[Any] = (),
    needs: str = "",
    of: Any = None,
    **flag: Any,
) -> Any:
    """Declare a field of a dataclass of settings. Fields without `help` have no flag.

    minimum, above, below: limits of a number; by default, below is 2**31 for whole numbers, 1e30 for others.
    needs: another setting without which this one has no effect, or several, joined by `or`. of: a type; None is then valid.
    flag: metavar, group, flag (its name), and aliases (further names).
    """
    if below is None:
        below = 2**31 if of is int or type(default) is int else 1e30
    limits = {"minimum": minimum, "above": above, "below": below, "choices": tuple(choices), "of": of}
    return dataclasses.field(default=default, metadata={"help": help, "needs": needs, **limits, **flag})


def expected(field: dataclasses.Field, value: Any) -> str:
    """Describe the values that a field accepts, if this is not one of them; otherwise return an empty text."""
    limits = field.metadata or setting(field.default).metadata
    kind = limits["of"] or type(field.default)
    if value is None and limits["of"]:
        return ""
    if limits["choices"]:
        return "" if value in limits["choices"] else f"one of {', '.join(filter(None, limits['choices']))}"
    if kind not in (int, float):  # True is an int, too, in Python
        is_instance = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        wanted = {bool: "true or false"}.get(kind, limits["help"] or f"something like {field.default!r}")
        return "" if is_instance else wanted
    is_number = type(value) in ((int,) if kind is int else (int, float))
    if is_number and value >= limits["minimum"] and limits["above"] < value < limits["below"]:
        return ""
    bounds = f", above {limits['above']}" if limits["above"] >= 0 else f", {limits['minimum']} or more"
    if limits["below"] < 2**31 or (is_number and value >= limits["below"]):
        bounds += f" and below {limits['below']}"
    return f"a {'whole ' * (kind is int)}number{bounds * (limits['minimum'] > -1e30)}"
