"""Steps of the optimizers, in place, as Paddle's kernels compute them."""

import torch


class Adam:
    """Tells by its arguments that `adam_` has no third moment."""

    def __init__(self, learning_rate: float):
        raise NotImplementedError("only `adam_` is here")


def squared_l2_norm(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


def adagrad_(weight, gradient, moment, lr, master, epsilon: float, multi_precision: bool) -> None:
    moment.addcmul_(gradient, gradient)
    weight.sub_(lr * gradient / (moment.sqrt() + epsilon))


def adam_(
    weight: torch.Tensor,
    gradient: torch.Tensor,
    lr: torch.Tensor,
    moment1: torch.Tensor,
    moment2: torch.Tensor,
    power1: torch.Tensor,
    power2: torch.Tensor,
    master,
    skip,
    beta1: float,
    beta2: float,
    epsilon: float,
    *options,
) -> None:
    """power1, power2: beta1 and beta2 to the power of this step's number, on the host."""
    scale = (1 - power2.item()) ** 0.5
    moment1.mul_(beta1).add_(gradient, alpha=1 - beta1)
    moment2.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    rate = lr * (scale / (1 - power1.item()))
    weight.sub_(rate * moment1 / (moment2.sqrt() + epsilon * scale))
    power1.mul_(beta1)
    power2.mul_(beta2)
