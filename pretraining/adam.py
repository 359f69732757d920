"""Adam with clipping by global norm. A table's row is updated only in steps that read it, as with lazy_mode."""

from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle
from pretraining.row_updates import Clip, RowUpdates


class Adam(RowUpdates, paddle.optimizer.Adam):
    """paddle.optimizer.Adam with clipping by global norm."""

    def __init__(self, learning_rate: float, parameters, max_grad_norm: float):
        super().__init__(learning_rate, parameters=parameters, grad_clip=Clip(max_grad_norm), lazy_mode=True)

    def _moments(self, weight) -> list:
        return [self._get_accumulator_master(name, weight) for name in (self._moment1_acc_str, self._moment2_acc_str)]

    def _update(self, weight, gradient, rows, *moments) -> None:
        power_names = (self._beta1_pow_acc_str, self._beta2_pow_acc_str)
        powers = [self._get_accumulator_master(name, weight) for name in power_names]
        lr, constants = self._create_param_lr((weight, gradient)), (self._beta1, self._beta2, self._epsilon)
        versions.adam_update(paddle, rows, gradient, lr, moments, powers, constants)
