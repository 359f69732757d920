"""The published name of the batches of a language model."""

import dataset
from elmo_tools.pretraining import streams


def test_the_streams_have_their_published_name():
    assert dataset.TrainStream is streams.TrainStream
    assert dataset.EvalStream is streams.EvalStream
