"""Adagrad and Adam, with clipping. They update tables only in the rows that a step has read.

Paddle's kernels update a weight in one pass over the memory, where operators would take several. Only `paddle._C_ops` has
them for tensors of one's own.
"""

import itertools
from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from elmo_core.kernels import fused
from elmo_core.kernels.row_gradients import RowGradient, row_gradient
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel

WORTH_THREADS = 1 << 16  # elements


class Optimizer:
    """Updates a group of weights by their gradients, which are clipped together.

    weights: as from `named_parameters()`; frozen ones are left out. The state has their names.
    lr: learning rate; assign to it to change it. `weight.optimize_attr["learning_rate"]` is a weight's factor on it.
    max_grad_norm: of all gradients together; None: not clipped.
    weight_decay: AdamW's, {name: decay}; weights without an entry have none.

    Tables may have the row gradients of `embedding_lookup` and `gather_rows`, but not Paddle's (`sparse=True`).
    """

    MOMENTS: ClassVar[dict[str, float]]  # tensors like the weight, with their initial values
    POWERS: ClassVar[dict[str, float]] = {}  # numbers

    def __init__(
        self,
        weights: Iterable[tuple[str, paddle.Tensor]],
        lr: float,
        max_grad_norm: float | None = None,
        weight_decay: Mapping[str, float] | None = None,
    ):
        self.weights = {name: weight for name, weight in weights if not weight.stop_gradient}
        self.lr, self.max_grad_norm, self.weight_decay = lr, max_grad_norm, weight_decay or {}
        self._state: dict[str, paddle.Tensor] = {}  # with the keys that Paddle's optimizers have
        for name, weight in self.weights.items():
            for moment, value in self.MOMENTS.items():
                self._state[f"{name}_{moment}_0"] = paddle.full_like(weight, value)
            for power, value in self.POWERS.items():  # on the host, where the kernels read them
                self._state[f"{name}_{power}_0"] = paddle.to_tensor(
                    [value], place=paddle.CPUPlace()
                )

    def state_dict(self) -> dict[str, paddle.Tensor]:
        return self._state

    def set_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a state of `state_dict`. Weights that it lacks keep theirs; entries of other weights are ignored."""
        for key in self._state.keys() & state.keys():
            old = self._state[key]
            values = np.reshape(state[key], old.shape).astype(
                str(old.dtype).removeprefix("paddle."), copy=False
            )
            self._state[key] = paddle.to_tensor(
                values, place=old.place
            )  # the kernels check no type

    def clear_grad(self) -> None:
        for weight in self.weights.values():
            weight.clear_gradient(False)  # frees it; Paddle ignores the name `set_to_zero`
            weight.row_gradient = None

    @paddle.no_grad()
    def step(self) -> None:
        # the rows that a gradient covers, None: all
        gradients = {
            name: (None, weight.grad)
            for name, weight in self.weights.items()
            if weight.grad is not None
        }
        for name, weight in self.weights.items():
            if (rows := row_gradient(weight)) is not None:
                gradients[name] = None if rows.covers(weight) else rows, rows.values
        scale, lr = None, paddle.full([1], self.lr, "float32")
        if self.max_grad_norm and gradients:
            squares = [
                paddle._C_ops.squared_l2_norm(gradient).reshape([1])
                for _, gradient in gradients.values()
            ]
            scale = self.max_grad_norm / paddle.concat(squares).sum().sqrt().clip(
                min=self.max_grad_norm
            )
        for name, (rows, gradient) in gradients.items():
            factor = self.weights[name].optimize_attr["learning_rate"]
            if decay := self.weight_decay.get(name):
                self.weights[name].scale_(1 - self.lr * factor * decay)
            self._update(name, rows, gradient, scale, lr if factor == 1 else lr * factor)

    def _update(self, name: str, rows: RowGradient | None, gradient, scale, lr) -> None:
        """Update a weight, or some rows of it. scale: factor on the gradient, or None."""
        gradient, tensors = gradient if scale is None else gradient * scale, self._tensors(name)
        if rows is None:
            self._apply(name, gradient, lr, *tensors)
            return
        gathered = [paddle.gather(tensor, rows.index) for tensor in tensors]
        self._apply(name, gradient, lr, *gathered)
        for tensor, updated in zip(tensors, gathered, strict=True):
            paddle.scatter_(tensor, rows.index, updated)

    def _tensors(self, name: str) -> list[paddle.Tensor]:
        return [self.weights[name], *(self._state[f"{name}_{moment}_0"] for moment in self.MOMENTS)]


class Adagrad(Optimizer):
    """Adagrad. On CPUs, compiled loops clip and update in one pass over the memory, on all threads."""

    MOMENTS: ClassVar = {"moment": 1.0}
    EPSILON = 1e-6

    def _update(self, name: str, rows: RowGradient | None, gradient, scale, lr) -> None:
        if not fused.is_supported(gradient):
            super()._update(name, rows, gradient, scale, lr)
            return
        ids, width = (None, 1) if rows is None else (rows.ids, gradient.shape[1])
        n, n_parts = gradient.size // width, n_threads() if gradient.size > WORTH_THREADS else 1
        ends = [n * k // n_parts for k in range(n_parts + 1)]
        factors = 1.0 if scale is None else scale.item(), lr.item(), self.EPSILON
        inputs = ids, width, gradient.contiguous(), *factors, *self._tensors(name)
        update = fused.kernel().adagrad
        run_in_parallel([partial(update, a, b, *inputs) for a, b in itertools.pairwise(ends)])

    def _apply(self, name: str, gradient, lr, weight, *moments) -> None:
        paddle._C_ops.adagrad_(weight, gradient, *moments, lr, None, self.EPSILON, False)


class Adam(Optimizer):
    """Adam, or AdamW with a decay.

    A row of a table changes only in steps that read it, as with Paddle's `lazy_mode`, but for a
    decay, which acts on all rows in every step.
    """

    MOMENTS: ClassVar = {"moment1": 0.0, "moment2": 0.0}
    POWERS: ClassVar = {"beta1_pow_acc": 0.9, "beta2_pow_acc": 0.999}
    EPSILON = 1e-8

    def _apply(self, name: str, gradient, lr, weight, *moments) -> None:
        powers = [self._state[f"{name}_{power}_0"] for power in self.POWERS]
        paddle_compat.adam_update(
            paddle, weight, gradient, lr, moments, powers, (*self.POWERS.values(), self.EPSILON)
        )
