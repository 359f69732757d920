"""Preparing batches ahead of their use, in a background thread."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
END = object()
DEPTH = 4


@contextmanager
def prefetched(iterable: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """In a `with` block, the items of an iterable, which a thread prepares, up to DEPTH ahead.

    An exception is raised after the items that preceded it. The end of the block stops the thread
    and drops the prepared items.
    """
    source = iter(iterable)
    pool = ThreadPoolExecutor(1)
    futures = deque(pool.submit(next, source, END) for _ in range(DEPTH))

    def items() -> Iterator[Item]:
        while True:
            item = futures.popleft().result()
            if item is END:
                return
            futures.append(pool.submit(next, source, END))
            yield item

    try:
        yield items()
    finally:
        pool.shutdown(cancel_futures=True)
