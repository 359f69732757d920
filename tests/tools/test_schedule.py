"""The schedule of a run: its learning rate, and when it saves and evaluates."""

import numpy as np
import pytest
import runs

from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run, schedule

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_checkpoints_come_by_time_and_evaluations_in_a_tenth_of_it(corpus, tmp_path, monkeypatch):
    """A step takes a second, an evaluation four."""
    now, step, evaluate = [0.0], run.Trainer._step, run.evaluate
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now[0])

    def second(trainer, *batch):
        now[0] += 1
        return step(trainer, *batch)

    def slow(*arguments):
        now[0] += 4
        return evaluate(*arguments)

    monkeypatch.setattr(run.Trainer, "_step", second)
    monkeypatch.setattr(run, "evaluate", slow)
    monkeypatch.setattr(schedule, "SECONDS", 10)
    monkeypatch.setattr(schedule, "STEPS", 15)
    argv = runs.flags(
        corpus, tmp_path, max_steps=60, save_freq=None, eval_freq=None, keep=1000, log_freq=100
    )
    runs.pretrain(argv)
    evaluated = [line["step"] for line in runs.log_lines(tmp_path, "evaluation")]
    assert evaluated[0] == 10 and evaluated[-1] == 60 and len(evaluated) > 2
    assert 4 * (len(evaluated) - 1) <= 0.1 * now[0] + 4
    assert (np.diff([0, *checkpoint.steps(tmp_path)]) <= 15).all()
    assert len(checkpoint.steps(tmp_path)) < 30


def test_an_epoch_ends_with_a_checkpoint(small_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "SHARE", 1e9)
    runs.pretrain(runs.flags(small_corpus, tmp_path, max_steps=24, save_freq=None, eval_freq=None))
    (start,) = runs.log_lines(tmp_path, "start")
    assert checkpoint.steps(tmp_path)[:2] == [
        start["steps_per_epoch"],
        2 * start["steps_per_epoch"] - 1,
    ]
    assert [line["step"] for line in runs.log_lines(tmp_path, "evaluation")] == checkpoint.steps(
        tmp_path
    )


def test_adams_rate_follows_the_new_end_and_says_so(corpus, tmp_path, messages):
    argv = runs.flags(
        corpus, tmp_path, optimizer="adam", warmup_steps=4, log_freq=1, max_steps=10, lr=0.1
    )
    runs.pretrain(argv)
    rates = [line["learning_rate"] for line in runs.log_lines(tmp_path, "training")]
    np.testing.assert_allclose(
        rates, 0.1 * np.array([1 / 4, 2 / 4, 3 / 4, 1, *(k / 7 for k in range(6, 0, -1))])
    )
    runs.pretrain([*argv, "--max_steps=12", "--resume"])
    assert "step 12 instead of 10" in messages()
    runs.pretrain([*argv, "--max_steps=11", "--resume"])
    assert "nothing is left to do" in messages() and "step 11 instead" not in messages()
