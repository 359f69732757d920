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
    scores = emissions[:, 0] + start  # (B, K): of the best prefix that ends with each label
    backpointers = []
    ends = [scores + stop]
    for t in range(1, emissions.shape[1]):
        sums = scores[:, None] + transitions.T  # (B, to, from)
        backpointers.append(sums.argmax(axis=2))
        scores = sums.max(axis=2) + emissions[:, t]
        ends.append(scores + stop)
    paths = []
    for row, length in enumerate(lengths.tolist()):
        path = []  # from the last label to the first
        if length:
            path.append(int(ends[length - 1][row].argmax()))
            for step in reversed(backpointers[: length - 1]):
                path.append(step[row, path[-1]])
        paths.append(np.array(path[::-1], np.int64))
    return paths
