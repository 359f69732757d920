"""The numbers of a model: what `config.json` in a checkpoint's folder holds. Without Paddle."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from elmo_core.runtime import UserError
from elmo_core.tokens import MAX_CHARS

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
PRESETS = {
    "tiny": {
        "cell_dim": 256,
        "projection_dim": 64,
        "n_highway": 1,
        "filters": ((1, 16), (2, 32), (3, 64), (4, 64)),
    },
    "small": {"cell_dim": 1024, "projection_dim": 128, "n_highway": 1},
    "medium": {"cell_dim": 2048, "projection_dim": 256, "n_highway": 1},
    "original": {"cell_dim": 4096, "projection_dim": 512, "n_highway": 2},
}
MOST = {"n_layers": 100, "n_highway": 100, "filters": 100}  # of what is built one by one
LARGEST = 1e30  # what a float32 still holds


@dataclass(frozen=True)
class ELMoConfig:
    """Everything needed to rebuild a model. `config.json` in a checkpoint's folder is its JSON form."""

    input: str = "char"  # char: a CNN over characters; word: a table of the vocabulary's words
    vocab_size: int = 0  # words that the language model predicts and the word table holds; 0: no head
    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = FILTERS  # (width, number)
    activation: str = "relu"  # relu | tanh
    n_highway: int = 2
    projection_dim: int = 512
    cell_dim: int = 4096
    n_layers: int = 2
    use_skip_connections: bool = True
    cell_clip: float = 3.0  # 0: none
    proj_clip: float = 3.0
    forget_bias: float = 1.0

    def __post_init__(self):
        self.validate()
        object.__setattr__(self, "filters", tuple(tuple(pair) for pair in self.filters))

    @classmethod
    def preset(cls, name: str, **changes) -> "ELMoConfig":
        if name not in PRESETS:
            raise UserError(f"model size {name!r}: expected one of {', '.join(PRESETS)}.")
        return cls(**{**PRESETS[name], **changes})

    @classmethod
    def from_dict(cls, values: dict) -> "ELMoConfig":
        if not isinstance(values, dict):
            raise UserError(f"model configuration: found {values!r:.60}, expected a JSON object.")
        known = {field.name for field in dataclasses.fields(cls)}
        unknown, missing = sorted(set(values) - known), sorted(known - set(values))
        if unknown:
            raise UserError(f"model configuration: unknown field {unknown[0]!r}; known are {', '.join(sorted(known))}.")
        if missing:
            raise UserError(f"model configuration: the field {missing[0]!r} is missing.")
        return cls(**values)

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    def validate(self) -> None:
        def need(field: str, holds: bool, expected: str) -> None:
            if not holds:
                raise UserError(f"model configuration: {field} is {getattr(self, field)!r}, expected {expected}.")

        need("input", self.input in ("char", "word"), "'char' or 'word'")
        need("activation", self.activation in ("relu", "tanh"), "'relu' or 'tanh'")
        for field in ("character_dim", "projection_dim", "cell_dim", "n_layers", "vocab_size", "n_highway"):
            least, most = int(field not in ("vocab_size", "n_highway")), MOST.get(field, 2**31 - 1)
            value = getattr(self, field)
            need(field, type(value) is int and least <= value <= most, f"a whole number from {least} to {most:,}")
        for field in ("cell_clip", "proj_clip"):
            value = getattr(self, field)
            need(field, type(value) in (int, float) and 0 <= value < LARGEST, "a number, 0 (no clip) or more")
        value = self.forget_bias
        need("forget_bias", type(value) in (int, float) and abs(value) < LARGEST, "a number")
        need("use_skip_connections", isinstance(self.use_skip_connections, bool), "true or false")
        need("filters", isinstance(self.filters, list | tuple), "a list of pairs [width, number]")
        need("filters", len(self.filters) <= MOST["filters"], f"no more than {MOST['filters']} pairs")
        for pair in self.filters:
            whole = isinstance(pair, list | tuple) and len(pair) == 2
            whole = whole and all(type(number) is int and 0 < number < 2**31 for number in pair)
            expected = f"pairs [width, number] of whole numbers, widths up to {MAX_CHARS}"
            need("filters", whole and pair[0] <= MAX_CHARS, expected)
        need("filters", self.input == "word" or bool(self.filters), "at least one pair [width, number]")
        need("vocab_size", self.input == "char" or self.vocab_size > 0, "the number of words (a word table)")


def differences(saved: Mapping, wanted: Mapping) -> dict[str, str]:
    """The settings that have changed since they were saved, each with what it was and is: {"seed": "seed was 1, is 2"}."""
    names = [name for name in {**wanted, **saved} if saved.get(name) != wanted.get(name)]
    return {name: f"{name} was {saved.get(name)}, is {wanted.get(name)}" for name in names}
