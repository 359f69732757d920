"""Settings: dataclasses whose fields have a description and limits.

They serve Python, flags and config.json alike.
"""

import dataclasses
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.checks import describe
from elmo_core.messages import UserError

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


def default(base: type, name: str, value: Any) -> Any:
    """Declare a field of a base class again, with another default."""
    return dataclasses.field(default=value, metadata=base.__dataclass_fields__[name].metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that are valid: an unknown name is a TypeError, an invalid value a UserError."""

    def __new__(cls, *unnamed: Any, **values: Any):
        if unnamed:
            found = describe(unnamed[0])
            raise TypeError(
                f"found {found}, expected settings by name, as in {cls.__name__}(epochs=3)."
            )
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values.keys() - known:
            hint = f"Expected some of {', '.join(known)}."
            close = difflib.get_close_matches(name, known, 1)
            if close:
                hint = f"Did you mean {close[0]!r}?"
            raise TypeError(f"{cls.__name__} has no setting {name!r}. {hint}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not field.metadata:  # a plain one of a user's own task, without limits
                continue
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # of a search over an array
                value = value.item()
                object.__setattr__(self, field.name, value)
            what = expected(field, value)
            if what:
                raise UserError(f"`{field.name}` is {value!r:.80}, expected {what}.")
            needs = field.metadata["needs"]
            if needs and value != field.default:
                self._check_needs(field.name, needs.split(" or "))

    def _check_needs(self, name: str, needs: Sequence[str]) -> None:
        """Raise if all the fields are off without which another one has no effect."""
        if not any(getattr(self, needed) for needed in needs):
            names = " or ".join(f"`{needed}`" for needed in needs)
            raise UserError(f"`{name}` has no effect without {names}.")

    def to_dict(self) -> dict[str, Any]:
        """The values for config.json. An ELMo layer of the user's own is "a layer"."""
        values = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Path):
                value = str(value)
            elif not isinstance(value, str | int | float | list | tuple | None):
                value = "a layer"
            values[field.name] = value
        return values

    def changed(self) -> dict[str, Any]:
        """The values that differ from the defaults."""
        values = self.to_dict()
        defaults = type(self)
        return {name: value for name, value in values.items() if value != getattr(defaults, name)}
