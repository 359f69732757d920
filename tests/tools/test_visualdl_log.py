"""What VisualDL gets, by a stand-in for the package, which is not a requirement."""

import sys
from types import SimpleNamespace

import pytest
import runs

from elmo_core.messages import UserError
from elmo_tools.pretraining.settings import PretrainingSettings

pytestmark = pytest.mark.usefixtures("no_fsync")


class Writer:
    """Records what a LogWriter is given. is_full: its disk is full."""

    def __init__(self, logdir: str, is_full: bool = False):
        self.logdir = logdir
        self.is_full = is_full
        self.numbers: list[tuple[str, int, float]] = []
        self.is_closed = False

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        if self.is_full:
            raise OSError("no space left")
        self.numbers.append((tag, step, value))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def writers(monkeypatch) -> list[Writer]:
    """The writers that are opened."""
    opened: list[Writer] = []

    def open_writer(logdir: str) -> Writer:
        opened.append(Writer(logdir, is_full="full" in logdir))
        return opened[-1]

    monkeypatch.setitem(sys.modules, "visualdl", SimpleNamespace(LogWriter=open_writer))
    return opened


def test_visualdl_gets_the_numbers_of_the_whole_run(corpus, tmp_path, writers):
    argv = runs.flags(corpus, tmp_path / "run", visualdl=tmp_path / "numbers", max_steps=10)
    argv += ["--eval_freq=5", "--resume"]
    runs.pretrain(argv, stop_at=6)
    runs.pretrain(argv)
    assert [writer.logdir for writer in writers] == [str(tmp_path / "numbers")] * 2
    assert all(writer.is_closed for writer in writers)
    written = writers[1].numbers
    for event, name in [("training", "loss"), ("evaluation", "forward_perplexity")]:
        lines = runs.log_lines(tmp_path / "run", event)
        expected = [(f"{event}/{name}", line["step"], line[name]) for line in lines]
        assert [one for one in written if one[0] == f"{event}/{name}"] == expected
    assert {tag.partition("/")[0] for tag, _, _ in written} == {"training", "evaluation"}
    assert not [tag for tag, _, _ in written if tag.endswith("/step")]


def test_a_full_disk_is_a_warning(corpus, tmp_path, writers, messages):
    runs.pretrain(runs.flags(corpus, tmp_path / "run", visualdl="full", max_steps=10))
    assert messages().count("full could not be written: no space left") == 1


def test_without_the_package_the_settings_say_how_to_get_it(monkeypatch):
    missing = ModuleNotFoundError("No module named 'visualdl'", name="visualdl")

    def import_module(name):
        raise missing

    monkeypatch.setattr("elmo_core.checks.importlib.import_module", import_module)
    with pytest.raises(UserError, match="pip install visualdl"):
        PretrainingSettings(visualdl="numbers")
