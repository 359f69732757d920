"""The settings of a pretraining run. Imports no Paddle: the flags are made from them."""

from dataclasses import dataclass
from pathlib import Path

from elmo_core.settings import PRECISION, PRECISIONS, setting

WHEN = "10,000, an epoch, or ten minutes, whichever comes first, in at most a tenth of the time"
LOG_FREQ = 100
LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}


@dataclass(frozen=True, kw_only=True)
class FixedSettings:
    """Settings that a resumed run must not change, besides the data stream's settings."""

    optimizer: str = setting(
        "adagrad", "adam: with warm-up and linear decay", choices=("adagrad", "adam")
    )
    lr: float = setting(0.0, "learning rate (default: 0.2 for adagrad, 0.001 for adam)", above=0)
    warmup_steps: int = setting(1000, "adam: learning-rate warm-up steps", minimum=0)
    max_grad_norm: float = setting(10.0, "clip gradients to this global norm", above=0)
    dropout: float = setting(0.1, "dropout between the layers", below=1)
    n_negative_samples: int = setting(
        8192, "sampled-softmax candidates; 0: full softmax", minimum=0
    )
    precision: str = setting(PRECISIONS[0], PRECISION, choices=PRECISIONS)

    def __post_init__(self):
        if not self.lr:
            object.__setattr__(self, "lr", LEARNING_RATES[self.optimizer])


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings(FixedSettings):
    """Settings of a pretraining run.

    batch_size: rows of text per process. unroll_steps: tokens per row and batch.
    """

    save_dir: Path
    batch_size: int
    unroll_steps: int
    seed: int
    epochs: int = setting(10, "training epochs", minimum=1)
    max_steps: int = setting(0, "total steps (default: those of the epochs)", minimum=1)
    log_freq: int = setting(
        0, f"steps between log lines (default: {LOG_FREQ}, less in a short run)", minimum=1
    )
    eval_freq: int = setting(0, f"steps between evaluations (default: {WHEN})", minimum=1)
    patience: int = setting(0, "stop after N evaluations without improvement", minimum=1)
    accumulate: int = setting(
        1, "batches per update (gradient accumulation), to save memory", minimum=1
    )
    save_freq: int = setting(0, f"steps between checkpoints (default: {WHEN})", minimum=1)
    keep: int = setting(5, "numbered checkpoints to keep", minimum=1)
    noise: float = setting(
        0.0, "share of the words that are read with a misprint; all are predicted without", below=1
    )
    allow_changes: bool = setting(False, "resume although settings or data have changed")
