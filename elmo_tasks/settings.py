"""The settings of the tasks: a frozen dataclass for each.

Their bases are the settings of ELMo, word vectors, text and training here.

Each field has its help, limits, choices and group. From these come the flags and their help, the
validation, config.json and the model card; a test compares the table of docs/reference.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from elmo_core.config import MAX_SIZE
from elmo_core.settings import Settings, setting
from elmo_core.text.language import AUTO, CHOICES

if TYPE_CHECKING:
    from elmo import ELMo

Language = Literal["auto", "en", "zh", "characters", "any", "none"]
FILE = (str, Path)
LIST_OR_FILE = (str, Path, list, tuple)
HELD_OUT = 0.1  # share of the training data that replaces a missing dev set


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
        "words for jieba or a tagger of characters, one per line (frequency, tag optional)",
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
