"""The settings of the tasks: a frozen dataclass for each.

Their bases are the settings of ELMo, word vectors, text and training here.

Each field has its help, limits, choices and group. From these come the flags and their help, the
validation, config.json and the model card; a test compares the table of docs/reference.md.
"""

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elmo_core.checks import describe
from elmo_core.config import MAX_SIZE
from elmo_core.messages import UserError
from elmo_core.settings import expected, setting
from elmo_core.text.language import AUTO, CHOICES

if TYPE_CHECKING:
    from elmo import ELMo

Language = Literal["auto", "en", "zh", "characters", "any", "none"]
FILE = (str, Path)
LIST_OR_FILE = (str, Path, list, tuple)
HELD_OUT = 0.1  # share of the training data that replaces a missing dev set


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


@dataclass(frozen=True, kw_only=True)
class ELMoSettings(Settings):
    """How a network reads ELMo."""

    elmo: "str | Path | ELMo | None" = setting(
        AUTO,
        "ELMo: a checkpoint, or a model's name; auto: en or zh, by the language of the text",
        of=object,
        group="ELMo",
        flag="init_from_ckpt",
        metavar="CKPT",
    )
    layers: str | int = setting(
        "concat",
        "ELMo's layers: concat or mix, of all layers or of some, as in concat:0,1; average; top; "
        "or a layer's number",
        of=(str, int),
        needs="elmo",
        group="ELMo",
        metavar="L",
    )
    elmo_dropout: float = setting(
        0.5, "dropout on ELMo's vectors", below=1, needs="elmo", group="ELMo"
    )
    elmo_l2_coef: float = setting(
        0.001, "penalty on the weights of mixed layers", needs="elmo", group="ELMo"
    )
    elmo_trainable: bool = setting(False, "fine-tune ELMo", needs="elmo", group="ELMo")
    elmo_lr: float = setting(
        0.0002, "learning rate of ELMo", above=0, needs="elmo_trainable", group="ELMo"
    )
    cache_gb: float = setting(
        4.0, "memory for a frozen ELMo's layers; too little: computed each epoch", group="ELMo"
    )


@dataclass(frozen=True, kw_only=True)
class WordSettings(Settings):
    """Vectors of words: of a file, and learnt with the task."""

    word_vectors: str | Path | None = setting(
        None,
        "word vectors, in word2vec's or GloVe's format",
        of=FILE,
        group="words",
        metavar="FILE",
    )
    word_vectors_limit: int | None = setting(
        None,
        "read only the first N of them",
        of=int,
        minimum=1,
        needs="word_vectors",
        group="words",
    )
    word_dim: int = setting(
        128, "size of learnt word embeddings; 0: none", minimum=0, below=MAX_SIZE, group="words"
    )
    emb_lr_factor: float = setting(
        1.0, "factor on the word embeddings' learning rate", above=0, group="words"
    )
    char_cnn: bool = setting(False, "add a character CNN, trained with the task", group="words")


@dataclass(frozen=True, kw_only=True)
class TextSettings(Settings):
    """How raw text is split into tokens."""

    lang: Language = setting(
        AUTO,
        "language of raw text; none: split at white space; auto: recognised",
        choices=CHOICES,
        group="data",
    )
    user_dict: str | Path | Sequence[str] | None = setting(
        None,
        "words for jieba, one per line (frequency, tag optional)",
        of=LIST_OR_FILE,
        group="data",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """A training with Adam.

    The learning rate rises during the share `warmup`, then falls linearly to `final_lr`.
    """

    epochs: int = setting(30, "maximum epochs", minimum=0, group="training")
    patience: int = setting(
        5, "stop after N epochs without a better dev score; 0: never", minimum=0, group="training"
    )
    batch_size: int = setting(32, "examples per step", minimum=1, group="training")
    lr: float = setting(0.002, "learning rate", above=0, group="training")
    warmup: float = setting(
        0.0, "share of the steps in which the learning rate rises", below=1, group="training"
    )
    final_lr: float = setting(
        0.1, "share of the learning rate that is left at the end", below=1.01, group="training"
    )
    weight_decay: float = setting(0.0, "weight decay of AdamW", group="training")
    max_grad_norm: float = setting(5.0, "clip the gradient norm to this", above=0, group="training")
    ema: float = setting(
        0.0, "decay of the weights' average, which is saved; 0: off", below=1, group="training"
    )
    seed: int = setting(2020, "random seed", minimum=0, below=2**32, group="training")
