"""Shared by Adagrad and Adam: updating only the table rows that a step has read, and clipping by global norm."""

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.row_gradients import RowGradient, row_gradient


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
    """Scales all gradients so that their global norm is at most `clip_norm`."""

    def _dygraph_clip(self, params_grads):
        values = [x.values if isinstance(x, RowGradient) else x for _, x in params_grads]
        squares = [paddle._C_ops.squared_l2_norm(x).reshape([1]) for x in values]
        norm = paddle.concat(squares).sum().sqrt()
        return self._scale(params_grads, self.clip_norm / norm.clip(min=self.clip_norm))

    def _scale(self, params_grads, factor):
        return [(weight, scale_gradient(gradient, factor)) for weight, gradient in params_grads]


def scale_gradient(gradient, factor):
    if isinstance(gradient, RowGradient):
        return gradient.with_rows(gradient.unshared_ids, gradient.values * factor)
    return gradient * factor
