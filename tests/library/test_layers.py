"""The choice of layers: which are run, and what they are returned as."""

from unittest import mock

import numpy as np
import pytest
import tiny
from reference import assert_close

from elmo import ELMo, ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.network import bilm as bilm_module
from elmo_core.network.lstmp import run_layer

SENTENCES = tiny.SENTENCES


def test_layers_and_pooling(model):
    everything = ELMoEmbedder(model).encode(SENTENCES)
    for choice, weights in {
        "top": [0, 0, 1],
        "average": [1 / 3] * 3,
        0: [1, 0, 0],
        -2: [0, 1, 0],
        "1": [0, 1, 0],
        "-1": [0, 0, 1],
        (0.2, -1.5, 3.0): [0.2, -1.5, 3.0],
        (0.0, 0.0, 0.0): [0, 0, 0],
        (0.5, 0.0, 0.0): [0.5, 0, 0],
    }.items():
        embedder = ELMoEmbedder(model, layers=choice)
        actual = embedder.encode(SENTENCES)
        assert actual[0].shape == embedder.shape(3) == (3, 14)
        expected = [np.tensordot(np.array(weights), array, 1) for array in everything]
        assert_close(actual, expected, 1e-5)
    for choice, chosen in (
        ("0,-2", [0, 1]),
        ([0, 1], [0, 1]),
        ((2, 0), [2, 0]),
        ([-1], [2]),
        (np.arange(3), [0, 1, 2]),
    ):
        actual = ELMoEmbedder(model, layers=choice).encode(SENTENCES)
        assert_close(actual, [array[chosen] for array in everything])
    for choice, chosen in (("concat", [0, 1, 2]), ("concat:2,0", [2, 0])):
        embedder = ELMoEmbedder(model, layers=choice)
        actual = embedder.encode(SENTENCES)
        assert actual[0].shape == embedder.shape(3) == (3, len(chosen) * 14)
        assert_close(actual, [np.concatenate(array[chosen], axis=-1) for array in everything])
    for pool in ("mean", "max"):
        actual = ELMoEmbedder(model, pool=pool).encode([s for s in SENTENCES if s])
        pooled = np.mean if pool == "mean" else np.max
        expected = [pooled(array, axis=1) for array in everything if array.shape[1]]
        assert_close(actual, expected, 1e-5)
    for layers in ("all", "concat"):
        parts = [ELMoEmbedder(model, layers=[0, 1, 2], pool=pool) for pool in ("mean", "max")]
        mean, maximum = [embedder.encode(SENTENCES) for embedder in parts]
        expected = [
            np.concatenate(pair, axis=-1).reshape((3, 28) if layers == "all" else 84)
            for pair in zip(mean, maximum, strict=True)
        ]
        embedder = ELMoEmbedder(model, layers=layers, pool="mean_max")
        actual = embedder.encode(SENTENCES)
        assert actual[0].shape == embedder.shape(3) == expected[0].shape
        for found, wanted in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    half = ELMoEmbedder(model, dtype="float16").encode(SENTENCES)
    assert half[0].dtype == np.float16
    for actual, exact in zip(half, everything, strict=True):
        np.testing.assert_allclose(actual, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("layers", "n_run"), [("all", 2), ("0,1", 1), (1, 1), (0, 0), ([0.5, 0.5, 0.0], 1)]
)
@pytest.mark.parametrize("carry_state", [False, True])
def test_only_the_requested_layers_are_run(model, monkeypatch, layers, n_run, carry_state):
    run = mock.Mock(wraps=run_layer)
    monkeypatch.setattr(bilm_module, "run_layer", run)
    ELMoEmbedder(model, layers=layers, carry_state=carry_state).encode([["the", "bank"]])
    assert run.call_count == n_run


def test_advice_on_layers_fits_the_class_and_the_model(model):
    with pytest.raises(UserError, match=r"TensorFlow Hub"):
        ELMoEmbedder(model, layers="mix")
    with pytest.raises(UserError, match=r"\[1\.0, 0\.0, 0\.0\]"):
        ELMoEmbedder(model, layers=7)
    with pytest.raises(UserError) as refused:
        ELMo(model, layers=7)  # which takes no weights
    assert "[1.0" not in str(refused.value)
