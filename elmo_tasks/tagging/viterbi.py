"""The best labels of sentences by their scores: the Viterbi algorithm. NumPy only."""

import numpy as np


def best_paths(
    emissions: np.ndarray,
    transitions: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    lengths: np.ndarray,
) -> list[np.ndarray]:
    """The best label ids of each sentence (length,).

    Scores of B sentences, T steps, K labels: emissions (B, T, K), transitions (K, K) from and to,
    start and stop (K,). lengths: (B,).
    """
    # The sentences come last, which makes the maxima over the labels several times faster.
    emissions = np.ascontiguousarray(emissions.transpose(1, 2, 0))  # (T, K, B)
    n_steps, n_labels, n_rows = emissions.shape
    scores = np.empty_like(emissions)  # of the best prefix that ends with each label
    scores[0] = emissions[0] + start[:, None]
    sums = np.empty((n_labels, n_labels, n_rows), emissions.dtype)  # (from, to, B)
    for t in range(1, n_steps):
        np.add(scores[t - 1][:, None], transitions[:, :, None], out=sums)
        np.max(sums, axis=0, out=scores[t])
        scores[t] += emissions[t]
    labels = np.zeros((n_steps, n_rows), np.int64)
    following = stop[:, None]  # (K, B): what each label adds to the score with what follows it
    for t in range(n_steps - 1, -1, -1):
        labels[t] = (scores[t] + following).argmax(axis=0)
        following = np.where(lengths > t, transitions[:, labels[t]], stop[:, None])
    return [labels[:length, row] for row, length in enumerate(lengths.tolist())]
