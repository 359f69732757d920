"""The settings of a classifier. Imports no Paddle: the flags are made from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from elmo_core.config import MAX_SIZE
from elmo_core.messages import UserError
from elmo_core.settings import default, setting
from elmo_tasks.settings import (
    LIST_OR_FILE,
    ELMoSettings,
    TextSettings,
    TrainingSettings,
    WordSettings,
)

TUNED = "elmo_trainable or word_vectors_trainable"
LINEAR = "linear"  # the head
# Settings that the head does not have.
OF_NETWORKS = ("word_dim", "char_cnn", "head_dim", "hidden_dim", "epochs")
# Those that it does not have without fine-tuning.
OF_EPOCHS = (
    "dropout",
    "patience",
    "batch_size",
    "lr",
    "warmup",
    "final_lr",
    "weight_decay",
    "max_grad_norm",
    "ema",
)


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings(TrainingSettings, WordSettings, ELMoSettings, TextSettings):
    """Settings of a classifier: its data, its network, and their training."""

    data_format: Literal["", "csv", "tsv", "json", "jsonl"] = setting(
        "",
        "of the files (default: by their ending)",
        choices=("", "csv", "tsv", "json", "jsonl"),
        group="data",
    )
    columns: str | Sequence[str | int] | None = setting(
        None,
        "names of the columns, or keys of JSON; or numbers, from 0, of a .tsv without a header "
        "(default: text,label,text2 or other usual names)",
        of=LIST_OR_FILE,
        group="data",
        metavar="TEXT,LABEL[,TEXT2]",
    )
    label_separator: str = setting(
        "",
        'between the labels of a text in one column, such as "|" (default: a text has one label)',
        group="data",
        metavar="SEPARATOR",
    )
    max_seq_len: int = setting(256, "truncate texts to N tokens", group="data", minimum=1)
    elmo_dropout: float = default(ELMoSettings, "elmo_dropout", 0.0)
    elmo_l2_coef: float = default(ELMoSettings, "elmo_l2_coef", 0.0)
    elmo_lr: float = default(ELMoSettings, "elmo_lr", 0.0005)
    lstm_dropout: float = setting(
        0.2,
        "dropout between the LSTMs of an ELMo that is fine-tuned",
        below=1,
        needs="elmo_trainable",
        group="ELMo",
    )
    word_dropout: float = setting(
        0.1,
        "share of a batch's words that this ELMo does not see",
        below=1,
        needs="elmo_trainable",
        group="ELMo",
    )
    word_vectors_trainable: bool = setting(
        False, "fine-tune the word vectors", needs="word_vectors", group="words"
    )
    word_dim: int = default(WordSettings, "word_dim", 0)
    head: Literal["linear", "mean", "attention", "lstm"] = setting(
        LINEAR,
        "how a text's token vectors become one; linear: their mean and maximum, beside n-grams, "
        "in a logistic regression",
        choices=(LINEAR, "mean", "attention", "lstm"),
    )
    ngrams: Literal["both", "words", "characters", "none"] = setting(
        "both",
        "the n-grams of the head linear",
        choices=("both", "words", "characters", "none"),
    )
    head_dim: int = setting(128, "size of the LSTM in each direction", below=MAX_SIZE, minimum=1)
    hidden_dim: int = setting(64, "layer before the classes; 0: none", below=MAX_SIZE, minimum=0)
    dropout: float = setting(0.5, "dropout before the classes", below=1)
    epochs: int = setting(
        15,
        "epochs, before fine-tuning; 0: all is trained from the start",
        minimum=0,
        group="training",
    )
    tune_epochs: int = setting(5, "epochs of fine-tuning", needs=TUNED, group="training", minimum=1)
    patience: int = default(TrainingSettings, "patience", 0)
    batch_size: int = default(TrainingSettings, "batch_size", 64)
    lr: float = default(TrainingSettings, "lr", 0.001)
    warmup: float = default(TrainingSettings, "warmup", 0.1)
    final_lr: float = default(TrainingSettings, "final_lr", 0.0)
    weight_decay: float = default(TrainingSettings, "weight_decay", 0.1)
    class_weights: Literal["", "balanced"] = setting(
        "",
        "balanced: all classes have the same total weight in the loss",
        choices=("", "balanced"),
        group="training",
    )


def check_used(settings: ClassifierSettings) -> None:
    """Raise if a setting is changed that has no effect with the head."""
    changed = settings.changed()
    unused = {"ngrams": "is of the head `linear`"}
    if settings.head == LINEAR:
        unused = dict.fromkeys(OF_NETWORKS, "has no effect on the head `linear`")
        if not (settings.elmo_trainable or settings.word_vectors_trainable):
            reason = "has no effect on the head `linear` without fine-tuning: it takes no epochs"
            unused.update(dict.fromkeys(OF_EPOCHS, reason))
    for name, reason in unused.items():
        if name in changed:
            raise UserError(f"`{name}` {reason}. Set `head`: linear, mean, attention or lstm.")
