"""Checkpoints: complete folders, atomic whatever happens to process, disk and file, found by step
and name.
"""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import one_value
import pytest
import tiny
from one_value import CONFIG, save, saved_value, weights
from project import PROJECT

from elmo import BiLM, ELMoConfig, ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.network.start_state import NAMES, StartState
from elmo_core.text.speller import UnknownWords
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint

PROGRESS = {
    "step": 5,
    "best": math.inf,
    "ranks": [{"rows": np.arange(6).reshape(2, 3), "state": [[np.ones(2), None]]}],
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_is_complete_and_comes_back_as_it_was(tmp_path):
    unknown_words = UnknownWords({"长城": 3, "zyx": 1}, total=5)
    vocabulary = Vocabulary(tiny.WORDS, unknown_words=unknown_words)
    training = {"lr": 0.2}, {"moment": np.ones((2, 3), np.float32)}, PROGRESS
    checkpoint.save_model(tmp_path / "5", CONFIG, weights(1), vocabulary, training, notice="MIT")
    assert names(tmp_path / "5") == sorted(set(checkpoint.FILES) - {checkpoint.CHARACTERS})
    moved = (tmp_path / "5").rename(tmp_path / "elsewhere")
    np.testing.assert_equal(checkpoint.load_params(moved), weights(1))
    optimizer, progress = checkpoint.load_training(moved)
    np.testing.assert_equal(optimizer["moment"], training[1]["moment"])
    np.testing.assert_equal(progress, PROGRESS)
    assert checkpoint.load_config(moved) == {
        "model": json.loads(json.dumps(CONFIG.to_dict())),
        "training": {"lr": 0.2},
        "unknown_words": checkpoint.unknown_words_identity(unknown_words),
    }
    with pytest.raises(OSError):
        save(moved, 2)
    assert Vocabulary.from_file(moved / "vocab.txt").fingerprint == vocabulary.fingerprint
    identity = checkpoint.load_config(moved)["unknown_words"]
    assert checkpoint.load_unknown_words(moved, identity) == unknown_words


def test_changed_unknown_words_are_noticed(tmp_path):
    unknown_words = UnknownWords({"zyx": 2}, total=5)
    checkpoint.save_unknown_words(tmp_path, unknown_words)
    identity = checkpoint.unknown_words_identity(unknown_words)
    (tmp_path / checkpoint.UNKNOWN_WORDS).write_text("<UNK>\t5\nzyx\t3\n")
    with pytest.raises(UserError, match=r"unknown_words\.tsv .*Copy the folder again"):
        checkpoint.load_unknown_words(tmp_path, identity)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, value):
    with pytest.raises(UserError, match=r"final .*float32: softmax\.bias"):
        checkpoint.save_model(
            tmp_path / "final", CONFIG, weights(1) | {"softmax.bias": np.float32([1, value])}
        )
    assert not names(tmp_path)


@pytest.mark.parametrize("name", [checkpoint.OPTIMIZER, checkpoint.PROGRESS, checkpoint.WEIGHTS])
def test_damage_to_a_file_is_noticed_and_the_file_is_named(tmp_path, name):
    save(tmp_path / "1", 1)
    path = tmp_path / "1" / name
    content = path.read_bytes()
    for position in (9, len(content) // 2, -2):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=name):
            saved_value(tmp_path / "1")
    path.write_bytes(content[:-1])
    with pytest.raises(UserError, match=name):
        saved_value(tmp_path / "1")


def test_files_of_different_checkpoints_are_not_mixed(tmp_path):
    for value in (1, 2):
        save(tmp_path / str(value), value)
    shutil.copy(tmp_path / "2" / checkpoint.PROGRESS, tmp_path / "1")
    with pytest.raises(UserError, match=checkpoint.PROGRESS):
        checkpoint.load_training(tmp_path / "1")


def test_a_kill_at_any_line_leaves_a_whole_checkpoint(tmp_path):
    command = [sys.executable, one_value.__file__, str(tmp_path)]
    values = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert len(values) > 20 and set(values) == {"1", "2", "3"} and values == sorted(values)


@pytest.mark.parametrize("call", ["fsync", "open"])
def test_a_full_disk_leaves_earlier_checkpoints_intact(tmp_path, monkeypatch, call):
    save(tmp_path / "1", 1)
    owner = os if call == "fsync" else Path
    original = getattr(owner, call)
    for number in range(1, 20, 3):
        calls = iter(range(1, 1000))

        def full(*args, calls=calls, number=number, **kwargs):
            if next(calls) >= number:
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*args, **kwargs)

        with monkeypatch.context() as patched, pytest.raises(UserError, match="disk is full"):
            patched.setattr(owner, call, full)
            for step in range(2, 20):
                save(tmp_path / str(step), 2, rows=2000)
        assert not [name for name in names(tmp_path) if name.endswith(".tmp")]
        for step in checkpoint.steps(tmp_path)[1:]:
            shutil.rmtree(tmp_path / str(step))
        assert saved_value(tmp_path / "1") == 1


def test_a_checkpoint_is_found_by_folder_step_and_name(tmp_path, monkeypatch):
    for step in (9000, 10000, 500):
        save(tmp_path / str(step), step)
    checkpoint.write_names(tmp_path, {"best": 9000, "final": 10000})
    (tmp_path / "20000").mkdir()  # no checkpoint
    for name in ("9000", "best", "9000.pdparams", "best.pdparams", "9000/"):
        assert checkpoint.resolve(f"{tmp_path}/{name}") == tmp_path / "9000"
    assert (
        checkpoint.resolve(tmp_path) == checkpoint.resolve(tmp_path / "final") == tmp_path / "10000"
    )
    monkeypatch.chdir(tmp_path)
    assert checkpoint.resolve(".") == Path("10000") and checkpoint.resolve("500") == Path("500")
    monkeypatch.chdir(tmp_path / "9000")
    assert saved_value(checkpoint.resolve(".")) == 9000


def test_every_spelling_loads_the_same_vectors(tmp_path):
    folder = Path(tiny.save(tiny.random_bilm(), tmp_path / "7"))
    checkpoint.write_names(tmp_path, {"final": 7})
    expected = ELMoEmbedder(folder).encode(tiny.SENTENCES)
    for name in (
        tmp_path,
        tmp_path / "final",
        tmp_path / "7.pdparams",
        shutil.copytree(folder, tmp_path / "mailed"),
    ):
        for vectors, others in zip(
            ELMoEmbedder(name).encode(tiny.SENTENCES), expected, strict=True
        ):
            np.testing.assert_array_equal(vectors, others)


def test_a_missing_checkpoint_lists_the_existing_ones(tmp_path):
    for step in range(1, 13):
        save(tmp_path / "run" / f"{step}0000", 1)
    save(tmp_path / "mine", 1)
    (tmp_path / "theirs.pdparams").write_bytes(b"of Paddle")
    places = {
        "run/10001": "10000",
        "nowhere/1": "nowhere/1",
        "": "mine",
        "theirs.pdparams": "convert.py",
    }
    for path, found in places.items():
        with pytest.raises(UserError, match=found):
            checkpoint.resolve(tmp_path / path)


def test_the_users_models_of_tasks_are_not_listed_as_elmos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "own", 1)
    save(tmp_path / "run" / "7", 1)
    save(tmp_path / "classifier", 1)
    (tmp_path / "classifier" / checkpoint.CONFIG).write_text(
        '{"task": "classifier"}', encoding="utf-8"
    )
    with pytest.raises(UserError, match="own, run") as error:
        ELMoEmbedder("chinese")
    assert "classifier" not in str(error.value)


def test_names_that_are_not_ours_are_an_error(tmp_path):
    (tmp_path / "names.json").write_text('["Anna"]')
    assert checkpoint.resolve(tiny.save(tiny.random_bilm(), tmp_path / "m")) == tmp_path / "m"
    (tmp_path / "names.json").write_text('{"Anna": "Smith"}')
    with pytest.raises(UserError, match="no model"):
        checkpoint.resolve(tmp_path / "Anna")
    save(tmp_path / "5", 5)
    with pytest.raises(UserError, match=r"names\.json"):
        checkpoint.resolve(tmp_path / "Anna")


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "/dev/zero"]
)
def test_a_progress_without_end_is_an_error(tmp_path, make):
    save(tmp_path / "1", 1)
    path = tmp_path / "1" / checkpoint.PROGRESS
    path.unlink()
    make(path)
    with pytest.raises(UserError, match=checkpoint.PROGRESS):
        checkpoint.load_training(tmp_path / "1")


def test_a_model_that_cannot_be_saved_over_another_leaves_it(tmp_path, monkeypatch):
    save(tmp_path / "1", 1)
    replace = Path.replace

    def full(path, target):
        if Path(target).name == "1" and saved_value(path) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UserError, match="disk is full"):
        save(tmp_path / "1", 2, overwrite=True)
    assert names(tmp_path) == ["1"] and saved_value(tmp_path / "1") == 1


def test_weights_are_compared_by_name_and_shape():
    found = {
        "a": np.ones((3, 4), np.float32),
        "b": np.ones(5, np.float16),
        "empty": np.ones((0, 3), np.float32),
    }
    checkpoint.check_shapes({"b": [5], "a": (3, 4), "empty": (0, 3)}, found, "the file")
    with pytest.raises(UserError, match="the file") as error:
        checkpoint.check_shapes({"a": (4, 3), "gone": (7, 2), "b": (5,)}, found, "the file")
    for part in (
        "a is (3, 4), expected (4, 3)",
        "gone is missing",
        "empty is (0, 3), expected none",
    ):
        assert part in str(error.value)


def test_pruning_keeps_the_last_the_named_and_what_is_not_ours(tmp_path):
    for step in (9, 10, 100, 20, 5):
        save(tmp_path / str(step), step)
    checkpoint.write_names(tmp_path, {"best": 9})
    (tmp_path / "5" / "README.md").write_text("mine")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "config.json").write_text("mine")
    save(tmp_path / "mine", 6)
    (tmp_path / "6").symlink_to("mine")
    (tmp_path / "10" / "refs").mkdir()
    os.mkfifo(tmp_path / "10" / "pipe")
    (tmp_path / "10" / "link").symlink_to("link")
    checkpoint.prune(tmp_path, 2)
    assert names(tmp_path) == ["10", "100", "20", "5", "6", "7", "9", "mine", "names.json"]
    assert names(tmp_path / "5") == ["README.md"] and names(tmp_path / "7") == ["config.json"]
    assert names(tmp_path / "10") == ["link", "pipe", "refs"]
    assert saved_value(tmp_path / "9") == 9 and saved_value(tmp_path / "6") == 6


def test_the_configuration_comes_back_as_it_was(tmp_path):
    config = {
        "hidden": 17,
        "filters": [[1, 32]],
        "activation": "relu",
        "clip": 3.0,
        "name": "é",
        "none": None,
    }
    config["path"] = os.fsdecode(b"/home/caf\xe9")
    checkpoint.save_config(tmp_path / "new", config)
    assert checkpoint.load_config(tmp_path / "new") == config
    written = json.loads((tmp_path / "new" / "config.json").read_text(encoding="utf-8"))
    assert written["format_version"] == checkpoint.FORMAT_VERSION
    with pytest.raises(ValueError):
        checkpoint.save_config(tmp_path / "new", {"clip": math.nan})
    assert checkpoint.load_config(tmp_path / "new") == config and names(tmp_path / "new") == [
        "config.json"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b'{"format_version": 1}',
        b'{"hidden": 17}',
        b'{"format_version": true}',
        b"\xff",
        b"[" * 100_000,
        b"[1]",
        None,
    ],
)
def test_a_configuration_of_another_program_is_an_error(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=r"config\.json"):
        checkpoint.load_config(tmp_path)


def test_the_bundled_models_load(tmp_path):
    for name in ("en", "zh"):
        folder = PROJECT / "elmo_core" / "models" / name
        config = ELMoConfig.from_dict(checkpoint.load_config(folder)["model"])
        shapes = {key: tuple(weight.shape) for key, weight in BiLM(config).state_dict().items()}
        shapes.update(StartState.shapes(config))
        weights = checkpoint.load_params(folder)
        assert {key: array.shape for key, array in weights.items()} == shapes
        for name in NAMES:  # which are small, in float32
            weights.pop(name)
        assert {array.dtype for array in weights.values()} == {np.dtype("float16")}
