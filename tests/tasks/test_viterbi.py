"""The best labels of sentences: those of an enumeration."""

import itertools

import numpy as np

from elmo_tasks.tagging.viterbi import best_paths


def test_the_best_labels_are_those_of_an_enumeration():
    random = np.random.default_rng(0)
    lengths = np.array([4, 0, 1, 3])
    emissions = random.standard_normal((4, 4, 3))
    transitions = random.standard_normal((3, 3))  # from and to
    start = random.standard_normal(3)
    stop = random.standard_normal(3)

    def score(row: int, path: tuple[int, ...]) -> float:
        total = (
            start[path[0]]
            + stop[path[-1]]
            + sum(emissions[row, t, label] for t, label in enumerate(path))
        )
        return total + sum(transitions[pair] for pair in itertools.pairwise(path))

    found = best_paths(emissions, transitions, start, stop, lengths)
    for row, length in enumerate(lengths):
        paths = itertools.product(range(3), repeat=length) if length else [()]
        best = max(paths, key=lambda path: score(row, path) if path else 0.0)
        assert tuple(found[row]) == best
