"""What tests of pretraining look at in a run's folder, and what they make happen in a run."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from elmo_core.machine.runtime import paddle
from elmo_core.training.ranks import Ranks
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run
from elmo_tools.pretraining.perplexity import Score


def load(folder: Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, or of a folder's latest one."""
    return checkpoint.load_params(checkpoint.resolve(folder))


def progress(folder: Path) -> dict:
    """The progress of a checkpoint, or of a folder's latest one."""
    return checkpoint.load_training(checkpoint.resolve(folder))[1]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def best_of(folder: Path) -> tuple[int, float]:
    saved = progress(folder / "best")
    assert saved["best_step"] == saved["step"] == checkpoint.read_names(folder)["best"]
    return saved["best_step"], pytest.approx(saved["best"])


def scores(monkeypatch, perplexities) -> None:
    """Evaluations find these perplexities."""
    losses = iter(np.log(perplexities))

    def evaluate(*_):
        log_probability = -float(next(losses))
        return Score(log_probability, log_probability, 1)

    monkeypatch.setattr(run, "evaluate", evaluate)


def poison(monkeypatch, at: int) -> None:
    """A weight becomes not a number in the step."""
    average = Ranks.average_gradients
    steps = itertools.count(1)

    def poisoned(ranks, weights, request):
        if next(steps) == at:
            weights[-1].set_value(paddle.full_like(weights[-1], float("nan")))
        return average(ranks, weights, request)

    monkeypatch.setattr(Ranks, "average_gradients", poisoned)
