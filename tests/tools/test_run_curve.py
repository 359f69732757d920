"""The curve of a pretraining run: it is that of the whole run, in the language of the text."""

import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import runs

from elmo_core.messages import UserError
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.run_curve import draw_run

pytestmark = pytest.mark.usefixtures("no_fsync")


def texts(folder: Path) -> list[str]:
    root = ElementTree.parse(folder / "curve.svg").getroot()
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def of_log(folder: Path) -> str:
    """The picture of what log.jsonl has."""
    text = (folder / "log.jsonl").read_text(encoding="utf-8")
    return draw_run([json.loads(line) for line in text.splitlines()], is_chinese=False)


def test_the_curve_of_a_run_is_that_of_its_whole_log(finished):
    drawn = (finished / "curve.svg").read_text(encoding="utf-8")
    assert drawn == of_log(finished)
    last = runs.log_lines(finished, "evaluation")[-1]
    loss = runs.log_lines(finished, "training")[-1]["loss"]
    shown = texts(finished)
    assert f"forward {last['forward_perplexity']:.4g}" in shown
    assert f"backward {last['backward_perplexity']:.4g}" in shown
    assert {f"{loss:.4g}", "training loss", "learning rate", "30", "epoch"} <= set(shown)


def test_a_resumed_run_has_the_curve_of_an_uninterrupted_one(corpus, finished, tmp_path):
    argv = runs.flags(corpus, tmp_path / "run", save_freq=10, resume=True)
    runs.pretrain(argv, stop_at=17)
    assert texts(tmp_path / "run").count("15") == 1
    shutil.rmtree(tmp_path / "run" / "17")  # a rewind to step 12, of the evaluation
    runs.pretrain(argv)
    steps = [line["step"] for line in runs.log_lines(tmp_path / "run", "training")]
    assert steps == sorted(set(steps))
    circles = (finished / "curve.svg").read_text(encoding="utf-8").count("<circle")
    assert (tmp_path / "run" / "curve.svg").read_text(encoding="utf-8").count("<circle") == circles


def test_a_repeated_step_is_drawn_once_with_its_last_value():
    lines = [{"event": "training", "step": 5, "loss": loss, "epoch": 0.5} for loss in (3.0, 2.0)]
    picture = draw_run(lines, is_chinese=False)
    assert picture.count("<circle") == 1 and ">2</text>" in picture


def test_epochs_are_marked_where_they_end():
    lines = [
        {"event": "training", "step": step, "loss": 1.0, "epoch": step / 40}
        for step in (50, 100, 150)
    ]
    picture = ElementTree.fromstring(draw_run(lines, is_chinese=False))
    rules = picture.iter("{http://www.w3.org/2000/svg}line")
    marks = [float(rule.get("x1")) for rule in rules if rule.get("class") == "mark"]
    assert marks == pytest.approx([70 + 550 * step / 150 for step in (40, 80, 120)], abs=0.1)


def test_a_run_without_held_out_text_shows_its_loss(corpus, tmp_path):
    runs.pretrain(runs.flags(corpus, tmp_path, dev_data_path=None, max_steps=6, save_freq=5))
    assert "training loss" in texts(tmp_path) and "held-out perplexity" not in texts(tmp_path)


def test_an_evaluation_that_is_not_the_best_is_drawn_too(corpus, tmp_path, monkeypatch):
    from pretraining_runs import scores

    scores(monkeypatch, [20.0, 30.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=2, max_steps=20, save_freq=20)
    monkeypatch.setattr("elmo_tools.pretraining.run.LOG_LINES", 1)
    with pytest.raises(StopIteration):  # at the third
        runs.pretrain(argv)
    assert "forward 30" in texts(tmp_path)


def test_chinese_text_has_chinese_labels(tmp_path):
    text = "我 喜欢 学习 新 的 语言 。\n她 在 图书馆 看 书 。\n" * 30
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = ["<S>", "</S>", "<UNK>", *dict.fromkeys(text.split())]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    argv = runs.flags(tmp_path, tmp_path / "run", train_data_path=tmp_path / "train.txt")
    runs.pretrain([*argv, "--max_steps=4", "--eval_freq=4"])
    shown = texts(tmp_path / "run")
    assert {"训练损失", "验证集困惑度", "学习率", "步数"} <= set(shown)
    assert any(text.startswith("前向 ") for text in shown)


def test_a_curve_that_cannot_be_drawn_changes_nothing_else(
    corpus, finished, tmp_path, monkeypatch, messages
):
    def fail(*_):
        raise UserError("the disk is full.")

    monkeypatch.setattr("elmo_tools.pretraining.run_folder.draw_run", fail)
    runs.pretrain(runs.flags(corpus, tmp_path))
    runs.assert_same(tmp_path / "final", finished / "30", checkpoint.load_params)
    assert not (tmp_path / "curve.svg").exists()
    assert messages().count("Training continues without its curve: the disk is full.") == 1


def test_the_curve_of_an_earlier_run_stays_until_this_one_has_saved(corpus, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / f".curve.svg.{'0' * 16}.tmp").touch()  # of a kill
    before = (folder / "curve.svg").read_bytes()
    argv = runs.flags(corpus, folder, overwrite=True, dev_data_path=None, max_steps=8)
    with pytest.raises(UserError, match="nowhere"):
        runs.pretrain([*argv, "--train_data_path=nowhere"])
    assert (folder / "curve.svg").read_bytes() == before
    runs.pretrain(argv)
    assert (folder / "curve.svg").read_text(encoding="utf-8") == of_log(folder)
    assert not list(folder.glob(".curve*"))


def test_an_evaluation_before_the_first_checkpoint_leaves_the_curve_of_the_earlier_run(
    corpus, finished, tmp_path, monkeypatch
):
    from pretraining_runs import scores

    folder = shutil.copytree(finished, tmp_path / "run")
    before = (folder / "curve.svg").read_bytes()
    scores(monkeypatch, [1e9])  # not the best: it is drawn, but not saved
    source = folder / "12"
    argv = runs.flags(corpus, folder, overwrite=True, init_from_ckpt=source, eval_freq=7)
    with pytest.raises(StopIteration):  # at the second
        runs.pretrain(argv)
    assert (folder / "30").exists() and (folder / "curve.svg").read_bytes() == before
