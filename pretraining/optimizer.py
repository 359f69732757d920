"""The optimizers of pretraining, their learning rate, and their state in a checkpoint."""

from collections.abc import Mapping, Sequence

import numpy as np

from elmo import BiLM
from elmo_core.machine.runtime import paddle
from pretraining.adagrad import Adagrad
from pretraining.adam import Adam


def make_optimizer(name: str, lr: float, weights: Sequence, max_grad_norm: float):
    """Make the optimizer `name`: adagrad or adam."""
    return {"adagrad": Adagrad, "adam": Adam}[name](lr, weights, max_grad_norm)


def learning_rate(name: str, lr: float, step: float, total: float, warmup_steps: float) -> float:
    """The learning rate of a step: constant for Adagrad; for Adam, linear warm-up, then linear decay to 0 at the end.

    step, total, warmup_steps: tokens divided by the tokens per step; plain steps if that never changed.
    """
    if name == "adagrad":
        return lr
    warmup = min(warmup_steps, total // 2)
    return lr * step / warmup if step <= warmup else lr * (total - step + 1) / (total - warmup + 1)


def optimizer_state(optimizer, bilm: BiLM) -> dict[str, paddle.Tensor]:
    """The optimizer's tensors, under the weights' names in the checkpoint instead of Paddle's running numbers."""
    keys = {weight.name: name for name, weight in bilm.named_parameters()}
    return _renamed({key: value for key, value in optimizer.state_dict().items() if hasattr(value, "numpy")}, keys)


def set_optimizer_state(optimizer, bilm: BiLM, state: Mapping[str, np.ndarray]) -> None:
    """Restore what `optimizer_state` returned."""
    keys = {name: weight.name for name, weight in bilm.named_parameters()}
    optimizer.set_state_dict({key: paddle.to_tensor(value) for key, value in _renamed(state, keys).items()})


def _renamed(state: Mapping, names: Mapping[str, str]) -> dict:
    """Replace the weight's name in the keys `weight_moment`; keys of no weight are dropped."""
    renamed = {}
    for key, value in state.items():
        owner = max((name for name in names if key.startswith(name + "_")), key=len, default=None)
        if owner is not None:
            renamed[names[owner] + key.removeprefix(owner)] = value
    return renamed
