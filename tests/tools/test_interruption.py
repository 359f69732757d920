"""Interruptions of a run: signals save it, a second one stops it at once."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import runs
from pretraining_runs import progress

import run_pretrain
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run
from elmo_tools.pretraining.meter import Meter
from elmo_tools.pretraining.perplexity import Score

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_ctrl_c_saves_and_says_how_to_resume(corpus, tmp_path):
    """Meanwhile no other run may use the folder."""
    output = tmp_path / "output"
    argv = runs.flags(corpus, tmp_path / "run", max_steps=100000, log_freq=1)
    process = runs.start("run_pretrain.py", argv, output)
    runs.wait_for_step(2, process, output)
    with pytest.raises(UserError, match="another process"):
        run_pretrain.main([*argv, "--overwrite"])
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    *_, stopped = output.read_text(encoding="utf-8").splitlines()
    folder = checkpoint.resolve(tmp_path / "run")
    assert f"saved as {folder}." in stopped and "--resume" in stopped
    assert int(folder.name) == progress(folder)["step"] >= 2


@pytest.mark.ranks
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_whose_launcher_ends_stop_and_save(corpus, tmp_path, number):
    log = tmp_path / "log"
    argv = runs.flags(corpus, tmp_path / "run", dev_data_path=None, max_steps=100000, log_freq=1)
    launcher = runs.start("run_pretrain.py", argv, tmp_path / "output", launch=2, log_dir=log)
    runs.wait_until((log / "workerlog.0").exists, launcher, tmp_path / "output")
    runs.wait_for_step(3, launcher, log / "workerlog.0")
    ranks = (
        Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        .read_text(encoding="ascii")
        .split()
    )
    assert len(ranks) == 2
    try:
        launcher.send_signal(number)
        until = time.monotonic() + 60
        while any(map(is_running, ranks)):
            assert time.monotonic() < until, "the ranks are still running"
            time.sleep(0.05)
    finally:
        for rank in filter(is_running, ranks):
            os.kill(int(rank), signal.SIGKILL)
    assert checkpoint.steps(tmp_path / "run")[-1] >= 3


def is_running(pid: str) -> bool:
    try:
        return (
            Path("/proc", pid, "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
            != "Z"
        )
    except FileNotFoundError:
        return False


def test_a_second_ctrl_c_stops_at_once(corpus, tmp_path, monkeypatch):
    def interrupt(meter, *rest):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Meter, "add", interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_pretrain.main(runs.flags(corpus, tmp_path))
    assert not checkpoint.steps(tmp_path) and signal.getsignal(signal.SIGINT) is before


# after 12 steps it is the last evaluation
@pytest.mark.parametrize(("max_steps", "number"), [(14, signal.SIGTERM), (12, signal.SIGHUP)])
def test_an_evaluation_does_not_delay_a_stop_and_is_repeated(
    corpus, tmp_path, monkeypatch, max_steps, number
):
    monkeypatch.setattr(
        signal, "getsignal", lambda number: signal.SIG_DFL
    )  # nohup ignores SIGHUP, and so would the run
    evaluate, whole = run.evaluate, tmp_path / "whole"
    runs.pretrain(runs.flags(corpus, whole, max_steps=max_steps))

    def interrupted(bilm, batches, ranks):
        signal.raise_signal(number)
        assert not list(batches), "the evaluation continues"
        return Score()

    argv = runs.flags(corpus, tmp_path / "run", max_steps=max_steps)
    monkeypatch.setattr(run, "evaluate", interrupted)
    with pytest.raises(SystemExit):
        run_pretrain.main(argv)
    assert checkpoint.steps(tmp_path / "run") == [12] and not runs.log_lines(
        tmp_path / "run", "evaluation"
    )
    monkeypatch.setattr(run, "evaluate", evaluate)
    runs.pretrain([*argv, "--resume"])
    assert runs.log_lines(tmp_path / "run", "evaluation") == runs.log_lines(whole, "evaluation")
    np.testing.assert_equal(
        progress(tmp_path / "run" / "12"), progress(whole / "12")
    )  # it knows of its evaluation
