"""The settings of a classifier."""

import pytest

from elmo_core.messages import UserError
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.settings import ClassifierSettings


def test_every_head_is_a_choice():
    choices = ClassifierSettings.__dataclass_fields__["head"].metadata["choices"]
    assert choices == tuple(HEADS)


@pytest.mark.parametrize(
    "name, value", [("tune_epochs", 3), ("lstm_dropout", 0.3), ("word_vectors_trainable", True)]
)
def test_settings_of_what_is_not_trained_are_an_error(name, value):
    with pytest.raises(UserError, match=name):
        ClassifierSettings(**{name: value})
