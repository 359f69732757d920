"""A model's configuration: its limits, its presets."""

import numpy as np
import pytest

import elmo
from elmo import ELMoConfig
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError

CODE_POINTS = {"alphabet": "code points", "n_characters": 10}


def test_code_points_have_a_fixed_number_of_columns():
    with pytest.raises(UserError, match="max_characters"):
        ELMoConfig(**CODE_POINTS, max_characters=60)


@pytest.mark.parametrize(
    ("name", "millions"), [("tiny", 0.7), ("small", 13.6), ("medium", 28.0), ("original", 93.6)]
)
def test_presets_have_the_published_sizes(name, millions):
    with paddle.LazyGuard():
        bilm = elmo.BiLM(ELMoConfig.preset(name))
    assert sum(int(np.prod(weight.shape)) for weight in bilm.parameters()) / 1e6 == pytest.approx(
        millions, abs=0.05
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": "bytes"},
        {"cell_dim": "many"},
        {"cell_clip": -1.0},
        {"filters": ((60, 3),)},
        {"activation": "gelu"},
        {"no_such_field": 1},
        {"filters": [1, 2]},
        {"input": "word", "vocab_size": 0},
        {"forget_bias": float("nan")},
        {"proj_clip": 10**400},
        {"n_layers": 1_000_000},
    ],
)
def test_config_names_the_wrong_field(wrong):
    with pytest.raises(UserError, match=list(wrong)[-1]):
        ELMoConfig.from_dict(ELMoConfig().to_dict() | wrong)
