"""Fixtures of the tests of pretraining, of run_polysemy.py and of export_model.py."""

import pytest
import runs
from exporting import Exported

import export_model
import run_polysemy


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
    monkeypatch.setattr("elmo_core.kernels.matmul.chosen_precision", lambda name, device: name)


@pytest.fixture
def printed(capsys):
    """Run run_polysemy.py and return its output lines."""

    def run(model, corpus, *argv) -> list[str]:
        capsys.readouterr()
        run_polysemy.main(
            [f"--init_from_ckpt={model}", f"--corpus={corpus}", "--device=cpu", *map(str, argv)]
        )
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def export(tmp_path, no_fsync):
    """Export a model and load what is exported."""

    def run(model, runtime: str, *more: str) -> Exported:
        onnx = ["--onnx"] if runtime == "run_onnx" else []
        export_model.main([str(model), f"--output={tmp_path / 'exported'}", *onnx, *more])
        return Exported(tmp_path / "exported", runtime)

    return run
