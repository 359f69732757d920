"""The settings of pretraining: defaults that follow from others."""

import pytest

from elmo_tools.pretraining.run import OPTIMIZERS
from elmo_tools.pretraining.settings import FixedSettings, PretrainingSettings


@pytest.mark.parametrize(
    ("given", "lr"), [({}, 0.2), ({"optimizer": "adam"}, 0.001), ({"lr": 0.5}, 0.5)]
)
def test_the_learning_rate_is_by_default_that_of_the_optimizer(given, lr):
    assert PretrainingSettings(**given).learning_rate == lr


def test_every_optimizer_is_a_choice():
    choices = FixedSettings.__dataclass_fields__["optimizer"].metadata["choices"]
    assert choices == tuple(OPTIMIZERS)
