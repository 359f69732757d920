"""The settings of a tagger. Imports no Paddle: the flags are made from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo_core.config import MAX_SIZE
from elmo_core.settings import default, setting
from elmo_tasks.settings import (
    FILE,
    LIST_OR_FILE,
    ELMoSettings,
    TextSettings,
    TrainingSettings,
    WordSettings,
)
from elmo_tasks.tagging.scheme import SCHEMES

FORMATS = ("columns", "conllu", "json", "jsonl", "tagged", "segmented")


@dataclass(frozen=True, kw_only=True)
class TaggerSettings(TrainingSettings, WordSettings, ELMoSettings, TextSettings):
    """Settings of a tagger: its data, its network, and their training."""

    data_format: Literal["", "columns", "conllu", "json", "jsonl", "tagged", "segmented"] = setting(
        "",
        "of the files (default: by their ending, else columns)",
        choices=("", *FORMATS),
        group="data",
    )
    columns: str | Sequence[str | int] | None = setting(
        None,
        "columns of the tokens and the labels: numbers, from 0 or, negative, from the end; or keys "
        "of JSON (default: 0,-1; of CoNLL-U 1,3; of JSON tokens and labels, ner_tags, ...)",
        of=LIST_OR_FILE,
        group="data",
        metavar="TOKEN,LABEL",
    )
    pieces: str | Path | None = setting(
        None,
        "vocabulary whose entries the words of `word/TAG` are split into",
        of=FILE,
        group="data",
        metavar="FILE",
    )
    scheme: Literal["auto", "bio", "iob1", "bioes", "plain", "lac"] = setting(
        "auto", "scheme of the labels; auto: detected", choices=("auto", *SCHEMES), group="data"
    )
    unit: Literal["token", "jieba"] = setting(
        "token",
        "what ELMo and the word vectors look up: the token itself, or the jieba word that contains "
        "it",
        choices=("token", "jieba"),
        needs="elmo or word_vectors",
        group="data",
    )
    elmo_at: Literal["input", "output", "both"] = setting(
        "input",
        "where the network reads ELMo",
        choices=("input", "output", "both"),
        needs="elmo",
        group="ELMo",
    )
    emb_lr_factor: float = default(WordSettings, "emb_lr_factor", 2.5)
    hidden_dim: int = setting(256, "size of a GRU", below=MAX_SIZE, minimum=1)
    n_layers: int = setting(2, "bidirectional layers", below=101, minimum=1)
    dropout: float = setting(0.5, "dropout of the network", below=1)
