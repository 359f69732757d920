"""The folder of a run: its checkpoints and its log, an earlier run in it, files of the user."""

import os
import re
import shutil
from unittest import mock

import pytest
import runs
from pretraining_runs import best_of, content, scores

import run_pretrain
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run
from elmo_tools.pretraining.meter import Meter
from elmo_tools.pretraining.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_a_log_that_cannot_be_written_does_not_end_the_run(
    corpus, finished, tmp_path, monkeypatch, messages
):
    append = RunFolder.append_log

    def append_to_nothing(folder, *line):
        (folder.path / "log.jsonl").unlink(missing_ok=True)
        (folder.path / "log.jsonl").symlink_to(folder.path)
        append(folder, *line)

    monkeypatch.setattr(RunFolder, "append_log", append_to_nothing)
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=12))
    runs.assert_same(tmp_path / "final", finished / "12", checkpoint.load_params)
    assert "log.jsonl could not be written" in messages()


def test_a_kill_before_the_names_are_written_loses_no_name(corpus, tmp_path, monkeypatch):
    scores(monkeypatch, [20.0, 30.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=4, max_steps=8, resume=True)
    monkeypatch.setattr(checkpoint, "write_names", mock.Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        runs.pretrain(argv)
    monkeypatch.undo()
    scores(monkeypatch, [30.0])
    runs.pretrain(argv)
    assert best_of(tmp_path) == (4, 20.0) and checkpoint.read_names(tmp_path) == {
        "best": 4,
        "final": 8,
    }


def test_a_run_resumed_in_another_folder_begins_its_log_and_its_best(
    corpus, finished, tmp_path, monkeypatch
):
    scores(monkeypatch, [1000.0])
    runs.pretrain(
        runs.flags(corpus, tmp_path / "run", max_steps=31, eval_freq=31, init_from_ckpt=finished)
    )
    assert best_of(tmp_path / "run") == (31, 1000.0)
    assert [line["step"] for line in runs.log_lines(tmp_path / "run", "training")] == [31]


def test_a_line_of_the_log_that_a_kill_has_cut_is_dropped(corpus, tmp_path):
    argv = runs.flags(corpus, tmp_path, max_steps=10, resume=True, dev_data_path=None)
    runs.pretrain(argv)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b'{"event": "trai' + bytes(60))  # and power was lost
    runs.pretrain([*argv, "--max_steps=15"])
    assert [line["step"] for line in runs.log_lines(tmp_path, "training")] == [5, 10, 15]


def test_the_last_checkpoints_are_kept(corpus, tmp_path, monkeypatch):
    scores(monkeypatch, [1.0, 2.0, 2.0])
    runs.pretrain(runs.flags(corpus, tmp_path, save_freq=4, keep=3))
    assert checkpoint.steps(tmp_path) == [12, 24, 28, 30]
    assert checkpoint.read_names(tmp_path) == {"best": 12, "final": 30}


def test_an_earlier_run_is_not_overwritten_by_accident(corpus, finished, tmp_path):
    argv = runs.flags(corpus, tmp_path, save_freq=10)
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    before = content(tmp_path)
    for changes in ([], [f"--finetune_from={tmp_path}"], [f"--init_from_ckpt={tmp_path / '10'}"]):
        with pytest.raises(UserError, match="save_dir"):
            run_pretrain.main([*argv, *changes])
        assert before == content(tmp_path)

    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path / '10'}", "--overwrite"], stop_at=11)
    assert checkpoint.steps(tmp_path) == [10, 11]
    runs.pretrain([*argv, "--overwrite"], stop_at=2)
    assert checkpoint.steps(tmp_path) == [2]
    assert [line["step"] for line in runs.log_lines(tmp_path, "start")] == [0]
    (tmp_path / "2" / "notes").touch()
    with pytest.raises(UserError, match="has 2, not of a run"):
        run_pretrain.main([*argv, "--overwrite"])
    assert checkpoint.steps(tmp_path) == [2]


@pytest.mark.parametrize("fault", ["memory", "corpus"])
def test_an_earlier_run_stays_until_there_is_something_in_its_place(
    corpus, finished, tmp_path, monkeypatch, fault
):
    folder = shutil.copytree(finished, tmp_path / "run")
    before = content(folder)
    argv = runs.flags(corpus, folder, overwrite=True, save_freq=6, max_steps=8)
    if fault == "corpus":
        argv.append("--train_data_path=nowhere/*")
    with (
        monkeypatch.context() as patched,
        pytest.raises(UserError if fault == "corpus" else MemoryError),
    ):
        patched.setattr(Meter, "add", mock.Mock(side_effect=MemoryError))
        run_pretrain.main(argv)
    assert content(folder) == before


def test_overwriting_replaces_a_run_by_the_first_checkpoint(corpus, finished, tmp_path, messages):
    """Also the checkpoints of the same steps, the log and the names."""
    folder = shutil.copytree(finished, tmp_path / "run")
    runs.pretrain(
        runs.flags(corpus, folder, overwrite=True, save_freq=10, max_steps=14, seed=3, log_freq=10)
    )
    assert "10, 12, 20" in messages()
    assert checkpoint.steps(folder) == [10, 12, 14]
    assert all(
        checkpoint.load_config(folder / step)["training"]["seed"] == 3
        for step in ("10", "12", "14")
    )
    assert checkpoint.read_names(folder)["final"] == 14
    assert [line["step"] for line in runs.log_lines(folder, "training")] == [10, 14]
    assert not list(folder.glob(".*.tmp"))


def test_a_run_stopped_before_its_first_step_replaces_nothing(
    corpus, finished, tmp_path, monkeypatch, messages
):
    folder = shutil.copytree(finished, tmp_path / "run")
    before = content(folder)
    monkeypatch.setattr(run.Interruption, "is_requested", lambda _: True)
    with pytest.raises(SystemExit):
        run_pretrain.main(runs.flags(corpus, folder, overwrite=True))
    assert content(folder) == before and "nothing is saved" in messages()


def test_a_checkpoint_that_is_a_link_or_has_no_training(corpus, finished, tmp_path):
    argv = runs.flags(corpus, tmp_path / "run", keep=1, save_freq=1)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "30").symlink_to(finished / "30")
    runs.pretrain([*argv, "--resume", "--max_steps=33"])
    assert checkpoint.steps(tmp_path / "run") == [30, 33] and checkpoint.exists(finished / "30")
    with pytest.raises(UserError, match="has 30, not of a run"):
        run_pretrain.main([*argv, "--overwrite"])
    weights = shutil.copytree(finished / "30", tmp_path / "weights")
    (weights / checkpoint.PROGRESS).unlink()
    with pytest.raises(UserError, match="no training to resume"):
        run_pretrain.main([*runs.flags(corpus, tmp_path / "other"), f"--init_from_ckpt={weights}"])


def test_files_of_the_user_survive(corpus, tmp_path):
    mine = {
        "README.md",
        "vocab.txt",
        "words.txt",
        "config.json",
        "model/x",
        ".x.tmp",
        "4/notes",
        ".lock",
        "1.pdparams",
    }
    argv = runs.flags(corpus, tmp_path, save_freq=2, keep=1, max_steps=6, dev_data_path=None)
    runs.pretrain(argv, stop_at=4)
    before = {tmp_path / name: b"mine" for name in mine}
    for path, text in before.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    special = [tmp_path / ".git" / "refs" / "heads", tmp_path / "4" / "pipe", tmp_path / "link"]
    special[0].mkdir(parents=True)
    os.mkfifo(special[1])
    special[2].symlink_to("nowhere")
    runs.pretrain([*argv, "--resume"])
    runs.pretrain([*argv, "--resume", "--max_steps=7"])
    assert before.items() <= content(tmp_path).items()
    assert all(map(os.path.lexists, special))
    special[1] = special[1].rename(tmp_path / "pipe")
    (tmp_path / "4" / "notes").rename(tmp_path / "notes")
    (tmp_path / "4").rmdir()
    before[tmp_path / "notes"] = before.pop(tmp_path / "4" / "notes")
    runs.pretrain([*argv, "--overwrite", "--max_steps=2"])
    assert before.items() <= content(tmp_path).items()
    assert all(map(os.path.lexists, special))


@pytest.mark.parametrize("name", ["log.jsonl", "names.json", "model.safetensors"])
def test_a_folder_with_other_files_in_our_places_is_not_used(corpus, tmp_path, name):
    (tmp_path / name).write_text('{"mine": "yes"}')
    for flag in ("--overwrite", "--resume"):
        with pytest.raises(UserError, match=re.escape(str(tmp_path))):
            run_pretrain.main([*runs.flags(corpus, tmp_path), flag])
    lock = (
        {} if name == "model.safetensors" else {tmp_path / ".lock": b""}
    )  # nothing is written beside a model
    assert content(tmp_path) == {tmp_path / name: b'{"mine": "yes"}', **lock}


def test_what_killed_runs_have_left_is_removed(corpus, tmp_path):
    left = [f".10.{'a' * 16}.tmp/config.json", f".names.json.{'b' * 16}.tmp"]
    others = [f".imported.{'c' * 16}.tmp/model.safetensors", ".10.tmp"]
    for name in left + others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=1))
    assert [name for name in left + others if (tmp_path / name).exists()] == others


def test_a_checkpoint_that_was_being_replaced_when_a_kill_came_is_restored(
    corpus, finished, tmp_path
):
    """The one that was to replace it, or one that was being deleted, is not."""
    shutil.copytree(finished / "30", tmp_path / f".30.{'b' * 16}.old")
    shutil.copytree(finished / "30", tmp_path / f".30.{'a' * 16}.tmp")
    shutil.copytree(finished / "30", tmp_path / f".20.{'a' * 16}.tmp")
    (tmp_path / f".30.{'a' * 16}.tmp/config.json").write_text("{}", encoding="utf-8")
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=31, resume=True))
    assert checkpoint.steps(tmp_path) == [30, 31]
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".tmp", ".old")]


@pytest.mark.parametrize("name", ["log.jsonl", "names.json"])
def test_a_link_to_itself_is_an_error(corpus, tmp_path, name):
    (tmp_path / name).symlink_to(name)
    with pytest.raises(UserError, match=name):
        run_pretrain.main(runs.flags(corpus, tmp_path))


def test_a_lock_that_is_a_pipe_is_an_error(corpus, tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(UserError, match=r"\.lock"):
        run_pretrain.main(runs.flags(corpus, tmp_path))
