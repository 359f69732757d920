"""Adagrad and Adam, with clipping. They update tables only in the rows that a step has read.

Paddle's kernels update a weight in one pass over the memory, where operators would take several.
Only `paddle._C_ops` has them for tensors of one's own.
"""

import itertools
from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from elmo_core.kernels import fused
from elmo_core.kernels.row_gradients import RowGradient, row_gradient
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel

WORTH_THREADS = 1 << 16  # elements


class _Gradient(NamedTuple):
    """The gradient of a weight, or of some rows of it."""

    values: paddle.Tensor
    rows: RowGradient | None  # None: of all rows


class Optimizer:
    """Updates a group of weights by their gradients, which are clipped together.

    weights: as from `named_parameters()`; frozen ones are left out. The state has their names.
    lr: learning rate; assign to it to change it. `weight.optimize_attr["learning_rate"]` is a
    weight's factor on it.
    max_grad_norm: of all gradients together; None: not clipped.
    weight_decay: AdamW's, {name: decay}; weights without an entry have none.

    Tables may have the row gradients of `embedding_lookup` and `gather_rows`, but not Paddle's
    (`sparse=True`).
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
        self.lr = lr
        self.max_grad_norm = max_grad_norm
        self.weight_decay = weight_decay or {}
        self._state: dict[str, paddle.Tensor] = {}  # with the keys that Paddle's optimizers have
        for name, weight in self.weights.items():
            for moment, value in self.MOMENTS.items():
                self._state[f"{name}_{moment}_0"] = paddle.full_like(weight, value)
            for power, value in self.POWERS.items():
                # on the host, where the kernels read them
                power_of_weight = paddle.to_tensor([value], place=paddle.CPUPlace())
                self._state[f"{name}_{power}_0"] = power_of_weight

    def state_dict(self) -> dict[str, paddle.Tensor]:
        return self._state

    def set_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a state of `state_dict`.

        Weights that it lacks keep theirs; entries of other weights are ignored.
        """
        for key in self._state.keys() & state.keys():
            old = self._state[key]
            dtype = str(old.dtype).removeprefix("paddle.")  # the kernels check no type
            values = np.reshape(state[key], old.shape).astype(dtype, copy=False)
            self._state[key] = paddle.to_tensor(values, place=old.place)

    def clear_grad(self) -> None:
        for weight in self.weights.values():
            weight.clear_gradient(False)  # frees it; Paddle ignores the name `set_to_zero`
            weight.row_gradient = None

    @paddle.no_grad()
    def step(self) -> None:
        """Update all weights that have a gradient."""
        gradients = {}
        for name, weight in self.weights.items():
            if weight.grad is not None:
                gradients[name] = _Gradient(weight.grad, rows=None)
        for name, weight in self.weights.items():
            rows = row_gradient(weight)
            if rows is not None:
                covers_all = rows.covers(weight)
                gradients[name] = _Gradient(rows.values, rows=None if covers_all else rows)
        scale = self._clip_scale(list(gradients.values()))
        lr = paddle.full([1], self.lr, "float32")
        for name, gradient in gradients.items():
            weight = self.weights[name]
            factor = weight.optimize_attr["learning_rate"]
            decay = self.weight_decay.get(name)
            if decay:
                weight.scale_(1 - self.lr * factor * decay)
            self._update(name, gradient, scale, lr if factor == 1 else lr * factor)

    def _clip_scale(self, gradients: list[_Gradient]) -> paddle.Tensor | None:
        """Return the factor (1,) that clips the norm of all gradients, or None if there is none."""
        if not self.max_grad_norm or not gradients:
            return None
        squares = [
            paddle._C_ops.squared_l2_norm(gradient.values).reshape([1]) for gradient in gradients
        ]
        norm = paddle.concat(squares).sum().sqrt().clip(min=self.max_grad_norm)
        return self.max_grad_norm / norm

    def _update(self, name: str, gradient: _Gradient, scale, lr) -> None:
        """Update a weight, or some rows of it. scale: factor on the gradient, or None."""
        values = gradient.values if scale is None else gradient.values * scale
        tensors = self._tensors(name)
        if gradient.rows is None:
            self._apply(name, values, lr, *tensors)
            return
        index = gradient.rows.index
        gathered = [paddle.gather(tensor, index) for tensor in tensors]
        self._apply(name, values, lr, *gathered)
        for tensor, updated in zip(tensors, gathered, strict=True):
            paddle.scatter_(tensor, index, updated)

    def _apply(self, name: str, gradient, lr, weight, *moments) -> None:
        """Update a weight and its moments in place, or as many rows of all of them."""
        raise NotImplementedError

    def _tensors(self, name: str) -> list[paddle.Tensor]:
        """Return a weight and its moments."""
        moments = [self._state[f"{name}_{moment}_0"] for moment in self.MOMENTS]
        return [self.weights[name], *moments]


class Adagrad(Optimizer):
    """Adagrad.

    On CPUs, compiled loops clip and update in one pass over the memory, on all threads.
    """

    MOMENTS: ClassVar = {"moment": 1.0}
    EPSILON = 1e-6

    def _update(self, name: str, gradient: _Gradient, scale, lr) -> None:
        values = gradient.values
        if not fused.is_supported(values):
            super()._update(name, gradient, scale, lr)
            return
        ids = None if gradient.rows is None else gradient.rows.ids
        width = 1 if ids is None else values.shape[1]
        n = values.size // width
        compute = partial(
            fused.kernel().adagrad,
            rows=ids,
            width=width,
            g=values.contiguous(),
            scale=1.0 if scale is None else scale.item(),
            rate=lr.item(),
            epsilon=self.EPSILON,
            weight=self.weights[name],
            moment=self._state[f"{name}_moment_0"],
        )
        n_parts = n_threads() if values.size > WORTH_THREADS else 1
        ends = [n * k // n_parts for k in range(n_parts + 1)]
        run_in_parallel(
            [partial(compute, begin=begin, end=end) for begin, end in itertools.pairwise(ends)]
        )

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
        constants = (*self.POWERS.values(), self.EPSILON)
        paddle_compat.adam_update(paddle, weight, gradient, lr, moments, powers, constants)
