"""What users pass to the classes of `elmo.py`: sentences, layers, options. Errors show the right form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.machine.messages import UserError

RIGHT_FORM = "[['The', 'first', 'sentence', '.'], ['Second', 'one', '.']]"


def check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    """Raise a TypeError that shows the right form unless these are lists of tokens."""
    if not _is_list(sentences):
        hint = " For a generator there is iter_encode." if isinstance(sentences, Iterator) else ""
        raise TypeError(f"sentences: found {shown(sentences)}, expected a list of lists of tokens, {RIGHT_FORM}.{hint}")
    for number, sentence in enumerate(sentences):
        check_sentence(sentence, number)


def check_sentence(sentence: Sequence[str], number: int) -> None:
    """Raise an error unless this is a list of tokens without white space."""
    if not _is_list(sentence):
        hint = f" Split it into tokens first: {sentence.split()[:4]!r}." if isinstance(sentence, str) else ""
        raise TypeError(
            f"sentence {number}: found {shown(sentence)}, expected a list of tokens, as in {RIGHT_FORM}.{hint}"
        )
    if all(isinstance(token, str) for token in sentence) and " ".join(sentence).split() == list(sentence):
        return
    for place, token in enumerate(sentence):
        if not isinstance(token, str):
            raise TypeError(f"sentence {number}, token {place}: found {shown(token)}, expected a string.")
        if token.split() != [token]:
            spaces = sorted({f"{character!r} (U+{ord(character):04X})" for character in token if character.isspace()})
            what = f"holds white space, {' and '.join(spaces)}" if token else "is empty"
            raise UserError(f"sentence {number}, token {place}: {token!r:.60} {what}. Split the sentence into tokens.")


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def check_option(name: str, value: object, allowed: Sequence) -> None:
    if value not in allowed:
        raise UserError(f"{name}={value!r}: expected {' or '.join(map(repr, allowed))}.")


def check_number(name: str, value: object, least: float, most: float = float("inf"), whole: bool = False) -> None:
    """Raise a UserError unless this is a number in the range."""
    kinds = (int, np.integer) if whole else (int, float, np.number)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        bounds = f"{least} or more" if most == float("inf") else f"from {least} to {most}"
        raise UserError(f"{name}={value!r}: expected a {'whole ' * whole}number, {bounds}.")


@dataclass
class LayerChoice:
    """The layers to return: each by itself, or their weighted sum."""

    numbers: list[int]
    weights: list[float] | None  # None: one by one

    @property
    def highest(self) -> int:
        """The last layer that has to be run."""
        return max(self.numbers, default=0)


def layer_choice(layers: str | int | Sequence[float], n_layers: int) -> LayerChoice:
    """all | top | average | a layer's number | several, as in "0,1" | weights of a fixed mix, one for each layer."""
    every = list(range(n_layers))
    if isinstance(layers, str):
        numbers = layers.split(",")
        if layers == "all":
            return LayerChoice(every, None)
        if layers == "top":
            return LayerChoice([n_layers - 1], [1.0])
        if layers == "average":
            return LayerChoice(every, [1 / n_layers] * n_layers)
        if all(number.isdecimal() and int(number) < n_layers for number in numbers):
            return LayerChoice(list(map(int, numbers)), None if len(numbers) > 1 else [1.0])
    elif isinstance(layers, int | np.integer) and not isinstance(layers, bool) and 0 <= layers < n_layers:
        return LayerChoice([int(layers)], [1.0])
    elif isinstance(layers, list | tuple | np.ndarray) and len(layers) == n_layers:
        are_numbers = all(isinstance(weight, int | float | np.floating) and np.isfinite(weight) for weight in layers)
        if are_numbers and not all(isinstance(weight, int) for weight in layers):  # [0, 1, 2] would mean layers
            used = [number for number in every if layers[number]]
            return LayerChoice(used, [float(layers[number]) for number in used])
    weights = f", or {n_layers} weights with decimal points, as in {[1.0] + [0.0] * (n_layers - 1)}"
    raise UserError(
        f"layers={layers!r}: expected 'all', 'top', 'average', a number from 0 to {n_layers - 1}, or several as in '0,1'"
        f"{'' if isinstance(layers, str) else weights}."
    )
