"""Preparing batches ahead of their use, in a background thread."""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any


class Prefetcher:
    """Runs an iterator in a background thread, up to `depth` items ahead.

    Its exception is raised after the items that preceded it. The end of the `with` block stops the thread and drops the
    prepared items.
    """

    def __init__(self, iterable: Iterable[Any], depth: int = 4):
        self._items: queue.Queue = queue.Queue(depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._prefetch, args=(iter(iterable),), daemon=True)
        self._thread.start()

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        while self._thread.is_alive():
            with suppress(queue.Empty):
                self._items.get(timeout=0.05)  # makes room, so that the thread gets to see the stop

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

    def _prefetch(self, iterator: Iterator[Any]) -> None:
        """Put (item, None) for every item, then (None, the exception that ends the iterator)."""
        while not self._stop.is_set():
            try:
                self._items.put((next(iterator), None))
            except BaseException as end:
                self._items.put((None, end))
                return
