"""Settings: dataclasses whose fields have a description and limits.

They serve Python, flags and config.json alike.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KINDS = {
    bool: "true or false",
    str: "a string",
    int: "a whole number",
    Path: "a path",
    list: "a list",
    tuple: "a list",
}
PRECISIONS = ("float32", "bfloat16", "auto")
PRECISION = (
    "of ELMo's products: bfloat16 is faster on recent processors and GPUs; "
    "auto: bfloat16 if this one has it"
)


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

    minimum, above, below: limits of a number; by default, below is 2**31 for whole numbers, 1e30
    for others. needs: another setting without which this one has no effect, or several, joined by
    `or`. of: a type; None is then valid.
    flag: metavar, group, flag (its name), and aliases (further names).
    """
    if below is None:
        below = 2**31 if of is int or type(default) is int else 1e30
    metadata = dict(
        help=help,
        needs=needs,
        minimum=minimum,
        above=above,
        below=below,
        choices=tuple(choices),
        of=of,
        **flag,
    )
    return dataclasses.field(default=default, metadata=metadata)


def expected(field: dataclasses.Field, value: Any) -> str:
    """Describe the values that a field accepts, if this is not one of them.

    Otherwise return an empty text.
    """
    limits = field.metadata or setting(field.default).metadata
    kind = limits["of"] or type(field.default)
    if value is None and limits["of"]:
        return ""
    if limits["choices"]:
        if value in limits["choices"]:
            return ""
        names = [choice for choice in limits["choices"] if choice]
        return f"one of {', '.join(names)}"
    if kind not in (int, float):  # True is an int, too, in Python
        is_instance = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return "" if is_instance else _describe_kind(field, kind)
    allowed = (int,) if kind is int else (int, float)
    is_number = type(value) in allowed
    if is_number and value >= limits["minimum"] and limits["above"] < value < limits["below"]:
        return ""
    text = "a whole number" if kind is int else "a number"
    if limits["above"] >= 0:
        text += f", above {limits['above']}"
    elif limits["minimum"] > -1e30:
        text += f", {limits['minimum']} or more"
    if limits["below"] < 2**31 or (is_number and value >= limits["below"]):
        text += f" and below {limits['below']}"
    return text


def _describe_kind(field: dataclasses.Field, kind: type | tuple[type, ...]) -> str:
    """The types of a field's values in words, and what the field is."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = [KINDS[one] for one in kinds if one in KINDS]
    if not names:
        return f"something like {field.default!r}"
    text = " or ".join(dict.fromkeys(names))
    help_text = field.metadata.get("help")
    return f"{text} ({help_text})" if help_text else text
