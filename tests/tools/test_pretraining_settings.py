"""The settings of pretraining: defaults that follow from others."""

from pathlib import Path

import pytest

from elmo_tools.pretraining.run import OPTIMIZERS
from elmo_tools.pretraining.settings import FixedSettings, PretrainingSettings

REQUIRED = {"save_dir": Path("run"), "batch_size": 1, "unroll_steps": 1, "seed": 1}


@pytest.mark.parametrize(
    ("given", "lr"), [({}, 0.2), ({"optimizer": "adam"}, 0.001), ({"lr": 0.5}, 0.5)]
)
def test_the_learning_rate_is_by_default_that_of_the_optimizer(given, lr):
    assert PretrainingSettings(**REQUIRED, **given).lr == lr


def test_every_optimizer_is_a_choice():
    choices = FixedSettings.__dataclass_fields__["optimizer"].metadata["choices"]
    assert choices == tuple(OPTIMIZERS)
