"""ELMo's layer under the name that it has in Paddle's published demo: `from bilm import elmo_encoder`."""

import root  # noqa: F401

from tasks.tagging.elmo_encoder import (
    LayerCache,
    Pretrained,
    elmo_encoder,
    init_pretraining_params,
    vocabulary_beside,
)

__all__ = ["LayerCache", "Pretrained", "elmo_encoder", "init_pretraining_params", "vocabulary_beside"]
