"""The number of operators in a training step without the compiled loops: on a GPU each costs a launch."""

import sys
from dataclasses import replace

import runs

from elmo import ELMoConfig
from elmo_core.network import fused

sys.path.append(str(runs.PROJECT / "benchmarks"))
import bench


def test_a_training_step_runs_few_operators(monkeypatch):
    """A batch of 64 x 20, with the layers and filter widths of `small`; other sizes hardly matter."""
    monkeypatch.setattr(fused, "kernel", lambda: None)
    corpus, vocabulary = bench.training_text(1000)
    sizes = {"projection_dim": 5, "cell_dim": 7, "character_dim": 3, "filters": [(width, 2) for width in range(1, 8)]}
    config = replace(ELMoConfig.preset("small", vocab_size=len(vocabulary)), **sizes)
    counted = bench.count_operators(bench.same_step(config, corpus, vocabulary, candidates=64))
    assert 0 < counted["launches"] <= counted["operators"] <= 1700
