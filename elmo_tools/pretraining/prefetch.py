"""Preparing batches ahead of their use, in a background thread."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

END = object()
DEPTH = 4


@contextmanager
def prefetched(iterable: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """In a `with` block, the items of an iterable, prepared by a background thread, up to DEPTH ahead.

    An exception is raised after the items that preceded it. The end of the block stops the thread and drops the prepared
    items.
    """
    source, pool = iter(iterable), ThreadPoolExecutor(1)
    futures = deque(pool.submit(next, source, END) for _ in range(DEPTH))

    def items() -> Iterator[Any]:
        while (item := futures.popleft().result()) is not END:
            futures.append(pool.submit(next, source, END))
            yield item

    try:
        yield items()
    finally:
        pool.shutdown(cancel_futures=True)
