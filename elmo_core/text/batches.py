"""Batches of sentences of similar length, and their results in the original order. NumPy only."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

BATCHES_PER_WINDOW = 16
TOKENS_PER_SENTENCE = 32  # assumed average: with longer ones, a window has fewer sentences


def sentence_windows(
    sentences: Iterable[Any], size: float, length: Callable[[Any], int] = len
) -> Iterator[list[Any]]:
    """Yield up to `size` sentences at a time; math.inf: all at once.

    length: the number of a sentence's tokens.
    """
    window = []
    n_tokens = 0
    for sentence in sentences:
        window.append(sentence)
        n_tokens += length(sentence)
        if len(window) == size or n_tokens >= TOKENS_PER_SENTENCE * size:
            yield window
            window = []
            n_tokens = 0
    if window:
        yield window


def sentence_batches(
    sentences: Iterable[Any],
    batch_size: int = 64,
    max_tokens: int = 16384,
    window: float | None = None,
    length: Callable[[Any], int] = len,
) -> Iterator[tuple[np.ndarray, list[Any]]]:
    """Batch sentences of similar length, within windows of `window` sentences; endless input works.

    Yields per batch the positions (B,) int64 of its sentences in the input, and the sentences,
    longest first: at most `batch_size`, and at most `max_tokens` tokens with padding and special
    tokens, unless a single sentence has more.
    window: by default 16 batches. length: the number of a sentence's tokens, for sentences that are
    not lists of tokens.
    """
    if window is None:
        window = BATCHES_PER_WINDOW * batch_size
    begin = 0
    for group in sentence_windows(sentences, window, length):
        lengths = np.array([length(sentence) for sentence in group])
        order = np.argsort(-lengths, kind="stable")
        while len(order):
            longest = int(lengths[order[0]]) + 2  # with the special tokens
            n_rows = max(1, min(batch_size, max_tokens // longest))
            rows = order[:n_rows]
            yield begin + rows, [group[row] for row in rows]
            order = order[n_rows:]
        begin += len(group)


def shuffled_batches(
    lengths: Sequence[int], batch_size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Batches of an epoch in random order, as positions (B,) of sentences of similar length.

    lengths: of all sentences.
    """
    order = random.permutation(len(lengths))
    shuffled = np.asarray(lengths)[order].tolist()
    batches = [
        order[positions] for positions, _ in sentence_batches(shuffled, batch_size, length=int)
    ]
    random.shuffle(batches)
    return batches


def restore_order(pairs: Iterable[tuple[np.ndarray, Iterable[Any]]]) -> Iterator[Any]:
    """Yield the values of (positions, values) pairs in order of position, as soon as possible."""
    pending: dict[int, Any] = {}
    position = 0
    for positions, values in pairs:
        pending.update(zip(positions.tolist(), values, strict=True))
        while position in pending:
            yield pending.pop(position)
            position += 1
