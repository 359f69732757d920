"""The batches of a language model, under the name that the published scripts use."""

from elmo_tools.pretraining.streams import EvalStream, TrainStream

__all__ = ["EvalStream", "TrainStream"]
