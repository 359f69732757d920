"""The optimizers of pretraining, their learning rate, and their state in a checkpoint.

They are Paddle's, with clipping by global norm, and update tables only in the rows that a step has read.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from elmo import BiLM
from elmo_core.machine import versions
from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel, to_tensor
from elmo_core.network import fused
from elmo_core.network.row_gradients import RowGradient, row_gradient

WORTH_THREADS = 1 << 16  # elements


class RowUpdates:
    """Mixin for a Paddle optimizer: dense weights are updated as usual, tables only in the rows that were read.

    The optimizer adds `_moments(weight)`, its accumulators of the weight's shape, and `_update(weight, gradient, rows,
    *moments)`, which updates rows of a weight and of its moments in place.
    """

    def _apply_optimize(self, loss, startup_program, params_grads, param_group_idx=0):
        tables = [(weight, row_gradient(weight)) for weight in self._parameter_list]
        tables = [(table, gradient) for table, gradient in tables if gradient is not None]
        return super()._apply_optimize(loss, startup_program, [*params_grads, *tables], param_group_idx)

    def _append_optimize_op(self, block, param_and_grad):
        weight, gradient = param_and_grad
        if not isinstance(gradient, RowGradient):
            return super()._append_optimize_op(block, param_and_grad)
        if gradient.covers(weight):
            return self._append_optimize_op(block, (weight, gradient.values))
        ids = to_tensor(gradient.ids)
        tensors = [weight, *self._moments(weight)]
        rows = [paddle.gather(tensor, ids) for tensor in tensors]
        self._update(weight, gradient.values, *rows)
        for tensor, updated in zip(tensors, rows, strict=True):
            paddle.scatter_(tensor, ids, updated)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        super().clear_grad(set_to_zero)
        for weight in self._parameter_list:
            weight.row_gradient = None


class Clip(paddle.nn.ClipGradByGlobalNorm):
    """Scales gradients so that their global norm is at most `clip_norm`.

    is_deferred: whether a gradient is left to the update, which multiplies it by `scale`.
    """

    def __init__(self, clip_norm: float, is_deferred: Callable = lambda gradient: False):
        super().__init__(clip_norm)
        self.is_deferred, self.scale = is_deferred, 1.0

    def _dygraph_clip(self, params_grads):
        squares = [paddle._C_ops.squared_l2_norm(_values(gradient)).reshape([1]) for _, gradient in params_grads]
        norm = paddle.concat(squares).sum().sqrt()
        factor = self.clip_norm / norm.clip(min=self.clip_norm)
        if any(self.is_deferred(gradient) for _, gradient in params_grads):
            self.scale = float(factor)
        return [(weight, x if self.is_deferred(x) else x * factor) for weight, x in params_grads]


def _values(gradient) -> paddle.Tensor:
    return gradient.values if isinstance(gradient, RowGradient) else gradient


class Adagrad(RowUpdates, paddle.optimizer.Adagrad):
    """paddle.optimizer.Adagrad with accumulators that start at 1, in fewer passes over the weights.

    Paddle's clip rewrites every gradient and its Adagrad runs on one thread, together a twelfth of a training step of
    `small`. Here float32 weights on CPUs take one pass for the norm and one for clip and update, on all threads. On GPUs
    or without a compiler, Paddle does the work.
    """

    def __init__(self, learning_rate: float, parameters, max_grad_norm: float):
        clip = Clip(max_grad_norm, is_deferred=_is_fused)
        super().__init__(learning_rate, parameters=parameters, initial_accumulator_value=1.0, grad_clip=clip)

    def _append_optimize_op(self, block, param_and_grad):
        weight, gradient = param_and_grad
        if not _is_fused(gradient):
            return super()._append_optimize_op(block, param_and_grad)
        rows = gradient.ids if isinstance(gradient, RowGradient) else None
        factors = self._grad_clip.scale, self.get_lr(), self._epsilon
        width = 1 if rows is None else weight.shape[1]
        values = _values(gradient).contiguous()
        kernel_inputs = rows, width, values, *factors, weight, *self._moments(weight)
        n = values.size if rows is None else len(rows)
        n_parts = n_threads() if values.size > WORTH_THREADS else 1
        ends = [n * k // n_parts for k in range(n_parts + 1)]
        update = fused.kernel().adagrad
        run_in_parallel([lambda a=a, b=b: update(a, b, *kernel_inputs) for a, b in itertools.pairwise(ends)])

    def _moments(self, weight) -> list:
        return [self._get_accumulator_master(self._moment_acc_str, weight)]

    def _update(self, weight, gradient, rows, *moments) -> None:
        lr = self._create_param_lr((weight, gradient))
        paddle._C_ops.adagrad_(rows, gradient, *moments, lr, None, self._epsilon, False)


def _is_fused(gradient) -> bool:
    """Whether the compiled loops apply a gradient."""
    return fused.is_supported(_values(gradient))


class Adam(RowUpdates, paddle.optimizer.Adam):
    """paddle.optimizer.Adam. A table's row is updated only in steps that read it, as with lazy_mode."""

    def __init__(self, learning_rate: float, parameters, max_grad_norm: float):
        super().__init__(learning_rate, parameters=parameters, grad_clip=Clip(max_grad_norm), lazy_mode=True)

    def _moments(self, weight) -> list:
        return [self._get_accumulator_master(name, weight) for name in (self._moment1_acc_str, self._moment2_acc_str)]

    def _update(self, weight, gradient, rows, *moments) -> None:
        power_names = (self._beta1_pow_acc_str, self._beta2_pow_acc_str)
        powers = [self._get_accumulator_master(name, weight) for name in power_names]
        lr, constants = self._create_param_lr((weight, gradient)), (self._beta1, self._beta2, self._epsilon)
        versions.adam_update(paddle, rows, gradient, lr, moments, powers, constants)


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
