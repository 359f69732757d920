"""Fixtures of the tests of pretraining: small corpora, a run on them."""

import pytest
import runs

import run_pretrain


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return runs.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory):
    """Text that is read in ten steps."""
    return runs.write_corpus(tmp_path_factory.mktemp("small_corpus"), size=15)


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """The folder of a run that has come to its end, for tests that only read it."""
    folder = tmp_path_factory.mktemp("finished")
    runs.pretrain(runs.flags(corpus, folder, save_freq=10))
    return folder


@pytest.fixture
def any_precision(monkeypatch):
    """Accept bfloat16 on machines without it, too: they round the operands."""
    monkeypatch.setattr(run_pretrain, "chosen_precision", lambda name, device: name)
