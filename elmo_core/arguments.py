"""What users pass to the classes of `elmo.py`: sentences, layers. A wrong form is an error that shows the right one."""

from collections.abc import Iterator, Sequence

import numpy as np

from elmo_core.runtime import UserError

RIGHT_FORM = "[['The', 'first', 'sentence', '.'], ['Second', 'one', '.']]"


def check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    """Raise a TypeError that shows the right form unless these are lists of tokens."""
    if not _is_list(sentences):
        hint = " For a generator there is iter_encode." if isinstance(sentences, Iterator) else ""
        raise TypeError(f"sentences: found {shown(sentences)}, expected a list of lists of tokens, {RIGHT_FORM}.{hint}")
    for number, sentence in enumerate(sentences):
        check_sentence(sentence, number)


def check_sentence(sentence: Sequence[str], number: int) -> Sequence[str]:
    """The sentence, if it is a list of tokens without white space."""
    if not _is_list(sentence):
        hint = f" Split it into tokens first: {sentence.split()[:4]!r}." if isinstance(sentence, str) else ""
        raise TypeError(
            f"sentence {number}: found {shown(sentence)}, expected a list of tokens, as in {RIGHT_FORM}.{hint}"
        )
    if all(isinstance(token, str) for token in sentence) and " ".join(sentence).split() == list(sentence):
        return sentence
    for place, token in enumerate(sentence):
        if not isinstance(token, str):
            raise TypeError(f"sentence {number}, token {place}: found {shown(token)}, expected a string.")
        if token.split() != [token]:
            spaces = sorted({f"{character!r} (U+{ord(character):04X})" for character in token if character.isspace()})
            what = f"holds white space, {' and '.join(spaces)}" if token else "is empty"
            raise UserError(f"sentence {number}, token {place}: {token!r:.60} {what}. Split the sentence into tokens.")
    return sentence


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def several_layers(layers: str | int | Sequence[float], n_layers: int) -> list[int]:
    """The numbers of layers that are wanted one by one; none for a single layer or a mix."""
    if isinstance(layers, str) and layers == "all":
        return list(range(n_layers))
    numbers = layers.split(",") if isinstance(layers, str) and "," in layers else []
    whole = all(number.isdecimal() and int(number) < n_layers for number in numbers)
    return [int(number) for number in numbers] if whole else []


def layer_weights(layers: str | int | Sequence[float], n_layers: int) -> np.ndarray:
    """Weights (n_layers,) of a fixed mix, or of a single layer."""
    if isinstance(layers, str) and layers in ("top", "average"):
        return {"top": np.eye(n_layers)[-1], "average": np.full(n_layers, 1 / n_layers)}[layers]
    if isinstance(layers, str) and layers.isdecimal() and int(layers) < n_layers:
        return np.eye(n_layers)[int(layers)]
    if isinstance(layers, int | np.integer) and not isinstance(layers, bool) and 0 <= layers < n_layers:
        return np.eye(n_layers)[layers]
    if isinstance(layers, list | tuple | np.ndarray) and len(layers) == n_layers:
        numbers = all(isinstance(weight, int | float | np.floating) and np.isfinite(weight) for weight in layers)
        whole = all(isinstance(weight, int) for weight in layers)  # [0, 1, 2] would mean layers, not weights
        if numbers and not whole:
            return np.asarray(layers, dtype=np.float64)
    raise UserError(
        f"layers={layers!r}: expected 'all', 'top', 'average', a number from 0 to {n_layers - 1}, several as in '0,1', "
        f"or {n_layers} weights with decimal points, as in {[1.0] + [0.0] * (n_layers - 1)}."
    )
