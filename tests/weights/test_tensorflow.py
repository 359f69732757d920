"""TensorFlow's checkpoints as arrays: nothing is read beyond the end of a file."""

import numpy as np
import pytest
import tensorflow_writer as writer

from elmo_core.messages import UserError
from elmo_core.weights.tensorflow import read_tensorflow


def test_a_variable_beyond_the_end_of_its_shard(tmp_path):
    entry = writer.entry(np.ones((50, 5), np.float32), 0, 0).replace(
        writer.field(1, 50), writer.field(1, 51)
    )
    (tmp_path / "x.index").write_bytes(writer.table({b"": writer.field(1, 1), b"x": entry}))
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(1000))
    with pytest.raises(UserError, match=r"x\.index"):
        read_tensorflow(tmp_path / "x.index")
