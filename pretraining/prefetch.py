"""Batches prepared in a thread of their own, ahead of their use."""

import queue
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any


class Prefetcher:
    """Runs an iterator in a thread of its own, which prepares up to `depth` items ahead of their use.

    An exception is raised where the iterator raised it, after the items before it. `close()`, or the end of a `with`
    block, stops the thread and drops what it has prepared.
    """

    def __init__(self, iterable: Iterable[Any], depth: int = 4):
        self._items: queue.Queue = queue.Queue(depth)
        self._stop = threading.Event()
        work = (iter(iterable), self._items, self._stop)
        self._thread = threading.Thread(target=_prefetch, args=work, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._stop.set)  # the thread also ends when nobody holds the prefetcher any more

    def __iter__(self) -> "Prefetcher":
        return self

    def __next__(self) -> Any:
        if self._stop.is_set():
            raise StopIteration
        item, end = self._items.get()
        if end is not None:
            self._stop.set()
            raise end
        return item

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _prefetch(iterator: Iterator[Any], items: queue.Queue, stop: threading.Event) -> None:
    """Put (item, None) for every item, then (None, the exception that ends the iterator)."""
    entry = None
    while not stop.is_set():
        try:
            entry = entry or (next(iterator), None)
        except BaseException as end:
            entry = (None, end)
        try:
            items.put(entry, timeout=0.05)
            if entry[1] is not None:
                return
            entry = None
        except queue.Full:
            pass
