"""The settings of a pretraining run. Imports no Paddle: the flags are made from them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_core.checks import import_optional
from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.settings import PRECISION, PRECISIONS, Settings, setting

WHEN = "10,000, an epoch, or ten minutes, whichever comes first, in at most a tenth of the time"
LOG_FREQ = 100
LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}
MODEL_SIZE = "original"  # by default


def of_config(name: str) -> Any:
    """Declare a field of `ELMoConfig` that may be None: as in the preset, or in the checkpoint."""
    field = ELMoConfig.__dataclass_fields__[name]
    metadata = {**field.metadata, "of": type(field.default)}
    return dataclasses.field(default=None, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """A new model: a preset and what differs from it. A checkpoint's model must have the same.

    filters: pairs (width, number) of the character CNN.
    """

    model_size: str | None = setting(
        None,
        f"preset of the numbers below (default: {MODEL_SIZE})",
        choices=tuple(PRESETS),
        of=str,
    )
    filters: tuple[tuple[int, int], ...] | None = setting(None, of=(list, tuple))
    input: str | None = of_config("input")
    character_dim: int | None = of_config("character_dim")
    activation: str | None = of_config("activation")
    n_highway: int | None = of_config("n_highway")
    projection_dim: int | None = of_config("projection_dim")
    cell_dim: int | None = of_config("cell_dim")
    n_layers: int | None = of_config("n_layers")
    cell_clip: float | None = of_config("cell_clip")
    proj_clip: float | None = of_config("proj_clip")
    forget_bias: float | None = of_config("forget_bias")
    word_dim: int | None = of_config("word_dim")

    def changes(self) -> dict[str, Any]:
        """The fields of `ELMoConfig` that are given, which replace the preset's."""
        names = [field.name for field in dataclasses.fields(ModelSettings)]
        values = {name: getattr(self, name) for name in names if name != "model_size"}
        return {name: value for name, value in values.items() if value is not None}

    def expected_of_checkpoint(self) -> dict[str, Any]:
        """The fields of `ELMoConfig` that the model of a checkpoint must have."""
        size = PRESETS[self.model_size] if self.model_size else {}
        return {**size, **self.changes()}

    def config(self, vocab_size: int) -> ELMoConfig:
        """The configuration of a new model."""
        size = self.model_size or MODEL_SIZE
        return ELMoConfig.preset(size, vocab_size=vocab_size, **self.changes())


@dataclass(frozen=True, kw_only=True)
class FixedSettings(Settings):
    """Settings that a resumed run must not change, besides the data stream's settings."""

    optimizer: str = setting(
        "adagrad", "adam: with warm-up and linear decay", choices=("adagrad", "adam")
    )
    lr: float | None = setting(
        None, "learning rate (default: 0.2 for adagrad, 0.001 for adam)", above=0, of=float
    )
    warmup_steps: int = setting(1000, "adam: learning-rate warm-up steps", minimum=0)
    max_grad_norm: float = setting(10.0, "clip gradients to this global norm", above=0)
    dropout: float = setting(0.1, "dropout between the layers", below=1)
    n_negative_samples: int = setting(
        8192, "sampled-softmax candidates; 0: full softmax", minimum=0
    )
    precision: str = setting(PRECISIONS[0], PRECISION, choices=PRECISIONS)

    @property
    def learning_rate(self) -> float:
        """The learning rate, by default that of the optimizer."""
        return LEARNING_RATES[self.optimizer] if self.lr is None else self.lr

    def fixed(self) -> dict[str, Any]:
        """The values that a resumed run must not change."""
        names = [field.name for field in dataclasses.fields(FixedSettings)]
        return {**{name: getattr(self, name) for name in names}, "lr": self.learning_rate}


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings(FixedSettings, ModelSettings):
    """Settings of a pretraining run, with those of its model."""

    batch_size: int = setting(128, "rows of text per process", minimum=1)
    unroll_steps: int = setting(20, "tokens per row and batch", minimum=1)
    seed: int = setting(2020, "random seed", minimum=0, below=2**32)
    epochs: int = setting(10, "training epochs", minimum=1)
    max_steps: int | None = setting(
        None, "total steps (default: those of the epochs)", minimum=1, of=int
    )
    log_freq: int | None = setting(
        None,
        f"steps between log lines (default: {LOG_FREQ}, less in a short run)",
        minimum=1,
        of=int,
    )
    eval_freq: int | None = setting(
        None, f"steps between evaluations (default: {WHEN})", minimum=1, of=int
    )
    patience: int | None = setting(
        None, "stop after N evaluations without improvement", minimum=1, of=int
    )
    accumulate: int = setting(
        1, "batches per update (gradient accumulation), to save memory", minimum=1
    )
    save_freq: int | None = setting(
        None, f"steps between checkpoints (default: {WHEN})", minimum=1, of=int
    )
    visualdl: str | Path | None = setting(
        None, "folder for the numbers of log.jsonl, for VisualDL", of=(str, Path), metavar="DIR"
    )
    keep: int = setting(5, "numbered checkpoints to keep", minimum=1)
    noise: float = setting(
        0.0, "share of the words that are read with a misprint; all are predicted without", below=1
    )
    allow_changes: bool = setting(False, "resume although settings or data have changed")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.config(vocab_size=1)  # raises if the model's settings are invalid together
        if self.visualdl:  # a missing package is noticed before anything is read
            import_optional("visualdl", "`visualdl`")
