"""Row-sparse gradients: a step reads few rows of a table, and the cost does not depend on its size.

Paddle's own sparse gradients (SelectedRows) repeat a row for each time that it was read; merging
them takes a GPU time quadratic in their number. Here the host, which knows the row ids, lists each
row once.
"""

from dataclasses import dataclass

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor


@dataclass
class RowGradient:
    """The gradient of some rows of a table."""

    ids: np.ndarray  # (n,) int64, distinct; those after the shared ones in ascending order
    index: paddle.Tensor  # (n,) int32, the ids on the device
    values: paddle.Tensor  # (n, width)
    # the number of leading ids that are the same on all ranks and in all batches of a step
    shared: int = 0

    @property
    def unshared_ids(self) -> np.ndarray:
        return self.ids[self.shared :]

    def covers(self, table: paddle.Tensor) -> bool:
        """Return whether these are all rows of a table, in order."""
        return len(self.ids) == len(table) and bool((self.ids == np.arange(len(table))).all())

    def expand_to(self, ids: np.ndarray) -> paddle.Tensor:
        """Expand the values to the shared rows plus `ids`, a sorted superset of the others."""
        if len(self.unshared_ids) == len(ids):
            return self.values
        unshared_rows = self.shared + np.searchsorted(ids, self.unshared_ids)
        rows = np.concatenate([np.arange(self.shared), unshared_rows])
        values = paddle.zeros([self.shared + len(ids), self.values.shape[1]], self.values.dtype)
        return paddle.scatter_(values, to_tensor(rows), self.values)

    def with_rows(self, ids: np.ndarray, values: paddle.Tensor) -> "RowGradient":
        """Return a gradient with these ids after the shared ones."""
        ids = np.concatenate([self.ids[: self.shared], ids])
        return RowGradient(ids, row_index(ids), values, self.shared)


def row_index(ids: np.ndarray) -> paddle.Tensor:
    """Send row ids (n,) to the device, in half the bytes."""
    return to_tensor(ids.astype(np.int32))


def gather_rows(
    table: paddle.Tensor, ids: np.ndarray, index: paddle.Tensor, shared: int = 0
) -> paddle.Tensor:
    """Gather rows (n, width) of a table.

    After `backward`, row_gradient(table) holds their gradient.
    ids, index, shared: as in RowGradient.
    """
    with paddle.no_grad():
        rows = paddle.gather(table, index)
    if not table.stop_gradient and paddle.is_grad_enabled():
        rows.stop_gradient = False

        def collect(d_rows: paddle.Tensor) -> None:
            _add(table, RowGradient(ids, index, d_rows.detach(), shared))

        rows.register_hook(collect)
    return rows


def embedding_lookup(table: paddle.Tensor, ids: np.ndarray) -> paddle.Tensor:
    """Return rows (n, width) of a table for ids (n,) that may repeat."""
    distinct, inverse = np.unique(ids, return_inverse=True)
    rows = gather_rows(table, distinct, row_index(distinct))
    return paddle.gather(rows, to_tensor(inverse.ravel()))


def row_gradient(table: paddle.Tensor) -> RowGradient | None:
    """Return the gradient accumulated since the optimizer's last `clear_grad`."""
    return getattr(table, "row_gradient", None)


def _add(table: paddle.Tensor, new: RowGradient) -> None:
    """Add to the gradient of a table."""
    old = row_gradient(table)
    if old is not None:
        ids = np.union1d(old.unshared_ids, new.unshared_ids)
        new = new.with_rows(ids, old.expand_to(ids) + new.expand_to(ids))
    table.row_gradient = new
