"""A task of one's own: that of docs/development.md, and one that is not complete."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from project import python_blocks

from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_tasks import Tagger
from elmo_tasks.task import Task

TEXTS = ["The room was quiet.", "The breakfast was cold.", "It was fine."] * 6
STARS = [5, 1, 3.5] * 6


@pytest.fixture(autouse=True)
def fast(no_fsync):
    pass


@pytest.fixture(scope="module")
def page() -> list[str]:
    """The Python of the page: the task, and its use."""
    return python_blocks("docs/development.md")


@pytest.fixture(scope="module")
def regressor(page, tmp_path_factory) -> ModuleType:
    file = tmp_path_factory.mktemp("own") / "regressor.py"
    file.write_text(page[0].lstrip("\n"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("regressor", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["regressor"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["regressor"]


def train(regressor: ModuleType, data=TEXTS, labels=STARS, **options) -> Task:
    settings = regressor.RegressorSettings(epochs=4, lr=0.05, patience=0)
    dev = TEXTS[:3], STARS[:3]
    return regressor.Regressor.train(
        data, labels, dev=dev, settings=settings, device="cpu", **options
    )


def weights(task: Task) -> dict[str, np.ndarray]:
    return {name: weight.numpy() for name, weight in task.trained_weights().items()}


def test_what_the_page_does_with_it(page, regressor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text("The room was quiet.\t5\nIt was fine.\t3.5\n", encoding="utf-8")
    names = {}
    exec(page[1], names)
    assert names["regressor"].predict("The room was quiet.") == pytest.approx(5, abs=0.5)
    assert names["regressor"].evaluate("test.tsv")["mse"] < 0.5


def test_it_is_trained_saved_and_loaded(regressor, tmp_path):
    trained = train(regressor, test=(TEXTS, STARS), save_dir=tmp_path / "m")
    loaded = regressor.Regressor(tmp_path / "m")
    numbers = trained.predict(TEXTS[:3])
    assert loaded.predict(TEXTS[:3]) == list(loaded.iter_predict(iter(TEXTS[:3]))) == numbers
    assert loaded.scores == trained.scores and loaded.training == trained.training
    assert "from regressor import Regressor" in (tmp_path / "m/README.md").read_text("utf-8")
    with pytest.raises(TypeError, match="text 1: found None"):
        loaded.predict(["a", None])


def test_a_table_trains_the_same(regressor):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, STARS, strict=True)]
    of_table = weights(train(regressor, rows, None))
    for name, weight in weights(train(regressor)).items():
        np.testing.assert_array_equal(weight, of_table[name], err_msg=name)


def test_it_is_resumed_bit_for_bit(regressor, tmp_path):
    if not paddle_compat.random_states(paddle):
        version = paddle.__version__
        pytest.skip(f"paddle {version} hides the state of its generator, which dropout draws from")

    def interrupt(scores: dict) -> None:
        if scores["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(regressor, save_dir=tmp_path / "m", progress=interrupt)
    resumed = weights(train(regressor, save_dir=tmp_path / "m", resume=True))
    for name, weight in weights(train(regressor)).items():
        np.testing.assert_array_equal(weight, resumed[name], err_msg=name)


@pytest.mark.parametrize("hook", sorted(Task.__abstractmethods__))
def test_what_a_task_lacks_is_named_before_its_data_are_read(hook):
    """Without data that could be read."""
    lacking = type("Lacking", (Tagger,), {hook: getattr(Task, hook)})
    with pytest.raises(TypeError, match=f"Lacking.*{hook}"):
        lacking.train("missing.txt")


def test_a_task_without_a_name_is_named():
    with pytest.raises(TypeError, match=r"Unnamed.*name, settings_type"):
        type("Unnamed", (Task,), {}).train("missing.txt")
