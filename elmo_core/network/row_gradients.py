"""Gradients of tables of which a step reads a few rows: of these rows alone, in time that does not depend on the table.

Paddle's own sparse gradients (SelectedRows) repeat a row for each time that it was read; merging them takes a GPU time
quadratic in their number. Here the host, which knows the row numbers, gives each row once.
"""

from dataclasses import dataclass

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor


@dataclass
class RowGradient:
    """The gradient of some rows of a table."""

    ids: np.ndarray  # (n,) int64 numbers of the rows, each once; those after the shared ones in rising order
    values: paddle.Tensor  # (n, width)
    shared: int = 0  # so many of the first are the same on all ranks, and in all batches of a step

    @property
    def own(self) -> np.ndarray:
        """The rows that are not shared."""
        return self.ids[self.shared :]

    def covers(self, table: paddle.Tensor) -> bool:
        """Whether these are all rows of a table, in their order."""
        return len(self.ids) == len(table) and bool((self.ids == np.arange(len(table))).all())

    def spread(self, own: np.ndarray) -> paddle.Tensor:
        """The values over the shared rows and the rows `own`, which are rising and have this gradient's among them."""
        if len(self.own) == len(own):
            return self.values
        places = np.concatenate([np.arange(self.shared), self.shared + np.searchsorted(own, self.own)])
        values = paddle.zeros([self.shared + len(own), self.values.shape[1]], self.values.dtype)
        return paddle.scatter_(values, to_tensor(places), self.values)

    def over(self, own: np.ndarray, values: paddle.Tensor) -> "RowGradient":
        """A gradient with other rows after the shared ones."""
        return RowGradient(np.concatenate([self.ids[: self.shared], own]), values, self.shared)


def read_rows(table: paddle.Tensor, ids: np.ndarray, shared: int = 0) -> paddle.Tensor:
    """Rows (n, width) of a table. What `backward` finds of them, `row_gradient` gives.

    ids, shared: as in RowGradient.
    """
    with paddle.no_grad():
        rows = paddle.gather(table, to_tensor(ids))
    if not table.stop_gradient and paddle.is_grad_enabled():
        rows.stop_gradient = False
        rows.register_hook(lambda values: _add(table, RowGradient(ids, values.detach(), shared)))
    return rows


def look_up(table: paddle.Tensor, ids: np.ndarray) -> paddle.Tensor:
    """The row (n, width) of each number, of which some may be the same."""
    distinct, places = np.unique(ids, return_inverse=True)
    return paddle.gather(read_rows(table, distinct), to_tensor(places.ravel()))


def row_gradient(table: paddle.Tensor) -> RowGradient | None:
    """The gradient of all reads since the optimizer's last `clear_grad`."""
    return getattr(table, "row_gradient", None)


def _add(table: paddle.Tensor, new: RowGradient) -> None:
    before = row_gradient(table)
    if before is not None:
        own = np.union1d(before.own, new.own)
        new = new.over(own, before.spread(own) + new.spread(own))
    table.row_gradient = new
