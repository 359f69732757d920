"""How many operators a training step runs without the compiled loops: on a GPU each is a launch, which takes its time."""

import sys
from dataclasses import replace

import runs

from elmo import ELMoConfig
from elmo_core.network import fused

sys.path.insert(0, str(runs.PROJECT / "benchmarks"))
import bench


def test_a_training_step_runs_few_operators(monkeypatch):
    """Of 64 rows of 20 steps, with as many layers and filter widths as `small`; the sizes change little."""
    monkeypatch.setattr(fused, "kernel", lambda: None)
    corpus, vocabulary = bench.training_text(1000)
    sizes = {"projection_dim": 5, "cell_dim": 7, "character_dim": 3, "filters": [(width, 2) for width in range(1, 8)]}
    config = replace(ELMoConfig.preset("small", vocab_size=len(vocabulary)), **sizes)
    counted = bench.count_operators(bench.same_step(config, corpus, vocabulary, candidates=64))
    assert 0 < counted["launches"] <= counted["operators"] <= 1700
