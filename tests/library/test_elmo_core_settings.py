"""Settings: which values a field accepts."""

from dataclasses import dataclass, fields

import pytest

from elmo_core.settings import expected, setting


@dataclass
class Example:
    number: int = setting(3, minimum=1, below=9)
    share: float = setting(0.5, minimum=0, below=1)
    name: str = setting("en", choices=("en", "zh"))
    limit: int | None = setting(None, of=int, minimum=1)


FIELDS = {field.name: field for field in fields(Example)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", 1),
        ("number", 8),
        ("share", 0),
        ("share", 0.99),
        ("name", "zh"),
        ("limit", None),
        ("limit", 1),
    ],
)
def test_values_within_the_limits_are_accepted(name, value):
    assert not expected(FIELDS[name], value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", 0),
        ("number", 9),
        ("number", 2.0),
        ("number", True),
        ("number", None),
        ("share", 1.0),
        ("share", float("nan")),
        ("share", "0.5"),
        ("name", "fr"),
        ("limit", 0),
    ],
)
def test_other_values_are_told_what_is_accepted(name, value):
    assert expected(FIELDS[name], value)
