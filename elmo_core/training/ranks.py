"""The ranks of a data-parallel run: one process each.

`python -m paddle.distributed.launch` starts them. A run without the launcher is one rank, at no
cost.

`paddle.DataParallel` is not used to average gradients: over gloo it aborts the whole process,
without a Python error, if another rank has died.
"""

import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from elmo_core.kernels.row_gradients import row_gradient
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError

# gloo's, NCCL's, and CUDA's that Paddle calls fatal
COLLECTIVE_ERRORS = (RuntimeError, OSError, SystemError)
# between messages to waiting ranks; gloo drops a rank that is silent for 30 s
HEARTBEAT_SECONDS = 1.0


class Ranks:
    """This process's rank among `size`, and collective operations.

    All ranks must make the same calls in the same order.

    advice: ends the error message if a rank is lost.
    exchange: the type in which gradients are sent, float32 or bfloat16, which halves the messages.
    """

    def __init__(self, advice: str = "", exchange: str = "float32"):
        self.advice = advice
        self.exchange = exchange
        self.rank, self.size = runtime.rank_and_size()
        if self.size > 1:
            if paddle.get_device() == "cpu":  # otherwise Paddle would use GPUs if there are any
                os.environ["PADDLE_DISTRI_BACKEND"] = "gloo"
            paddle.distributed.init_parallel_env()

    @property
    def is_main(self) -> bool:
        """Return whether this is rank 0, which writes files and messages."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sum each value over all ranks."""
        if self.size == 1:
            return list(values)
        array = np.array(values, np.float64)
        return self._all_reduce(array, paddle.distributed.ReduceOp.SUM).tolist()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true on any rank."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = []
        with self._collective():
            paddle.distributed.all_gather_object(values, value)
        return values

    def run_on_main(self, work: Callable[[], Any]) -> Any:
        """Run long work on rank 0 while the others wait; every rank gets its result or error."""
        return self.run_on_all(work if self.is_main else lambda: None)[0]

    def run_on_all(self, work: Callable[[], Any]) -> list[Any]:
        """Run long work on every rank; every rank gets all results, or the error of any.

        It runs in a thread, so that ranks can exchange heartbeats.
        """
        if self.size == 1:
            return [work()]
        device = paddle.get_device()  # a new thread may have another
        context = contextvars.copy_context()  # which holds the precision of products, too
        outcome: dict[str, Any] = {}

        def run() -> None:
            try:
                paddle.set_device(device)
                outcome["result"] = work()
            except BaseException as error:  # SystemExit, too: a rank without a result has failed
                outcome["error"] = error

        # a daemon, for which Ctrl-C does not wait
        worker = threading.Thread(target=context.run, args=(run,), daemon=True)
        worker.start()
        while self.any(worker.is_alive()):
            worker.join(HEARTBEAT_SECONDS)
        error = outcome.get("error")
        reason = f"{type(error).__name__}: {error}" if error else None
        outcomes = self.gather((outcome.get("result"), reason))
        for rank, (_, reason) in enumerate(outcomes):
            if reason:
                raise error or UserError(f"rank {rank} stopped ({reason}).")
        return [result for result, _ in outcomes]

    def broadcast_weights(self, weights: Sequence) -> None:
        """Copy rank 0's weights to all ranks."""
        if self.size > 1:
            with self._collective():
                for weight in weights:
                    paddle.distributed.broadcast(weight, src=0)

    def average_gradients(self, weights: Sequence, request: int = 0) -> int:
        """Average all gradients over the ranks.

        Those of tables cover the union of the rows that were read. Returns the largest request (0
        to 255) of any rank.
        """
        if self.size == 1:
            return request
        dense = [weight for weight in weights if weight.grad is not None]
        tables = [weight for weight in weights if row_gradient(weight) is not None]
        rows, request = self._union_of_rows(tables, request)
        gradients = [weight.grad for weight in dense]
        for table, ids in zip(tables, rows, strict=True):
            gradients.append(table.row_gradient.expand_to(ids))
        means = self._means(gradients)
        means_of_dense = means[: len(dense)]
        means_of_tables = means[len(dense) :]
        for weight, mean in zip(dense, means_of_dense, strict=True):
            weight.grad = mean
        for table, ids, mean in zip(tables, rows, means_of_tables, strict=True):
            table.row_gradient = table.row_gradient.with_rows(ids, mean)
        return request

    def _union_of_rows(self, tables: Sequence, request: int) -> tuple[list[np.ndarray], int]:
        """Return, per table, the unshared rows that any rank has read, ascending.

        Returns also the largest request of any rank.
        The request shares the message, to save an all-reduce.
        """
        # several tables may be read at the same rows
        distinct = {id(table.row_gradient.ids): table for table in tables}
        sizes = [len(table) for table in distinct.values()]
        offsets = np.cumsum([0, *sizes])
        marks = np.zeros(offsets[-1] + 1, np.uint8)  # a byte for each row, and the request
        for table, offset in zip(distinct.values(), offsets[:-1], strict=True):
            marks[offset + table.row_gradient.unshared_ids] = 1
        marks[-1] = request
        marks = self._all_reduce(marks, paddle.distributed.ReduceOp.MAX)
        rows = {}
        for key, begin, size in zip(distinct, offsets[:-1], sizes, strict=True):
            rows[key] = np.flatnonzero(marks[begin : begin + size])
        return [rows[id(table.row_gradient.ids)] for table in tables], int(marks[-1])

    def _means(self, tensors: Sequence) -> list:
        """Average tensors over the ranks, in one message."""
        sums = paddle.concat([tensor.reshape([-1]) for tensor in tensors])
        if self.exchange == "bfloat16":
            sums = sums.astype("bfloat16")
        with self._collective():
            paddle.distributed.all_reduce(sums)
        sums = sums.astype(tensors[0].dtype).scale_(1 / self.size)
        means = paddle.split(sums, [tensor.size for tensor in tensors])
        return [mean.reshape(tensor.shape) for mean, tensor in zip(means, tensors, strict=True)]

    def _all_reduce(self, array: np.ndarray, op: int) -> np.ndarray:
        with self._collective():
            tensor = to_tensor(array)
            paddle.distributed.all_reduce(tensor, op)
            return tensor.numpy()  # where NCCL's errors appear

    @contextmanager
    def _collective(self) -> Iterator[None]:
        """Turn the errors of a collective call into a UserError: another rank has ended."""
        try:
            yield
        except COLLECTIVE_ERRORS as error:
            logs = "log/workerlog.N, or in the log_dir of paddle.distributed.launch"
            message = f"rank {self.rank}: another rank was lost. See its log ({logs})."
            raise UserError(f"{message} {self.advice}".rstrip()) from error
