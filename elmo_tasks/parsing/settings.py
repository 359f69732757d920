"""The settings of a parser. Imports no Paddle: the flags are made from them."""

from dataclasses import dataclass

from elmo_core.config import MAX_SIZE
from elmo_core.settings import setting
from elmo_tasks.settings import ELMoSettings, TextSettings, TrainingSettings, WordSettings


@dataclass(frozen=True, kw_only=True)
class ParserSettings(TrainingSettings, WordSettings, ELMoSettings, TextSettings):
    """Settings of a parser and its training."""

    hidden_dim: int = setting(256, "size of an LSTM", below=MAX_SIZE, minimum=1)
    n_layers: int = setting(2, "bidirectional layers", below=101, minimum=1)
    arc_dim: int = setting(256, "size of a word as head or dependent", below=MAX_SIZE, minimum=1)
    label_dim: int = setting(100, "the same, for labels", below=MAX_SIZE, minimum=1)
    dropout: float = setting(0.33, "dropout of the network", below=1)
    with_tags: bool = setting(False, "also learn and predict UPOS")
