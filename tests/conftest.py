"""Fixtures of several test files, and the reasons for which a test may be skipped."""

import logging
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

os.environ["CUDA_VISIBLE_DEVICES"] = (
    ""  # the expected values are a CPU's; before Paddle is imported
)

import runs
import tiny
from project import PROJECT
from server import Server

import convert
from elmo_core.kernels import fused
from elmo_tasks import Classifier, ClassifierSettings

SKIPS = (  # a test that is skipped for any other reason fails
    "no Chromium|does not start",  # apt-get install chromium
    "no `ip`|no network namespaces",  # iproute2, and the rights of root
    "no C compiler",
    "no products in bfloat16",  # what some processors lack
    "NVRTC was not found",  # pip install nvidia-cuda-nvrtc-cu12
    "no FastAPI",  # pip install fastapi
    "no PyTorch",  # an interpreter that has it: PYTORCH_PYTHON
    "no /proc|on Linux",
    "this machine has a GPU",
    "paddle .* hides",  # its random generator
    "paddle .* has no TF32 to switch|paddle .* has no chunk_eval",  # some versions lack it
    "needs ../shared/data",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not re.search("|".join(SKIPS), reason):
            report.outcome, report.longrepr = (
                "failed",
                f"{reason}. This reason is not among SKIPS in tests/conftest.py.",
            )
    return report


# A shell's background job ignores Ctrl-C, and so would every script that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["fused", "Paddle's operators"])
def implementation(request, monkeypatch):
    """Runs a test on the compiled loops, and on Paddle's operators, which take over where there is
    no compiler.
    """
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
    return {
        kind: tiny.save(tiny.random_bilm(input=kind, **changes), folder / kind)
        for kind in ("char", "word")
    }


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, str]:
    """Prefixes of tiny random models, one of characters and one of words.

    Tests must not change them.
    """
    return save_models(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def small_weights(tmp_path_factory) -> dict[str, str]:
    """The same as `checkpoints` with smaller weights in the LSTMs, for taggers and classifiers to
    learn with.
    """
    return save_models(tmp_path_factory.mktemp("small_weights"), scale=1.0)


@pytest.fixture(scope="session")
def model(checkpoints) -> str:
    return checkpoints["char"]


@pytest.fixture(scope="session")
def word_model(checkpoints) -> str:
    return checkpoints["word"]


@pytest.fixture
def readers_folder(tmp_path, monkeypatch) -> Path:
    """What a reader has by then: checkpoints, files of bilm-tf's form, some text, two published
    models that were fetched.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    for name in ("home/models/allennlp-small", "home/models/manylangs-zhs", "checkpoints/10000"):
        folder = tiny.save(tiny.random_bilm(), Path(name))
    convert.main(["export", folder, "--output=published"])
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(Path("published") / name, name)
    Path("sentences.txt").write_text("The first sentence .\n" * 9, encoding="utf-8")
    words = ["<S>", "</S>", "The", "first", "sentence", ".", "Second", "one"]
    Path("vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    Path("raw").mkdir()
    Path("data").symlink_to(PROJECT / "data")
    for k in range(2):
        text = "".join(
            f"{n}只猫坐在河边。{n}只狗也来了,它们一起看河。\n"
            for n in range(500 * k, 500 * k + 500)
        )
        Path(f"raw/{k}.txt").write_text(text, encoding="utf-8")
    settings = ClassifierSettings(elmo=folder, hidden_dim=0, lang="en")
    parts = {
        "labels": ["bad", "good"],
        "multi_label": False,
        "threshold": None,
        "pairs": False,
        "words": None,
    }
    Classifier.create(settings, parts).save("model")
    return tmp_path


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
    """A test that fails leaves no process behind, which would slow down those that follow."""
    yield
    while runs.STARTED:
        process = runs.STARTED.pop()
        process.kill()
        process.wait()
