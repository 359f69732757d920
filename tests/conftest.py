"""What several test files share."""

import logging
import os
import signal

import pytest
import runs

from elmo_core import fused

# A shell's background job ignores Ctrl-C, and so would every script that it starts: the tests would try nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["fused", "Paddle's operators"])
def implementation(request, monkeypatch):
    """Runs a test on the compiled loops, and on Paddle's operators, which take over where there is no compiler."""
    if request.param != "fused":
        monkeypatch.setattr(fused, "kernel", lambda: None)
    elif fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")
    return request.param


@pytest.fixture
def said(caplog):
    """What the user is told."""
    caplog.set_level(logging.INFO, logger="elmo")
    return lambda: caplog.text


@pytest.fixture
def in_haste(monkeypatch):
    """What is written need not outlive the machine: waiting for the disk is most of the time of many small files."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def nothing_runs_on():
    """A test that fails leaves no process behind, which would take the time of those that follow."""
    yield
    while runs.STARTED:
        process = runs.STARTED.pop()
        process.kill()
        process.wait()
