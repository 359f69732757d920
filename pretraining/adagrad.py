"""Adagrad with the gradients' global norm clipped, as paddle.optimizer.Adagrad does it, in fewer passes over the weights.

Paddle's clip writes every gradient anew and its Adagrad runs on one thread, which together are a twelfth of a training
step of `small`. Here float32 weights on CPUs take one pass for the norm and one for clip and update, on all threads.
Everything else (GPUs, no compiler) is Paddle's.
"""

import itertools

from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel
from elmo_core.network import fused
from elmo_core.network.row_gradients import RowGradient
from pretraining.row_updates import Clip, RowUpdates, scaled

WORTH_THREADS = 1 << 16  # elements


class Adagrad(RowUpdates, paddle.optimizer.Adagrad):
    """paddle.optimizer.Adagrad whose accumulators start at 1, with a bound on the gradients' norm."""

    def __init__(self, learning_rate: float, parameters, max_grad_norm: float):
        clip = _Clip(max_grad_norm)
        super().__init__(learning_rate, parameters=parameters, initial_accumulator_value=1.0, grad_clip=clip)

    def _append_optimize_op(self, block, param_and_grad):
        weight, gradient = param_and_grad
        if not _suits(gradient):
            return super()._append_optimize_op(block, param_and_grad)
        rows = gradient.ids if isinstance(gradient, RowGradient) else None
        values = gradient if rows is None else gradient.values
        numbers = self._grad_clip.scale, self.get_lr(), self._epsilon
        width = 1 if rows is None else weight.shape[1]
        arguments = rows, width, values.contiguous(), *numbers, weight, *self._moments(weight)
        n = values.size if rows is None else len(rows)
        parts = n_threads() if values.size > WORTH_THREADS else 1
        ends = [n * k // parts for k in range(parts + 1)]
        run_in_parallel(
            [lambda a=a, b=b: fused.kernel().adagrad(a, b, *arguments) for a, b in itertools.pairwise(ends)]
        )

    def _moments(self, weight) -> list:
        return [self._get_accumulator_master(self._moment_acc_str, weight)]

    def _update(self, weight, gradient, rows, *moments) -> None:
        lr = self._create_param_lr((weight, gradient))
        paddle._C_ops.adagrad_(rows, gradient, *moments, lr, None, self._epsilon, False)


class _Clip(Clip):
    """The same clip, which leaves the scaling of gradients that `_suits` to the update."""

    scale = 1.0

    def _scaled(self, params_grads, factor):
        if any(_suits(gradient) for _, gradient in params_grads):
            self.scale = float(factor)
        return [
            (weight, gradient if _suits(gradient) else scaled(gradient, factor)) for weight, gradient in params_grads
        ]


def _suits(gradient) -> bool:
    """Whether a gradient's weight is updated here."""
    return fused.is_supported(gradient.values if isinstance(gradient, RowGradient) else gradient)
