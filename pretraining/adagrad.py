"""Adagrad with the gradients' global norm clipped, as paddle.optimizer.Adagrad does it, in fewer passes over the weights.

Paddle's clip writes every gradient anew and its Adagrad runs on one thread, which together are a twelfth of a training
step of `small`. Here dense float32 weights on CPUs take one pass for the norm and one for clip and update, on all threads.
Everything else (sparse gradients, GPUs, no compiler) is Paddle's.
"""

import itertools

from elmo_core import fused
from elmo_core.runtime import in_parallel, n_threads, paddle

WORTH_THREADS = 1 << 16  # elements


class Adagrad(paddle.optimizer.Adagrad):
    """paddle.optimizer.Adagrad whose accumulators start at 1, with a bound on the gradients' norm."""

    def __init__(self, learning_rate: float, parameters, max_grad_norm: float):
        clip = _Clip(max_grad_norm)
        super().__init__(learning_rate, parameters=parameters, initial_accumulator_value=1.0, grad_clip=clip)

    def _append_optimize_op(self, block, param_and_grad):
        weight, gradient = param_and_grad
        if not _suits(gradient):
            return super()._append_optimize_op(block, param_and_grad)
        moment = self._get_accumulator_master(self._moment_acc_str, weight)
        given = gradient.contiguous(), self._grad_clip.scale, self.get_lr(), self._epsilon, weight, moment
        parts = n_threads() if weight.size > WORTH_THREADS else 1
        ends = [weight.size * k // parts for k in range(parts + 1)]
        in_parallel([lambda a=a, b=b: fused.kernel().adagrad(a, b, *given) for a, b in itertools.pairwise(ends)])


class _Clip(paddle.nn.ClipGradByGlobalNorm):
    """The same clip, which leaves the scaling of gradients that `_suits` to the update."""

    scale = 1.0

    def _dygraph_clip(self, params_grads):
        if not any(_suits(gradient) for _, gradient in params_grads):
            return super()._dygraph_clip(params_grads)
        merged = [
            (weight, paddle.nn.clip.merge_selected_rows(gradient) if gradient.is_selected_rows() else gradient)
            for weight, gradient in params_grads
        ]
        squares = [paddle._C_ops.squared_l2_norm(_values(gradient)).reshape([1]) for _, gradient in merged]
        norm = paddle.concat(squares).sum().sqrt().item()
        self.scale = self.clip_norm / max(norm, self.clip_norm)
        factor = paddle.to_tensor([self.scale], "float32")
        return [
            (weight, gradient if _suits(gradient) else paddle.multiply(gradient, factor)) for weight, gradient in merged
        ]


def _values(gradient):
    return gradient._get_tensor_from_selected_rows() if gradient.is_selected_rows() else gradient


def _suits(gradient) -> bool:
    """Whether a gradient's weight is updated here."""
    return not gradient.is_selected_rows() and fused.suits(gradient)
