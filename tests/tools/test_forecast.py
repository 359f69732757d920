"""The forecast of a run: it changes nothing and leaves out what is unknown."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import runs

from elmo_core.text.corpus import Counts
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import expectation, forecast, schedule
from elmo_tools.pretraining.forecast import Forecast, Plan, Trial
from elmo_tools.pretraining.progress import Progress
from elmo_tools.pretraining.settings import PretrainingSettings

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def at_once(monkeypatch):
    """Forecasts come after the first timed steps, and foresee a perplexity, if any is."""
    monkeypatch.setattr(expectation, "COEFFICIENTS", (1.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(forecast, "SECONDS", 0.0)


class FakeClock:
    """A clock, and the meter that reads it, of which an hour was a pause."""

    def __init__(self, monkeypatch):
        self.now = 10_000.0
        monkeypatch.setattr(forecast.time, "perf_counter", lambda: self.now)

    def seconds_of_work(self) -> float:
        return self.now - 3600


def test_the_trial_leaves_out_the_first_step_and_ends_once(monkeypatch):
    clock = FakeClock(monkeypatch)
    trial = Trial(clock)
    due = []
    for seconds in [60.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]:
        clock.now += seconds
        due.append(trial.is_due())
        trial.add_step()
    assert due == [False] * 5 + [True, True]
    assert trial.end() == 2.0
    assert not trial.is_due()


def test_fast_steps_are_timed_for_some_seconds(monkeypatch):
    clock = FakeClock(monkeypatch)
    trial = Trial(clock)
    n_steps = 0
    while not trial.is_due():
        trial.add_step()
        clock.now += 0.125
        n_steps += 1
    assert n_steps * 0.125 == pytest.approx(forecast.SECONDS, abs=0.2)


def plan(seconds_per_step=2.0, total=1000, first_step=1, **settings) -> Plan:
    """A plan of 100 steps per epoch."""
    progress = Progress(
        tokens_per_step=10,
        counts=Counts(sentences=100, tokens=900),
        position={},
        states=[],
        warmup=0,
        total=total,
    )
    return Plan(progress, PretrainingSettings(**settings), first_step, seconds_per_step)


def test_a_plan_counts_the_steps_that_are_left():
    assert plan().seconds_of_steps == 2000
    assert plan(first_step=901).seconds_of_steps == 200
    assert plan().seconds_per_epoch == 200


def test_evaluations_come_with_eval_freq_and_at_the_end():
    assert plan(eval_freq=400).seconds_of_evaluations(3.0) == 9  # 400, 800, 1000
    assert plan(eval_freq=500).seconds_of_evaluations(3.0) == 6
    assert plan(eval_freq=5000).seconds_of_evaluations(3.0) == 3


def test_evaluations_come_with_every_epoch_or_ten_minutes_in_a_tenth_of_the_time():
    assert plan().seconds_of_evaluations(3.0) == 10 * 3
    slow = plan(seconds_per_step=12.0)  # 50 steps in ten minutes
    assert slow.seconds_of_evaluations(3.0) == 20 * 3
    limit = 2000 * schedule.SHARE / (1 - schedule.SHARE)
    assert plan().seconds_of_evaluations(100.0) == pytest.approx(limit + 100)


def test_the_text_names_time_memory_and_perplexity():
    expected = SimpleNamespace(text=lambda: "perplexity 7", values=lambda: {"perplexity": 7.0})
    given = {"seconds": 1500.0, "seconds_per_epoch": 300.0, "memory_mb": 1234.5}
    both = Forecast(**given, evaluation_seconds=40.0, expected=expected)
    assert "25 min" in both.text()
    assert "5 min per epoch" in both.text()
    assert "40 s" in both.text()
    assert "1,234 MB" in both.text()
    assert "perplexity 7" in both.text()
    assert both.values()["perplexity"] == 7
    neither = Forecast(**given, evaluation_seconds=0.0, expected=None)
    assert "evaluations" not in neither.text()
    assert "perplexity" not in neither.values()


@pytest.mark.usefixtures("at_once")
def test_a_forecast_changes_no_bit(corpus, tmp_path, monkeypatch):
    runs.pretrain(runs.flags(corpus, tmp_path / "with", optimizer="adam"))
    monkeypatch.setattr(forecast, "SECONDS", np.inf)
    runs.pretrain(runs.flags(corpus, tmp_path / "without", optimizer="adam"))
    assert len(runs.log_lines(tmp_path / "with", "forecast")) == 1
    assert not runs.log_lines(tmp_path / "without", "forecast")
    runs.assert_same(tmp_path / "with" / "final", tmp_path / "without" / "final")
    for event in ("training", "evaluation"):
        assert runs.log_lines(tmp_path / "with", event) == runs.log_lines(
            tmp_path / "without", event
        )


@pytest.mark.usefixtures("at_once")
def test_the_forecast_of_a_new_run_has_all(corpus, tmp_path):
    runs.pretrain(runs.flags(corpus, tmp_path))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    (record,) = [line for line in lines if line["event"] == "forecast"]
    in_use = [line["memory_mb"] for line in lines if line["event"] == "training"]
    assert record["memory_mb"] >= min(in_use)
    assert record["step"] == forecast.STEPS + 1
    assert 0 < record["evaluation_seconds"] < record["seconds"]
    assert 1 < record["perplexity_low"] < record["perplexity"] < record["perplexity_high"]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("kind", ["no dev", "word", "resumed", "fine-tuned"])
def test_what_is_unknown_is_left_out(corpus, finished, tmp_path, kind):
    changes = {
        "no dev": {"dev_data_path": None, "eval_freq": None},
        "word": {"input": "word"},
        "resumed": {"resume": True},
        "fine-tuned": {"finetune_from": finished / "final"},
    }
    if kind == "resumed":
        runs.pretrain(runs.flags(corpus, tmp_path), stop_at=4)
    runs.pretrain(runs.flags(corpus, tmp_path, **changes[kind]))
    (record,) = runs.log_lines(tmp_path, "forecast")
    assert record["seconds"] > 0
    assert "perplexity" not in record
    assert checkpoint.steps(tmp_path)
