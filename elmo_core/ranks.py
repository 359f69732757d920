"""The processes of a data-parallel run, as `python -m paddle.distributed.launch` starts them: one rank each.

A run without the launcher is one rank, and nothing here costs it anything.

Gradients are averaged here and not by `paddle.DataParallel`: over gloo that one aborts the whole process, without a word
of Python, when another rank has died.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from elmo_core.runtime import UserError, paddle

HEARTBEAT_SECONDS = 1.0  # between words to the ranks that wait; gloo gives up on a rank that is silent for 30
ROLL_CALL_SECONDS = 2.0  # for a rank to answer


class Ranks:
    """This process's rank among `size`, and what they do together. Every rank must make the same calls.

    advice: what to do when a rank is lost, for the error's end.
    """

    def __init__(self, advice: str = ""):
        self.advice = advice
        self.size = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
        self.rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
        self._addresses: list[tuple[str, int]] = []
        self._lost: list[int] = []  # ranks that another found silent
        if self.size > 1:
            paddle.distributed.init_parallel_env()
            self._addresses = self.gather(self._answer_roll_calls())

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
        """Whether any rank says so."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = []
        self._guarded(lambda: paddle.distributed.all_gather_object(values, value))
        return values

    def on_first(self, work: Callable[[], Any]) -> Any:
        """The result, on every rank, of long work that the first does while the others wait. Its error is everyone's."""
        return self.on_each(work if self.first else lambda: None)[0]

    def on_each(self, work: Callable[[], Any]) -> list[Any]:
        """What each rank's own long work results in, on every rank. An error is everyone's.

        The work is done in a thread, so that the ranks hear of each other meanwhile.
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
            for weight in weights:
                self._guarded(lambda weight=weight: paddle.distributed.broadcast(weight, src=0))

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
        self._guarded(lambda: paddle.distributed.all_reduce(tensor))
        return tensor

    def _all_gathered(self, tensor) -> list:
        tensors: list = []
        self._guarded(lambda: paddle.distributed.all_gather(tensors, tensor))
        return tensors

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """What the call returns. If the ranks have lost each other, the error says which one is to blame."""
        try:
            return call()
        except RuntimeError as error:
            raise UserError(f"rank {self.rank}: {self._missing()} {self.advice}".rstrip()) from error

    def _missing(self) -> str:
        """Which rank has ended or hangs: the others are told before this one ends, so that none of them blames it."""
        others = [rank for rank in range(len(self._addresses)) if rank != self.rank]
        until = time.monotonic() + ROLL_CALL_SECONDS
        while time.monotonic() < until:
            silent = [rank for rank in others if not _answers(self._addresses[rank])]
            lost = list(self._lost) or silent
            if lost:
                for rank in set(others) - set(silent):
                    _answers(self._addresses[rank], lost)
                names = " and ".join(f"rank {rank} on {self._addresses[rank][0]}" for rank in lost)
                return (
                    f"{names} ended or does not answer any more. What it said is in log/workerlog.{lost[0]}, or where "
                    "--log_dir of paddle.distributed.launch says."
                )
            time.sleep(0.1)
        return "the connection to the other ranks broke."

    def _answer_roll_calls(self) -> tuple[str, int]:
        """Answer, in a thread, whoever connects to a port of this process, and note whom it has lost. Returns that port."""
        server = socket.create_server(("", 0))

        def answer() -> None:
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError, ValueError):
                    connection.settimeout(ROLL_CALL_SECONDS)
                    self._lost = self._lost or [int(rank) for rank in connection.makefile().readline().split()]
                    connection.sendall(b"!")

        threading.Thread(target=answer, daemon=True, name="roll call").start()
        return os.environ["PADDLE_CURRENT_ENDPOINT"].rpartition(":")[0], server.getsockname()[1]


def _answers(address: tuple[str, int], lost: Sequence[int] = ()) -> bool:
    """Whether the rank at this address answers. It is told who is lost."""
    try:
        with socket.create_connection(address, timeout=ROLL_CALL_SECONDS) as connection:
            connection.sendall(f"{' '.join(map(str, lost))}\n".encode())
            return connection.recv(1) == b"!"
    except OSError:
        return False
