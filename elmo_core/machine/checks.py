"""Checks of arguments to the classes of `elmo.py`: sentences, options, numbers."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from elmo_core.machine.messages import UserError

EXAMPLE = "[['The', 'first', 'sentence', '.'], ['Second', 'one', '.']]"


def check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    """Raise a TypeError that shows an example unless these are lists of tokens."""
    if not _is_list(sentences):
        hint = " For a generator use iter_encode or iter_predict." if isinstance(sentences, Iterator) else ""
        raise TypeError(f"sentences: found {describe(sentences)}, expected a list of lists of tokens, {EXAMPLE}.{hint}")
    for number, sentence in enumerate(sentences):
        check_sentence(sentence, number)


def checked(sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield sentences of a stream after checking each."""
    for number, sentence in enumerate(sentences):
        check_sentence(sentence, number)
        yield sentence


def check_sentence(sentence: Sequence[str], number: int) -> None:
    """Raise an error unless this is a list of tokens without white space."""
    if not _is_list(sentence):
        words = sentence.split()[:4] if isinstance(sentence, str) else []
        hint = f" Split it into tokens first: {words!r}." if len(words) > 1 else ""
        raise TypeError(
            f"sentence {number}: found {describe(sentence)}, expected a list of tokens, as in {EXAMPLE}.{hint}"
        )
    if all(isinstance(token, str) for token in sentence) and " ".join(sentence).split() == list(sentence):
        return
    for position, token in enumerate(sentence):
        if not isinstance(token, str):
            raise TypeError(f"sentence {number}, token {position}: found {describe(token)}, expected a string.")
        if token.split() != [token]:
            fault = "contains white space" if token else "is empty"
            raise UserError(
                f"sentence {number}, token {position}: {token!r:.60} {fault}. Split the sentence into tokens."
            )


def check_texts(texts: Sequence, names: Sequence[str] = ("text",)) -> None:
    """Raise a TypeError unless each is a string or, with several names, a tuple of as many strings."""
    if not _is_list(texts):
        raise TypeError(f"found {describe(texts)}, expected a list of {'strings' if len(names) == 1 else 'tuples'}.")
    expected = "a string" if len(names) == 1 else f"a tuple of strings: {', '.join(names)}"
    for number, text in enumerate(texts):
        parts = [text] if len(names) == 1 else text
        if not _is_list(parts) or len(parts) != len(names) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"text {number}: found {describe(text)}, expected {expected}.")


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def describe(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def check_option(name: str, value: object, allowed: Sequence) -> None:
    if value not in allowed:
        raise UserError(f"{name}={value!r}: expected {' or '.join(map(repr, allowed))}.")


def check_number(
    name: str, value: object, minimum: float, maximum: float = float("inf"), integer: bool = False
) -> None:
    """Raise a UserError unless this is a number in the range, an integer if required."""
    kinds = (int, np.integer) if integer else (int, float, np.number)
    if isinstance(value, bool) or not isinstance(value, kinds) or not minimum <= value <= maximum:
        bounds = f"{minimum} or more" if maximum == float("inf") else f"from {minimum} to {maximum}"
        raise UserError(f"{name}={value!r}: expected a {'whole ' * integer}number, {bounds}.")
