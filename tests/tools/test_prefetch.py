"""Preparing batches ahead: in order, no more than a few, and with their errors."""

import threading
import time

import pytest

from elmo_core.messages import UserError
from elmo_tools.pretraining.prefetch import prefetched


def test_prefetching_keeps_order_and_stays_within_its_depth():
    taken, n_threads = [], threading.active_count()
    with prefetched(taken.append(i) or i for i in range(100)) as items:
        assert next(items) == 0
        until = time.monotonic() + 5
        while len(taken) < 5 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(taken) == 5  # one used, four prepared
        assert list(items) == list(range(1, 100))
    with prefetched(iter(int, 1)) as endless:
        next(endless)
    assert threading.active_count() == n_threads


def test_prefetching_raises_what_the_iterator_raised():
    def failing():
        yield 1
        yield 2
        raise UserError("bad line")

    with prefetched(failing()) as items:
        assert [next(items), next(items)] == [1, 2]
        with pytest.raises(UserError, match="bad line"):
            next(items)
        with pytest.raises(StopIteration):
            next(items)
