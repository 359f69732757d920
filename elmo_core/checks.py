"""Checks of arguments to the classes of `elmo.py`: sentences, options, numbers."""

import importlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import Any

import numpy as np

from elmo_core.messages import UserError, join_names

Label = str | int | bool  # of a token or text
PACKAGES = {"sklearn": "scikit-learn"}  # packages with another name than their module

UNSAVABLE = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of surrogate pairs
SPACE = re.compile(r"[^\S\u00a0\u2007\u202f]")  # but no-break spaces
EXAMPLE = "[['The', 'first', 'sentence', '.'], ['Second', 'one', '.']]"


def as_list(value: Any) -> list | tuple | None:
    """Return the items of a list, tuple, array, or column of pandas or `datasets`.

    None for anything else.
    """
    if isinstance(value, list | tuple):
        return value
    is_sized = isinstance(value, Iterable) and hasattr(value, "__len__")
    if not is_sized or isinstance(value, str | bytes | Mapping | Set):
        return None
    n_axes = getattr(value, "ndim", 1)
    is_table = n_axes > 1 and not isinstance(value, np.ndarray)
    if n_axes == 0 or is_table:  # a table of pandas yields the names of its columns
        return None
    return list(value)


def check_sentences(sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the sentences as a list.

    Raise a TypeError that shows an example unless these are sequences of tokens.
    """
    items = as_list(sentences)
    if items is None:
        hint = " Make a list of the generator first." if isinstance(sentences, Iterator) else ""
        raise TypeError(
            f"sentences: found {describe(sentences)}, expected a list of lists of tokens, "
            f"{EXAMPLE}.{hint}"
        )
    return list(checked(items))


def checked(
    sentences: Iterable[Sequence[str]], of_texts: str = "`encode_texts`"
) -> Iterator[Sequence[str]]:
    """Yield sentences of a stream after checking each, see `check_sentence`."""
    for number, sentence in enumerate(sentences):
        yield check_sentence(sentence, number, of_texts)


def check_sentence(
    sentence: Sequence[str], number: int | str, of_texts: str = "`encode_texts`"
) -> Sequence[str]:
    """Return the sentence as a list or tuple. Raise an error unless it is a sequence of tokens.

    Blank tokens, such as spaCy's, and no-break spaces within a token are read as any unknown
    characters. of_texts: what the caller has for raw text, if anything.
    """
    tokens = as_list(sentence)
    if tokens is None:
        hint = ""
        if isinstance(sentence, str):
            hint = " Split raw text with split or jieba.lcut"
            hint += f", or use {of_texts}." if of_texts else "."
        raise TypeError(
            f"sentence {number}: found {describe(sentence)}, expected a list of tokens: "
            f"{EXAMPLE}.{hint}"
        )
    if all(isinstance(token, str) for token in tokens) and " ".join(tokens).split() == list(tokens):
        return tokens
    for position, token in enumerate(tokens):
        if not isinstance(token, str):
            raise TypeError(
                f"sentence {number}, token {position}: found {describe(token)}, expected a string."
            )
        if SPACE.search(token) and token.strip():
            raise UserError(
                f"sentence {number}, token {position}: {token!r:.60} has spaces. "
                f"Tokenise the sentence."
            )
    return tokens


def check_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts as a list. Raise a TypeError unless each is a string."""
    items = as_list(texts)
    if items is None:
        raise TypeError(f"found {describe(texts)}, expected a list of strings.")
    for number, text in enumerate(items):
        if not isinstance(text, str):
            raise TypeError(f"text {number}: found {describe(text)}, expected a string.")
    return list(items)


def check_text(value: Any, where: str, what: str = "text") -> str:
    """The string, without characters that cannot be saved: NUL, and halves of surrogate pairs."""
    if not isinstance(value, str):
        raise UserError(f"{where}: found {describe(value)}, expected a {what}.")
    if UNSAVABLE.search(value):
        raise UserError(
            f"{where}: found {value!r:.60}, which has a NUL or half of a surrogate pair. Remove it."
        )
    return str(value)  # not NumPy's


def check_field(values: Any, name: str, kind: Any, where: str, expected: str) -> Any:
    """Return the value of a key of an object, which is of this kind.

    where: the object's position. expected: describes what holds it, for the error message.
    """
    value = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(value, kind):
        found = f"{name!r} is missing" if value is None else f"{name!r} is {value!r:.60}"
        raise UserError(f"{where}: {found}, expected {expected}.")
    return value


def describe(value: object) -> str:
    """A value's type, and its first characters or, of a table, the names of its columns."""
    columns = getattr(value, "columns", None)  # of pandas and polars
    if columns is None:
        columns = getattr(value, "column_names", None)  # of datasets
    if isinstance(columns, Iterable):
        names = join_names([str(column) for column in columns])
        return f"a {type(value).__name__} with the columns {names}"
    return f"{type(value).__name__} {value!r:.60}"


def check_option(name: str, value: object, allowed: Sequence) -> None:
    """Raise a UserError unless a value is one of the strings, or None, that are allowed."""
    if not isinstance(value, str | None) or value not in allowed:
        choices = " or ".join([repr(choice) for choice in allowed])
        raise UserError(f"{name}={value!r:.80}: expected {choices}.")


def check_number(
    name: str, value: object, minimum: float, maximum: float = math.inf, integer: bool = False
) -> None:
    """Raise a UserError unless this is a number in the range, an integer if required."""
    kinds = (int, np.integer) if integer else (int, float, np.number)
    if isinstance(value, bool) or not isinstance(value, kinds) or not minimum <= value <= maximum:
        bounds = f"{minimum} or more" if maximum == math.inf else f"from {minimum} to {maximum}"
        kind = "whole number" if integer else "number"
        raise UserError(f"{name}={value!r}: expected a {kind}, {bounds}.")


def import_optional(module: str, feature: str) -> ModuleType:
    """Import a module for a feature.

    If its package is not installed, the error says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        if error.name != name:
            raise
        package = PACKAGES.get(name, name)
        raise UserError(
            f"{feature} needs the package {package}. Install it: pip install {package}"
        ) from None
