"""The processes of a data-parallel run, as `python -m paddle.distributed.launch` starts them: one rank each.

A run without the launcher is one rank, and nothing here costs it anything.

Gradients are averaged here and not by `paddle.DataParallel`: over gloo that one aborts the whole process, without a word
of Python, when another rank has died.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from elmo_core.runtime import UserError, paddle

HEARTBEAT_SECONDS = 1.0  # between messages to the ranks that wait; gloo gives up on a rank that is silent for 30


class Ranks:
    """This process's rank among `size`, and what they do together. Every rank must make the same calls.

    advice: what the user can do when a rank is lost, for the end of the error.
    """

    def __init__(self, advice: str = ""):
        self.advice = advice
        self.size = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
        self.rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
        if self.size > 1:
            paddle.distributed.init_parallel_env()

    @property
    def first(self) -> bool:
        """Whether this rank is the one that writes."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sums over all ranks."""
        if self.size == 1:
            return list(values)
        return self._all_reduced(paddle.to_tensor(list(values), dtype="float64")).tolist()

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = []
        with self._explained():
            paddle.distributed.all_gather_object(values, value)
        return values

    def on_first(self, work: Callable[[], Any]) -> Any:
        """The result, on every rank, of long work that the first does while the others wait. Its error is raised on all."""
        return self.on_each(work if self.first else lambda: None)[0]

    def on_each(self, work: Callable[[], Any]) -> list[Any]:
        """The results, on every rank, of long work that each rank does. An error of one is raised on all.

        The work is done in a thread, so that the ranks can exchange messages meanwhile.
        """
        if self.size == 1:
            return [work()]
        device, outcome = paddle.get_device(), {}

        def run() -> None:
            try:
                paddle.set_device(device)  # a new thread may have another
                outcome["result"] = work()
            except Exception as error:
                outcome["error"] = error

        worker = threading.Thread(target=run, daemon=True)  # daemon: Ctrl-C does not wait for it
        worker.start()
        while self.any(worker.is_alive()):
            worker.join(HEARTBEAT_SECONDS)
        error = outcome.get("error")
        found = self.gather((outcome.get("result"), error and f"{type(error).__name__}: {error}"))
        for rank, (_, reason) in enumerate(found):
            if reason:
                raise error or UserError(f"rank {rank} stopped ({reason}).")
        return [result for result, _ in found]

    def share_weights(self, weights: Sequence) -> None:
        """Give every rank the first one's weights."""
        if self.size > 1:
            with self._explained():
                for weight in weights:
                    paddle.distributed.broadcast(weight, src=0)

    def average_gradients(self, weights: Sequence) -> None:
        """Replace every weight's gradient by the mean over the ranks. A sparse one becomes the rows of all ranks."""
        if self.size == 1:
            return
        dense = [weight for weight in weights if not weight.grad.is_selected_rows()]
        sparse = [weight for weight in weights if weight.grad.is_selected_rows()]
        sums = self._all_reduced(paddle.concat([weight.grad.reshape([-1]) for weight in dense]))
        parts = paddle.split(sums / self.size, [weight.size for weight in dense])
        for weight, part in zip(dense, parts, strict=True):
            weight.grad = part.reshape(weight.shape)
        counts = paddle.to_tensor([len(weight.grad.rows()) for weight in sparse])
        counts = paddle.stack(self._all_gathered(counts), axis=1).tolist()  # of each weight, on every rank
        for weight, lengths in zip(sparse, counts, strict=True):
            self._average_rows(weight, lengths)

    def _average_rows(self, weight, lengths: list[int]) -> None:
        rows = self._joined(paddle.to_tensor(weight.grad.rows()), lengths)
        values = self._joined(weight.grad._get_tensor_from_selected_rows(), lengths) / self.size
        weight.clear_gradient(set_to_zero=False)
        # the way to a sparse gradient of one's own: it is what the table's lookup makes of `values`
        paddle.nn.functional.embedding(rows, weight, sparse=True).backward(values)

    def _joined(self, tensor, lengths: list[int]):
        """The ranks' tensors, which have these lengths, one after another."""
        missing = paddle.zeros([max(lengths) - len(tensor), *tensor.shape[1:]], tensor.dtype)
        parts = self._all_gathered(paddle.concat([tensor, missing]))
        return paddle.concat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    def _all_reduced(self, tensor):
        with self._explained():
            paddle.distributed.all_reduce(tensor)
        return tensor

    def _all_gathered(self, tensor) -> list:
        tensors: list = []
        with self._explained():
            paddle.distributed.all_gather(tensors, tensor)
        return tensors

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Collective calls, which fail where another rank has ended."""
        try:
            yield
        except RuntimeError as error:
            raise UserError(
                f"rank {self.rank}: another rank was lost. Its log tells why (log/workerlog.N, or in the --log_dir of "
                f"paddle.distributed.launch). {self.advice}".rstrip()
            ) from error
