"""Tables of weights: which arrays of another program make which weights of ours."""

import numpy as np

from elmo_core.weights.layout import gates


def test_gates_are_put_in_our_order():
    theirs = np.array([[10, 11, 20, 21, 30, 31, 40, 41]])  # H = 2
    assert gates("igfo")(theirs).tolist() == theirs.tolist()
    assert gates("fiog")(theirs).tolist() == [[20, 21, 40, 41, 10, 11, 30, 31]]
