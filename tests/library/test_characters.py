"""Characters: the ids of bilm-tf."""

import numpy as np
import pytest
import reference
from tiny import char_ids


@pytest.mark.parametrize(
    "token",
    [
        "cat",
        "苹果",
        "👩‍🚀",
        "x" * 60,
        "x" * 48,
        "x" * 49,
        "y" + "果" * 20,
        "",
        "<S>",
        "</S>",
        "<UNK>",
        "\x00\x7f",
        "ÿ",
    ],
)
def test_char_ids_are_those_of_bilm_tf(token):
    ids = char_ids(["before", token, "after"])
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(
        ids, [reference.char_ids(word) for word in ("before", token, "after")]
    )
