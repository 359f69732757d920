"""What one does with a biLM.

Pretrain it, prepare its text, embed corpora, look at senses, experiment, export.

No command-line flags: the scripts at the root read these and call the functions here.

from elmo_tools import PreprocessingSettings, PretrainingSettings, pretrain
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo_tools.preprocessing.raw_text import PreprocessingSettings as PreprocessingSettings
    from elmo_tools.pretraining.pretrain import pretrain as pretrain
    from elmo_tools.pretraining.settings import PretrainingSettings as PretrainingSettings

_MODULES = {
    "PreprocessingSettings": "preprocessing.raw_text",
    "PretrainingSettings": "pretraining.settings",
    "pretrain": "pretraining.pretrain",
}
__all__ = sorted(_MODULES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str):
    """Import on first use: the settings do not wait for Paddle."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
