"""Trained mixes of layers."""

import numpy as np
import pytest
import reference
import tiny
from reference import assert_close

from elmo import ELMo

SENTENCES = tiny.SENTENCES


@pytest.mark.parametrize("layer_norm", [False, True])
def test_mixes_equal_the_reference(model, layer_norm):
    layer = ELMo(model, n_mixes=2, dropout=0.0, layer_norm=layer_norm)
    layer.mixes[1].scalars.set_value(np.array([0.3, -1.0, 2.0], dtype=np.float32))
    layer.mixes[1].gamma.set_value(np.array([1.7], dtype=np.float32))
    (first, second), mask = layer(SENTENCES)
    assert mask.numpy().sum(axis=1).tolist() == [len(s) for s in SENTENCES]
    expected, _ = reference.embed(tiny.reference_of(layer.bilm), SENTENCES)
    for mixed, scalars, gamma in (
        (first, np.zeros(3), 1.0),
        (second, np.array([0.3, -1.0, 2.0]), 1.7),
    ):
        desired = reference.scalar_mix(expected, scalars, gamma, layer_norm)
        assert_close(
            [row[: len(s)] for row, s in zip(mixed.numpy(), SENTENCES, strict=True)], desired, 5e-5
        )
        assert not (mixed.numpy() * (1 - mask.numpy()[:, :, None])).any()
    (pooled,), _ = ELMo(model, dropout=0.0, layer_norm=layer_norm, pool="mean")(SENTENCES)
    means = [array.mean(axis=1, keepdims=True) for array in expected if array.size]
    found = [row[None] for row, s in zip(pooled.numpy(), SENTENCES, strict=True) if s]
    assert_close(found, reference.scalar_mix(means, np.zeros(3), 1.0, layer_norm), 5e-5)
    assert not any(row.any() for row, s in zip(pooled.numpy(), SENTENCES, strict=True) if not s)
