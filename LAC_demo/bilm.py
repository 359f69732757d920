"""ELMo's layer where Paddle's published demo has it: `from bilm import elmo_encoder, init_pretraining_params`."""

import root  # noqa: F401
from elmo_tasks.elmo_input import elmo_encoder, init_pretraining_params

__all__ = ["elmo_encoder", "init_pretraining_params"]
