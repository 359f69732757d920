"""The configuration of a model, stored as config.json. Does not import Paddle."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from elmo_core.messages import UserError
from elmo_core.settings import expected, setting

MAX_CHARS = 50  # per token, begin and end markers included
MAX_SIZE = 2**20  # of a layer: Paddle cannot build much larger ones
MAX_CHARS_LIMIT = 127  # for imported models
INPUTS = ("char", "word", "char+word")  # a name says what the token encoder reads
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
MAX_FLOAT = 1e30  # fits a float32


@dataclass(frozen=True)
class ELMoConfig:
    """Everything needed to rebuild a model, stored as `config.json` next to its checkpoints."""

    input: str = setting(
        "char", "token input: characters, a table of words, or both", choices=INPUTS
    )
    vocab_size: int = setting(0)  # of softmax and word table; 0: no softmax
    character_dim: int = setting(
        16, "character embedding size", below=MAX_SIZE, aliases=("char_embed_dim",), minimum=1
    )
    # (width, number) of each convolution of the character CNN
    filters: tuple[tuple[int, int], ...] = FILTERS
    activation: str = setting("relu", "activation of the character CNN", choices=("relu", "tanh"))
    n_highway: int = setting(
        2, "highway layers of the character CNN", minimum=0, below=101, aliases=("num_highways",)
    )
    projection_dim: int = setting(
        512,
        "LSTM projection size; vectors have 2P dimensions",
        below=MAX_SIZE,
        metavar="P",
        minimum=1,
    )
    cell_dim: int = setting(4096, "LSTM cell size", below=MAX_SIZE, metavar="H", minimum=1)
    n_layers: int = setting(
        2, "LSTM layers", metavar="L", below=101, aliases=("num_layers",), minimum=1
    )
    use_skip_connections: bool = setting(True)
    cell_clip: float = setting(3.0, "clip LSTM cells to +-X; 0: off", below=MAX_FLOAT)
    proj_clip: float = setting(3.0, "clip LSTM outputs to +-X; 0: off", below=MAX_FLOAT)
    forget_bias: float = setting(
        1.0, "bias added to the LSTM forget gate", minimum=-MAX_FLOAT, below=MAX_FLOAT
    )
    word_dim: int = setting(
        100, "word embedding size, if the input is char+word", below=MAX_SIZE, minimum=1
    )
    n_characters: int = setting(262, minimum=1)  # rows of the character embedding
    # "code points" in imported models
    alphabet: str = setting("bytes", choices=("bytes", "code points"))
    max_characters: int = setting(MAX_CHARS, minimum=3, below=MAX_CHARS_LIMIT + 1)  # per token
    mix: tuple[float, ...] = ()  # a weight of each layer, of models imported with one

    def __post_init__(self):
        self._validate()
        object.__setattr__(self, "filters", tuple(tuple(pair) for pair in self.filters))
        object.__setattr__(self, "mix", tuple(self.mix))

    @classmethod
    def preset(cls, name: str, **changes) -> "ELMoConfig":
        """Return the configuration of a size of PRESETS, with some fields changed."""
        if name not in PRESETS:
            raise UserError(f"model size {name!r}: expected one of {', '.join(PRESETS)}.")
        values = PRESETS[name] | changes
        return cls(**values)

    @classmethod
    def from_dict(cls, values: dict) -> "ELMoConfig":
        """Return the configuration that a config.json contains."""
        if not isinstance(values, dict):
            raise UserError(f"model configuration: found {values!r:.60}, expected a JSON object.")
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise UserError(
                f"model configuration: unknown field {unknown[0]!r}; "
                f"known are {', '.join(sorted(known))}."
            )
        return cls(**values)

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    @property
    def reads_characters(self) -> bool:
        return "char" in self.input

    @property
    def needs_vocabulary(self) -> bool:
        """Return whether reading tokens requires the checkpoint's vocabulary, or its alphabet."""
        return self.reads_words or self.alphabet != "bytes" or self.max_characters != MAX_CHARS

    @property
    def reads_words(self) -> bool:
        return "word" in self.input

    @property
    def n_filters(self) -> int:
        """Return the number of filters over all widths."""
        return sum(number for _, number in self.filters)

    def _validate(self) -> None:
        for field in dataclasses.fields(self):
            if field.name not in ("filters", "mix"):
                wanted = expected(field, getattr(self, field.name))
                self._require(field.name, not wanted, wanted)
        known = self.alphabet != "bytes" or self.n_characters >= 262
        self._require(
            "n_characters", known or not self.reads_characters, "262 or more, for bytes and markers"
        )
        is_fixed = self.alphabet == "bytes" or self.max_characters == MAX_CHARS
        self._require("max_characters", is_fixed, f"{MAX_CHARS}, which code points have")
        self._require(
            "vocab_size",
            not self.reads_words or self.vocab_size > 0,
            "the number of words (of a word table)",
        )
        are_few = isinstance(self.filters, list | tuple) and len(self.filters) <= 100
        self._require(
            "filters",
            are_few and all(self._is_filter(pair) for pair in self.filters),
            f"up to 100 pairs [width, number], widths up to {self.max_characters}",
        )
        self._require("mix", self._is_mix(self.mix), f"{self.n_layers + 1} weights, or none")
        self._require(
            "filters",
            not self.reads_characters or bool(self.filters),
            "at least one pair [width, number]",
        )

    def _require(self, field: str, holds: bool, expected: str) -> None:
        """Raise an error that names the field unless a condition holds."""
        if not holds:
            found = repr(getattr(self, field))
            raise UserError(f"model configuration: {field} is {found}, expected {expected}.")

    def _is_filter(self, pair: object) -> bool:
        """Tell whether this is a width and a number of filters."""
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return False
        are_sizes = all(type(number) is int and 0 < number < MAX_SIZE for number in pair)
        return are_sizes and pair[0] <= self.max_characters

    def _is_mix(self, weights: object) -> bool:
        """Tell whether these are no weights, or one for each layer."""
        if not isinstance(weights, list | tuple) or len(weights) not in (0, self.n_layers + 1):
            return False
        return all(type(weight) is float and abs(weight) < MAX_FLOAT for weight in weights)


def differences(saved: Mapping, current: Mapping) -> dict[str, str]:
    """Describe the settings that have changed since they were saved, by name.

    For instance {"seed": "seed was 1, is 2"}.
    """
    changes = {}
    for name in dict(current) | dict(saved):
        before = saved.get(name)
        after = current.get(name)
        if before != after:
            changes[name] = f"{name} was {before!s:.80}, is {after!s:.80}"
    return changes
