"""Nearest occurrences: how often they have the same sense."""

import numpy as np

from elmo_tools.senses import nearest


def test_ties_count_by_their_share():
    vectors = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8], [0.6, -0.8], [-1, 0]])
    senses = np.array(list("aabba"))
    sentences = np.arange(5)
    # The first is as near to 1, 2 and 3; 1 and 2 are each other's; the last is nearest to 1, 2
    # and 3 again.
    expected = [1 / 3, 0, 0, 0, 1 / 3]
    np.testing.assert_allclose(nearest.same_sense(vectors, senses, sentences), expected)


def test_an_occurrence_in_the_same_sentence_is_no_neighbour():
    vectors = np.array([[1, 0], [1, 0], [0.6, 0.8], [0, 1]])
    senses = np.array(list("aabb"))
    sentences = np.array([7, 7, 3, 4])
    np.testing.assert_allclose(nearest.same_sense(vectors, senses, sentences), [0, 0, 1, 1])
