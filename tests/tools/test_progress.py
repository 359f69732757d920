"""The progress of a run, as a checkpoint has it.

What must be the same on resuming; damage; crafted content.
"""

import json
import re
import shutil

import numpy as np
import pytest
import runs

import run_pretrain
from elmo_core.files import disk, tensors
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint

pytestmark = pytest.mark.usefixtures("no_fsync")


# changes after which the epoch starts again
TEXT = {"seed", "train_data_path", "batch_size", "accumulate"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"batch_size": 4}, r"batch_size \* accumulate was 5, is 4"),
        ({"accumulate": 2}, r"batch_size \* accumulate was 5, is 10"),
        ({"precision": "bfloat16", "tf32": "off"}, "precision was float32, is bfloat16"),
        ({"seed": 1}, "seed was 2020, is 1"),
        ({"optimizer": "adam"}, "optimizer was adagrad, is adam"),
        ({"n_negative_samples": 0}, "n_negative_samples was 11, is 0"),
        ({"train_data_path": "train/[01].txt"}, "corpus was 3 files .*, is 2 files"),
        (
            {"train_data_path": "edited/*"},
            "corpus was 3 files of .* bytes .*, is 3 files of .* bytes",
        ),
        ({"dev_data_path": None}, "dev_data was 1 file .*, is None"),
    ],
)
@pytest.mark.usefixtures("any_precision")
def test_a_change_is_named_and_resumes_only_if_allowed(
    corpus, finished, tmp_path, messages, changes, named
):
    if "train_data_path" in changes:
        edited = shutil.copytree(corpus / "train", tmp_path / "edited") / "1.txt"
        edited.write_bytes(edited.read_bytes().replace(b"a", b"e"))  # as many bytes
        folder = tmp_path if "edited" in changes["train_data_path"] else corpus
        changes = {"train_data_path": folder / changes["train_data_path"]}
    argv = runs.flags(corpus, tmp_path, init_from_ckpt=finished / "20", max_steps=21, **changes)
    with pytest.raises(UserError, match=f"{finished / '20'} .*{named}"):
        run_pretrain.main(argv)
    runs.pretrain([*argv, "--allow_changes"])
    assert checkpoint.steps(tmp_path)[-1] == 21 and re.search(named, messages())
    assert ("beginning of epoch 0" in messages()) == bool(changes.keys() & TEXT)


def test_a_change_that_keeps_the_rows_keeps_their_states(corpus, finished, tmp_path):
    """With a rate of almost 0 the next losses show what the states were."""
    losses = {}
    for name, changes in {
        "same": {},
        "rate": {"lr": 1e-12},
        "rows": {"lr": 1e-12, "batch_size": 6},
    }.items():
        argv = runs.flags(
            corpus,
            tmp_path / name,
            dropout=0,
            max_steps=21,
            log_freq=1,
            allow_changes=True,
            **changes,
        )
        runs.pretrain([*argv, f"--init_from_ckpt={finished / '20'}"])
        losses[name] = runs.log_lines(tmp_path / name, "training")[-1]["loss"]
    assert losses["rate"] == losses["same"] != losses["rows"]


def test_another_batch_size_starts_the_epoch_again(corpus, tmp_path, messages):
    """Two epochs end where they end. Adam's rate follows the text, too."""
    changes = {
        "max_steps": None,
        "epochs": 2,
        "optimizer": "adam",
        "warmup_steps": 6,
        "log_freq": 1,
        "dev_data_path": None,
    }
    argv = runs.flags(corpus, tmp_path, **changes)
    runs.pretrain(argv, stop_at=30)
    runs.pretrain([*argv, "--batch_size=10", "--resume", "--allow_changes"])
    assert "beginning of epoch 1" in messages()
    lines = runs.log_lines(tmp_path, "training")
    start = runs.log_lines(tmp_path, "start")[0]
    step = 70 / (start["tokens"] + start["sentences"])  # in epochs
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[29]["epoch"] == pytest.approx(15 * step)
    assert lines[30]["epoch"] == pytest.approx(1 + step)
    assert 2 <= lines[-1]["epoch"] < 2 + step
    rates = np.array([line["learning_rate"] for line in lines]) / 0.001
    np.testing.assert_allclose(rates[:6], np.arange(1, 7) / 6)
    assert (np.diff(rates[5:30]) < 0).all() and (np.diff(rates[30:]) < 0).all() and rates[-1] < 0.1


def test_a_damaged_or_partial_checkpoint_is_an_error(corpus, finished, tmp_path):
    damaged, partial = (
        shutil.copytree(finished / "20", tmp_path / name) for name in ("damaged", "partial")
    )
    (damaged / "progress.json").write_text(
        (damaged / "progress.json").read_text().replace("1", "2")
    )
    (partial / "progress.json").unlink()
    for folder, named in ((damaged, r"progress\.json"), (partial, "partial has only weights")):
        with pytest.raises(UserError, match=named):
            run_pretrain.main(runs.flags(corpus, tmp_path / "run", init_from_ckpt=folder))


def set_rows(values: dict, arrays: dict) -> None:
    arrays["/ranks/0/position/rows"][0, 1] = 10**6


def cut_state(values: dict, arrays: dict) -> None:
    arrays["/ranks/0/state/0/0/0"] = arrays["/ranks/0/state/0/0/0"][:1]


def cut_moment(values: dict, arrays: dict) -> None:
    arrays["softmax.weight_moment_0"] = arrays["softmax.weight_moment_0"][:1]


@pytest.mark.parametrize(
    "change",
    [
        lambda values, arrays: values.update(step="20"),
        lambda values, arrays: values.update(tokens=10**400),
        lambda values, arrays: values.pop("best"),
        lambda values, arrays: values.update(ranks=[]),
        lambda values, arrays: values["ranks"][0]["position"].update(shard=-1),
        lambda values, arrays: values["ranks"][0]["position"].update(shard=99),
        lambda values, arrays: values["ranks"][0].update(losses={"array": "nowhere"}),
        set_rows,
        cut_state,
        cut_moment,
    ],
)
def test_crafted_content_of_a_checkpoint_is_an_error(corpus, finished, tmp_path, change):
    """With the right digests: unnoticed, the arrays would be read and written beyond their ends."""
    folder = shutil.copytree(finished / "20", tmp_path / "20")
    values = json.loads((folder / checkpoint.PROGRESS).read_text(encoding="utf-8"))
    arrays, _ = tensors.read_tensors(folder / checkpoint.OPTIMIZER)
    change(values, arrays)
    disk.write_json(folder / checkpoint.PROGRESS, values)
    digests = {checkpoint.PROGRESS: disk.sha256(folder / checkpoint.PROGRESS)}
    tensors.write_tensors(folder / checkpoint.OPTIMIZER, arrays, digests)
    with pytest.raises(UserError, match=re.escape(str(folder))):
        run_pretrain.main(runs.flags(corpus, tmp_path / "run", init_from_ckpt=folder))


def test_settings_of_a_training_that_are_no_object_are_an_error(corpus, finished, tmp_path):
    folder = shutil.copytree(finished / "20", tmp_path / "20")
    checkpoint.save_config(folder, {**checkpoint.load_config(folder), "training": ["seed"]})
    with pytest.raises(UserError, match=r"config\.json"):
        run_pretrain.main(runs.flags(corpus, tmp_path / "run", init_from_ckpt=folder))
