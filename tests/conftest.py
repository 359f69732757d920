"""Fixtures of several test files."""

import logging
import os
import signal

import pytest

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the expected values are a CPU's; before Paddle is imported

import runs
from server import Server

from elmo_core.network import fused

# A shell's background job ignores Ctrl-C, and so would every script that it starts.
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
def messages(caplog):
    """What has been logged for the user."""
    caplog.set_level(logging.INFO, logger="elmo")
    return lambda: caplog.text


def save_models(folder, **changes) -> dict[str, str]:
    import tiny

    return {kind: tiny.save(tiny.random_bilm(input=kind, **changes), folder / kind) for kind in ("char", "word")}


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, str]:
    """Prefixes of tiny random models, one of characters and one of words. Tests must not change them."""
    return save_models(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def small_weights(tmp_path_factory) -> dict[str, str]:
    """The same as `checkpoints` with smaller weights in the LSTMs, for taggers and classifiers to learn with."""
    return save_models(tmp_path_factory.mktemp("small_weights"), scale=1.0)


@pytest.fixture(scope="session")
def model(checkpoints) -> str:
    return checkpoints["char"]


@pytest.fixture(scope="session")
def word_model(checkpoints) -> str:
    return checkpoints["word"]


@pytest.fixture
def server():
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_fsync(monkeypatch):
    """Do not wait for the disk, which takes most of the time of many small files."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def no_process_is_left():
    """A test that fails leaves no process behind, which would take the time of those that follow."""
    yield
    while runs.STARTED:
        process = runs.STARTED.pop()
        process.kill()
        process.wait()
