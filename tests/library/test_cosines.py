"""Nearest vectors by cosine."""

import numpy as np

from elmo_core.encoding import cosines


def test_the_nearest_of_the_allowed_come_first_and_no_others():
    vectors = cosines.unit(np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 0.0]]))
    allowed = np.array([False, True, True, True])
    found = cosines.nearest(vectors, vectors[0], allowed, n=9)
    assert [k for k, _ in found] == [2, 1, 3]
    np.testing.assert_allclose([cosine for _, cosine in found], [0.5**0.5, 0, -1], atol=1e-12)
    assert cosines.nearest(vectors, vectors[0], allowed, n=1) == found[:1]


def test_a_vector_of_zeros_has_the_cosine_zero():
    np.testing.assert_array_equal(cosines.unit(np.zeros((1, 2))), [[0, 0]])
