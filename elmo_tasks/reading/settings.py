"""The settings of a reader. Imports no Paddle: the flags are made from them."""

from dataclasses import dataclass

from elmo_core.config import MAX_SIZE
from elmo_core.messages import UserError
from elmo_core.settings import default, setting
from elmo_tasks.settings import ELMoSettings, TextSettings, TrainingSettings, WordSettings


@dataclass(frozen=True, kw_only=True)
class ReaderSettings(TrainingSettings, WordSettings, ELMoSettings, TextSettings):
    """Settings of a reader and its training."""

    epochs: int = default(TrainingSettings, "epochs", 20)
    patience: int = default(TrainingSettings, "patience", 4)
    batch_size: int = default(TrainingSettings, "batch_size", 8)
    ema: float = default(TrainingSettings, "ema", 0.999)
    word_dim: int = default(WordSettings, "word_dim", 100)
    hidden_dim: int = setting(100, "size of a GRU", below=MAX_SIZE, minimum=1)
    dropout: float = setting(0.2, "dropout of the network", below=1)
    max_seq_len: int = setting(512, "tokens per window; long passages have several", minimum=1)
    doc_stride: int = setting(256, "tokens between the starts of windows", minimum=1)
    max_answer_length: int = setting(50, "maximum tokens in an answer", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.doc_stride > self.max_seq_len:
            raise UserError(
                f"`doc_stride` is {self.doc_stride}, more than `max_seq_len`, "
                "which would skip text."
            )
