"""The curve of a task's training: its epochs and phases, the best, the language, resuming."""

import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_core.files import disk
from elmo_tasks import Classifier, ClassifierSettings, Tagger, TaggerSettings
from elmo_tasks.score import PlainScore
from elmo_tasks.training_curve import TrainingCurve, draw_training

SENTENCES = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 3
LABELS = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 3
DATA = (SENTENCES, LABELS)
# Without dropout: Paddle 2.6 cannot continue its random numbers.
FIXED = {"elmo": None, "dropout": 0.0, "patience": 0}
SETTINGS = TaggerSettings(epochs=3, hidden_dim=3, n_layers=1, word_dim=3, scheme="plain", **FIXED)


@pytest.fixture(autouse=True)
def fast(no_fsync):
    pass


def train(folder: Path | None, sentences=SENTENCES, settings=SETTINGS, **options) -> Tagger:
    return Tagger.train(
        sentences,
        LABELS,
        dev=(sentences, LABELS),
        settings=settings,
        save_dir=folder,
        device="cpu",
        **options,
    )


def tune(folder: Path, **options) -> Classifier:
    """Train in two phases."""
    vectors = folder.parent / "vectors.txt"
    vectors.write_text("2 4\ngood 1 2 3 4\nbad 4 3 1 2\n", encoding="utf-8")
    return Classifier.train(
        ["good text", "bad text"] * 6,
        ["a", "b"] * 6,
        settings=ClassifierSettings(
            word_vectors=vectors,
            word_vectors_trainable=True,
            head="mean",
            epochs=2,
            tune_epochs=3,
            **FIXED,
        ),
        save_dir=folder,
        device="cpu",
        **options,
    )


def read(folder: Path) -> str:
    return (folder / "curve.svg").read_text(encoding="utf-8")


def elements(picture: str, name: str) -> Iterator[ElementTree.Element]:
    return ElementTree.fromstring(picture).iter(f"{{http://www.w3.org/2000/svg}}{name}")


def texts(picture: str) -> list[str]:
    return [element.text for element in elements(picture, "text")]


def interrupt_at(epoch: int, phase: int = 1):
    def progress(scores) -> None:
        if (scores["phase"], scores["epoch"]) == (phase, epoch):
            raise KeyboardInterrupt

    return progress


def epoch(loss: float, is_best: bool = False, phase: int = 1) -> dict:
    return {"phase": phase, "is_best": is_best, "values": {"training loss": loss}}


def test_each_epoch_is_drawn_with_its_loss_score_and_learning_rate(tmp_path):
    seen = []

    def progress(scores) -> None:
        picture = read(tmp_path)
        seen.append(sum(1 for _ in elements(picture, "circle")))
        assert f"{scores['loss']:.4g}" in texts(picture)
        assert f"{scores['dev']['accuracy']:.4g}" in texts(picture)

    train(tmp_path, progress=progress)
    assert seen == [3, 6, 9]  # a point of each value
    assert {"training loss", "dev accuracy", "learning rate"} <= set(texts(read(tmp_path)))


def test_the_names_of_the_scores_are_theirs(tmp_path):
    train(tmp_path / "tagger", settings=replace(SETTINGS, scheme="auto", epochs=1))
    assert "dev F1" in texts(read(tmp_path / "tagger"))
    tune(tmp_path / "classifier")
    assert {"dev accuracy", "dev AUC"} <= set(texts(read(tmp_path / "classifier")))
    curve = TrainingCurve(tmp_path, is_chinese=False)
    curve.add(1, loss=1.0, learning_rate=0.1, score=PlainScore({}, value=3), is_best=True)
    curve.draw()
    assert "dev score" in texts(read(tmp_path))


def test_the_last_epoch_that_was_the_best_is_marked():
    epochs = [epoch(4.0, is_best=True), epoch(3.0), epoch(2.0, is_best=True), epoch(2.5)]
    picture = draw_training(epochs, is_chinese=False)
    marks = [rule for rule in elements(picture, "line") if rule.get("class") == "mark"]
    points = [point.get("cx") for point in elements(picture, "circle")]
    assert [mark.get("x1") for mark in marks] == [points[2]] and "best epoch" in texts(picture)


def test_two_phases_are_two_lines_on_one_axis(tmp_path):
    tune(tmp_path / "model")
    shown = texts(read(tmp_path / "model"))
    assert shown.count("5") == 1  # epochs, on the axis
    assert sum(text.startswith("phase 2 ") for text in shown) == 4


def test_three_phases_are_one_line():
    picture = draw_training([epoch(1.0, phase=k) for k in (1, 2, 3)], is_chinese=False)
    assert sum(1 for _ in elements(picture, "circle")) == 3
    assert not any("phase" in text for text in texts(picture))


def test_chinese_text_has_chinese_labels(tmp_path):
    chinese = [["我", "在", "北京", "学习", "。"], ["北京", "很", "大", "。"]] * 3
    train(tmp_path, sentences=chinese)
    expected = {"训练损失", "验证集准确率", "学习率", "轮", "最好的一轮"}
    assert expected <= set(texts(read(tmp_path)))
    picture = draw_training([epoch(1.0), epoch(1.0, phase=2)], is_chinese=True)
    assert "阶段 2 1" in texts(picture)


@pytest.mark.parametrize(("phase", "number"), [(1, 1), (1, 2), (2, 2)])
def test_a_resumed_training_has_the_curve_of_an_uninterrupted_one(tmp_path, phase, number):
    tune(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "model", progress=interrupt_at(number, phase))
    (tmp_path / "model" / "curve.svg").unlink()
    tune(tmp_path / "model", resume=True)
    assert read(tmp_path / "model") == read(tmp_path / "whole")


def test_a_kill_before_the_last_epoch_is_drawn_loses_nothing(tmp_path):
    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "model", progress=interrupt_at(3))
    (tmp_path / "model" / "curve.svg").unlink()
    (tmp_path / "model" / f".curve.svg.{'0' * 16}.tmp").touch()
    train(tmp_path / "model", resume=True)
    assert read(tmp_path / "model") == read(tmp_path / "whole")
    assert not list((tmp_path / "model").glob(".curve*"))


def test_a_curve_alone_does_not_make_a_folder_that_of_others(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, progress=interrupt_at(1))
    (tmp_path / "training-1.safetensors").unlink()
    train(tmp_path)
    assert Tagger(tmp_path).training["epoch"]


def test_a_saved_model_does_not_keep_the_curve_of_the_one_that_it_replaces(tmp_path):
    train(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    tagger = Tagger(tmp_path / "a")
    before = read(tmp_path / "a")
    tagger.save(tmp_path / "a", overwrite=True)
    assert read(tmp_path / "a") == before  # its own
    tagger.save(tmp_path / "b", overwrite=True)
    assert not (tmp_path / "b" / "curve.svg").exists()
    assert Tagger(tmp_path / "b").predict(SENTENCES) == tagger.predict(SENTENCES)
    train(tmp_path / "a", settings=replace(SETTINGS, epochs=0), overwrite=True)
    assert not (tmp_path / "a" / "curve.svg").exists()


def test_a_curve_of_the_user_stays(tmp_path, messages):
    train(tmp_path)
    (tmp_path / "curve.svg").write_text("<svg>mine</svg>", encoding="utf-8")
    tagger = train(tmp_path, overwrite=True)
    assert messages().count("Training continues without its curve") == 1
    tagger.folder = None
    tagger.save(tmp_path, overwrite=True)
    assert read(tmp_path) == "<svg>mine</svg>"


def test_a_full_disk_costs_only_the_curve(tmp_path, monkeypatch, messages):
    write = disk.atomic_write

    def fail(path, *arguments, **options):
        if path.name == "curve.svg":
            raise OSError(28, "No space left on device")
        return write(path, *arguments, **options)

    monkeypatch.setattr(disk, "atomic_write", fail)
    train(tmp_path)
    assert Tagger(tmp_path).training["epoch"] and not (tmp_path / "curve.svg").exists()
    assert messages().count("Training continues without its curve") == 1
