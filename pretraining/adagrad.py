"""Adagrad with clipping by global norm: paddle.optimizer.Adagrad in fewer passes over the weights.

Paddle's clip rewrites every gradient and its Adagrad runs on one thread, together a twelfth of a training step of
`small`. Here float32 weights on CPUs take one pass for the norm and one for clip and update, on all threads. On GPUs or
without a compiler, Paddle does the work.
"""

import itertools

from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel
from elmo_core.network import fused
from elmo_core.network.row_gradients import RowGradient
from pretraining.row_updates import Clip, RowUpdates, scale_gradient

WORTH_THREADS = 1 << 16  # elements


class Adagrad(RowUpdates, paddle.optimizer.Adagrad):
    """paddle.optimizer.Adagrad with accumulators that start at 1, and clipping by global norm."""

    def __init__(self, learning_rate: float, parameters, max_grad_norm: float):
        clip = _Clip(max_grad_norm)
        super().__init__(learning_rate, parameters=parameters, initial_accumulator_value=1.0, grad_clip=clip)

    def _append_optimize_op(self, block, param_and_grad):
        weight, gradient = param_and_grad
        if not _is_fused(gradient):
            return super()._append_optimize_op(block, param_and_grad)
        rows = gradient.ids if isinstance(gradient, RowGradient) else None
        values = gradient if rows is None else gradient.values
        factors = self._grad_clip.scale, self.get_lr(), self._epsilon
        width = 1 if rows is None else weight.shape[1]
        kernel_inputs = rows, width, values.contiguous(), *factors, weight, *self._moments(weight)
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


class _Clip(Clip):
    """Leaves scaling to the update for gradients that the compiled loops apply."""

    scale = 1.0

    def _scale(self, params_grads, factor):
        if any(_is_fused(gradient) for _, gradient in params_grads):
            self.scale = float(factor)
        return [
            (weight, gradient if _is_fused(gradient) else scale_gradient(gradient, factor))
            for weight, gradient in params_grads
        ]


def _is_fused(gradient) -> bool:
    """Whether the compiled loops apply a gradient."""
    return fused.is_supported(gradient.values if isinstance(gradient, RowGradient) else gradient)
