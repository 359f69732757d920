"""Settings: dataclasses whose fields have a description and limits, for Python, flags and config.json alike."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from elmo_core.messages import UserError

Settings = TypeVar("Settings")
PRECISIONS = "float32", "bfloat16", "auto"
NEEDS = {"word_vectors_limit": "word_vectors", "overwrite": "save_dir", "resume": "save_dir or results"}  # of arguments
PRECISION = "of ELMo's products: bfloat16 is faster on recent processors and GPUs; auto: bfloat16 if this one has it"


def setting(
    default: Any,
    help: str = "",
    *,
    minimum: float | None = None,
    above: float = -math.inf,
    below: float | None = None,
    choices: Sequence[Any] = (),
    needs: str = "",
    **flag: Any,
) -> Any:
    """Declare a field of a dataclass of settings. Fields without `help` have no flag.

    minimum, above, below: limits of a number; by default, minimum is 1 if the default is a whole number above 0, else 0,
    and below is 2**31 for whole numbers, 1e30 for others.
    A default that is a tuple is of several values: one is valid, too, and `training.search` selects one.
    needs: another setting without which this one has no effect; or, as in `layers=mix`, how its value must begin; or
    several of them, joined by `or`. flag: metavar, and aliases: further names of the flag.
    """
    if minimum is None:
        minimum = int(type(first_of(default)) is int and first_of(default) > 0)
    if below is None:
        below = 2**31 if type(first_of(default)) is int else 1e30
    limits = {"minimum": minimum, "above": above, "below": below, "choices": tuple(choices)}
    return dataclasses.field(default=default, metadata={"help": help, "needs": needs, **limits, **flag})


def first_of(value: Any) -> Any:
    """The value, or the first of several."""
    return value[0] if isinstance(value, list | tuple) and value else value


def expected(field: dataclasses.Field, value: Any) -> str:
    """Describe the values that a field accepts, if this is not one of them; otherwise return an empty text."""
    limits, kind = field.metadata or setting(field.default).metadata, type(first_of(field.default))
    if limits["choices"]:
        return "" if value in limits["choices"] else f"one of {', '.join(filter(None, limits['choices']))}"
    if kind not in (int, float):
        return "" if isinstance(value, kind) else {bool: "true or false"}.get(kind, f"something like {field.default!r}")
    is_number = type(value) in ((int,) if kind is int else (int, float))
    if is_number and value >= limits["minimum"] and limits["above"] < value < limits["below"]:
        return ""
    bounds = f", above {limits['above']}" if limits["above"] >= 0 else f", {limits['minimum']} or more"
    if limits["below"] < 2**31 or (is_number and value >= limits["below"]):
        bounds += f" and below {limits['below']}"
    return f"a {'whole ' * (kind is int)}number{bounds * (limits['minimum'] > -1e30)}"


def make(kind: type[Settings], values: Mapping[str, Any], describe: Callable[[str], str] = "`{}`".format) -> Settings:
    """Fill a dataclass of settings from the values of the same names, and validate them. describe: a field, in an error."""
    fields = [field for field in dataclasses.fields(kind) if field.name in values]
    for field in fields:
        if text := expected(field, values[field.name]):
            raise UserError(f"{describe(field.name)} is {values[field.name]!r:.80}, expected {text}.")
    return kind(**{field.name: values[field.name] for field in fields})


def check_effects(values: Mapping[str, Any], *kinds: Any) -> None:
    """Raise if a setting was changed that has no effect together with the others.

    values: all arguments of a call. kinds: dataclasses of settings, or instances whose values are the defaults.
    """
    changed = {name: needs for name, needs in NEEDS.items() if values.get(name)}
    for kind in kinds:
        for field in dataclasses.fields(kind):
            if field.name in values and values[field.name] != getattr(kind, field.name):
                changed[field.name] = field.metadata.get("needs", "")
    for name, needs in changed.items():
        known = [need for need in needs.split(" or ") if need.partition("=")[0] in values]
        if known and not any(_holds(need, values) for need in known):
            raise UserError(f"`{name}` has no effect without {' or '.join(f'`{need}`' for need in known)}.")


def _holds(need: str, values: Mapping[str, Any]) -> bool:
    name, _, start = need.partition("=")
    return bool(values.get(name)) and str(values[name]).startswith(start)


def from_config(kind: type[Settings], values: Any, name: str, source: Path) -> Settings:
    """Validate the field `name` of a config.json, `source`, as a dataclass of settings."""
    fields = {field.name for field in dataclasses.fields(kind)}
    values = values if isinstance(values, dict) else {}
    if wrong := sorted(fields ^ values.keys()):
        raise UserError(f"{source}: {name}.{wrong[0]} is {'missing' if wrong[0] in fields else 'unknown'}.")
    return make(kind, values, lambda field: f"{source}: {name}.{field}")
