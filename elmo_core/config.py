"""The numbers of a model: what `config.json` in a checkpoint's folder holds. Without Paddle."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elmo_core.machine.messages import UserError

MAX_CHARS = 50  # of a token, its begin and end included; imported models may read fewer or more, up to ...
MAX_CHARS_LIMIT = 127


@dataclass(frozen=True)
class Input:
    """What a token encoder reads of a token. Characters give every word a vector of its own, words need a vocabulary."""

    characters: bool
    words: bool


INPUTS = {
    "char": Input(characters=True, words=False),
    "word": Input(characters=False, words=True),
    "char+word": Input(characters=True, words=True),
}
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
PRESETS = {
    "tiny": {"cell_dim": 256, "projection_dim": 64, "n_highway": 1, "filters": ((1, 16), (2, 32), (3, 64), (4, 64))},
    "small": {"cell_dim": 1024, "projection_dim": 128, "n_highway": 1},
    "medium": {"cell_dim": 2048, "projection_dim": 256, "n_highway": 1},
    "original": {"cell_dim": 4096, "projection_dim": 512, "n_highway": 2},
}
MAX_FLOAT = 1e30  # what a float32 still holds


def _number(default: int | float, help: str, letter: str, least: float = 0, most: float | None = None, flags=()):
    """A field whose command-line flag args.py derives from it; `flags` are its further names."""
    most = most or (2**31 - 1 if isinstance(default, int) else MAX_FLOAT)
    return _described(default, help=help, metavar=letter, least=least, most=most, flags=flags)


def _choice(default: str, help: str, choices: Iterable[str]):
    return _described(default, help=help, choices=tuple(choices))


def _described(default, **metadata):
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class ELMoConfig:
    """Everything needed to rebuild a model. `config.json` in a checkpoint's folder is its JSON form."""

    input: str = _choice("char", "what the model reads of a token: its characters, a table of words, or both", INPUTS)
    vocab_size: int = _described(0, least=0, most=2**31 - 1)  # words that are predicted and in the table; 0: no head
    character_dim: int = _number(16, "size of a character's vector", "N", least=1, flags=("--char_embed_dim",))
    filters: tuple[tuple[int, int], ...] = _described(
        FILTERS, help="character CNN filters as width:number, e.g. 1:32,2:64", metavar="W:N,..."
    )
    activation: str = _choice("relu", "of the character CNN", ("relu", "tanh"))
    n_highway: int = _number(2, "highway layers of the character CNN", "N", most=100, flags=("--num_highways",))
    projection_dim: int = _number(512, "vectors have 2P dimensions", "P", least=1)
    cell_dim: int = _number(4096, "size of an LSTM's cell", "H", least=1)
    n_layers: int = _number(2, "LSTM layers", "L", least=1, most=100, flags=("--num_layers",))
    use_skip_connections: bool = _described(True, help="do not add each layer's input to its output")
    cell_clip: float = _number(3.0, "bound of an LSTM's cell; 0: none", "X")
    proj_clip: float = _number(3.0, "bound of an LSTM's output; 0: none", "X")
    forget_bias: float = _number(1.0, "added to an LSTM's forget gate", "X", least=-MAX_FLOAT)
    word_dim: int = _number(100, "size of a word's vector, with --input=char+word", "N", least=1)
    n_characters: int = _described(262, least=1, most=2**31 - 1)  # rows of the table of characters
    alphabet: str = _described("bytes", choices=("bytes", "code points"))  # by a table of their own, in imported models
    max_characters: int = _described(MAX_CHARS, least=3, most=MAX_CHARS_LIMIT)  # of a token; others in imported models

    def __post_init__(self):
        self._validate()
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
        if unknown := sorted(set(values) - known):
            raise UserError(f"model configuration: unknown field {unknown[0]!r}; known are {', '.join(sorted(known))}.")
        return cls(**values)

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    def reads(self, field: str) -> bool:
        """Whether the model depends on a field."""
        if field in ("character_dim", "filters", "activation", "n_highway"):
            return self.reads_characters
        return field != "word_dim" or (self.reads_characters and self.reads_words)

    @property
    def reads_characters(self) -> bool:
        return INPUTS[self.input].characters

    @property
    def needs_vocabulary(self) -> bool:
        """Whether tokens cannot be read without the vocabulary beside the checkpoint, its alphabet included."""
        return self.reads_words or self.alphabet != "bytes" or self.max_characters != MAX_CHARS

    @property
    def reads_words(self) -> bool:
        return INPUTS[self.input].words

    @property
    def n_filters(self) -> int:
        """The filters of all widths."""
        return sum(number for _, number in self.filters)

    def _validate(self) -> None:
        def need(field: str, holds: bool, expected: str) -> None:
            if not holds:
                raise UserError(f"model configuration: {field} is {getattr(self, field)!r}, expected {expected}.")

        for field in dataclasses.fields(self):
            value, limits = getattr(self, field.name), field.metadata
            if "choices" in limits:
                need(field.name, value in limits["choices"], " or ".join(map(repr, limits["choices"])))
            elif "least" in limits:
                kinds, kind = ((int,), "whole ") if isinstance(field.default, int) else ((int, float), "")
                fits = type(value) in kinds and limits["least"] <= value <= limits["most"]
                need(field.name, fits, f"a {kind}number from {limits['least']} to {limits['most']:,}")
        need("vocab_size", not self.reads_words or self.vocab_size > 0, "the number of words (of a word table)")
        need("use_skip_connections", isinstance(self.use_skip_connections, bool), "true or false")
        pairs = self.filters if isinstance(self.filters, list | tuple) and len(self.filters) <= 100 else [None]
        whole = all(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(type(number) is int and 0 < number < 2**31 for number in pair)
            and pair[0] <= self.max_characters
            for pair in pairs
        )
        need("filters", whole, f"up to 100 pairs [width, number] of whole numbers, widths up to {self.max_characters}")
        need("filters", not self.reads_characters or bool(self.filters), "at least one pair [width, number]")


def differences(saved: Mapping, wanted: Mapping) -> dict[str, str]:
    """The settings that have changed since they were saved, each with what it was and is: {"seed": "seed was 1, is 2"}."""
    names = [name for name in {**wanted, **saved} if saved.get(name) != wanted.get(name)]
    return {name: f"{name} was {saved.get(name)}, is {wanted.get(name)}" for name in names}
