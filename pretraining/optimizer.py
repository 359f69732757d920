"""The optimizers of pretraining and their learning rate."""

from elmo_core.network.optimizer import Adagrad, Adam

OPTIMIZERS = {"adagrad": Adagrad, "adam": Adam}


def learning_rate(name: str, lr: float, step: float, total: float, warmup_steps: float) -> float:
    """The learning rate of a step: constant for Adagrad; for Adam, linear warm-up, then linear decay to 0 at the end.

    step, total, warmup_steps: tokens divided by the tokens per step; plain steps if that never changed.
    """
    if name == "adagrad":
        return lr
    warmup = min(warmup_steps, total // 2)
    return lr * step / warmup if step <= warmup else lr * (total - step + 1) / (total - warmup + 1)
