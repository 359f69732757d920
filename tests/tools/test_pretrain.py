"""One call from text to an embedder: the scripts' weights, resuming, interruptions, mistakes."""

import errno
import io
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import preprocessing_runs
import pytest
import runs
from preprocessing_runs import files_of
from pretraining_runs import load
from runs import fresh_python

from elmo_core.kernels import precision
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint
from elmo_tools import PreprocessingSettings, PretrainingSettings, pretrain
from elmo_tools.pretraining import forecast
from elmo_tools.pretraining.meter import Meter

pytestmark = pytest.mark.usefixtures("no_fsync")
MODEL = {
    "model_size": "tiny",
    "cell_dim": 13,
    "projection_dim": 6,
    "filters": ((1, 4), (2, 7)),
    "batch_size": 5,
    "unroll_steps": 7,
    "n_negative_samples": 11,
}
SETTINGS = PretrainingSettings(**MODEL, max_steps=6)
OPTIONS = {"settings": SETTINGS, "device": "cpu", "progress": False}
TEXTS = [f"{sentence} ." for sentence in runs.sentences(300, seed=1)]
TOKENS = [sentence.split() for sentence in TEXTS]
FOLDER = Path(__file__).parent


def same_weights(one, other) -> bool:
    ours, theirs = load(one), load(other)
    assert ours.keys() == theirs.keys()
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_the_weights_are_those_of_the_three_commands(tmp_path, monkeypatch):
    """Bit for bit, whatever was trained before in the process, whose random state stays."""
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    flags = ["--shards=8", "--dev_fraction=0.01", "--processes=1"]
    preprocessing_runs.run("text", text, "--output=corpus", *flags)
    preprocessing_runs.run("vocab", "corpus/train/*", "--output=corpus/vocab.txt", "--min_count=3")
    changes = {"train_data_path": "corpus/train/*", "dev_data_path": "corpus/dev", "max_steps": 6}
    argv = runs.flags(tmp_path / "corpus", tmp_path / "script", **changes, log_freq=None)
    runs.pretrain([flag for flag in argv if not flag.startswith("--eval_freq")])
    paddle.seed(7)
    before = paddle_compat.random_states(paddle)
    embedder = pretrain("*.txt", save_dir="call", **OPTIONS)
    assert paddle_compat.random_states(paddle) == before
    assert precision.current() == "float32"
    made = files_of(tmp_path / "call" / "corpus")
    made.pop("source.json")
    assert made == files_of(tmp_path / "corpus")
    assert same_weights("call", "script")
    assert embedder.encode([TOKENS[0]])[0].shape == (3, len(TOKENS[0]), 12)
    pretrain(TEXTS, save_dir="list", **OPTIONS)
    assert same_weights("list", "script")


def interrupted(at: int, number: int = signal.SIGINT, **options) -> str:
    """A signal, such as Ctrl-C, during a step of `pretrain`. Returns what is raised."""
    add = Meter.add

    def add_and_stop(meter, step, *rest):
        if step == at:
            signal.raise_signal(number)
        add(meter, step, *rest)

    with mock.patch.object(Meter, "add", add_and_stop), pytest.raises(KeyboardInterrupt) as raised:
        pretrain(TOKENS, **options)
    return str(raised.value)


def test_an_interrupted_call_is_resumed_bit_for_bit(tmp_path):
    options = {**OPTIONS, "resume": True}
    said = interrupted(3, save_dir=tmp_path / "run", **options)
    assert re.search("stopped at step 3, saved as .*same call with `resume=True`", said)
    with pytest.raises(UserError, match=r"`text` is an iterator.*Give a list"):
        pretrain(iter(TOKENS), save_dir=tmp_path / "run", **options)
    with pytest.raises(UserError, match=r"other text.*`allow_changes=True`"):
        pretrain(TOKENS[1:], save_dir=tmp_path / "run", **options)
    seen = []
    pretrain(TOKENS, save_dir=tmp_path / "run", **{**options, "progress": seen.append})
    assert [values["step"] for values in seen if values["event"] == "training"] == [4, 5, 6]
    pretrain(iter(TOKENS), save_dir=tmp_path / "whole", **options)
    assert same_weights(tmp_path / "run", tmp_path / "whole")
    pretrain(TOKENS, save_dir=tmp_path / "run", **options)  # finished
    assert checkpoint.steps(tmp_path / "run") == [3, 6]


def test_a_signal_reaches_the_programs_handler_after_a_checkpoint(tmp_path):
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(checkpoint.steps(tmp_path)))
    interrupted(2, signal.SIGTERM, save_dir=tmp_path, **OPTIONS)
    assert signal.signal(signal.SIGTERM, before) is not before
    assert received == [[2]]


def test_a_terminal_shows_forecast_and_verdict_above_the_bar(tmp_path, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(forecast, "SECONDS", 0.0)
    pretrain(TOKENS, save_dir=tmp_path, **{**OPTIONS, "progress": True})
    assert "forecast  " in terminal.getvalue()
    assert "verdict  " in terminal.getvalue()


def test_in_a_thread_of_a_program(tmp_path):
    """Where Python handles no signals; two at a time."""
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(pretrain, TOKENS, save_dir=tmp_path / k, **OPTIONS) for k in "ab"]
    assert [run.result().dim for run in runs] == [12, 12]
    assert same_weights(tmp_path / "a", tmp_path / "b")


def test_fine_tuning_keeps_the_vocabulary_and_other_text_replaces_a_run(tmp_path):
    first = pretrain(TOKENS, save_dir=tmp_path / "run", **OPTIONS)
    tuned = pretrain(
        TOKENS[50:], save_dir=tmp_path / "tuned", finetune_from=tmp_path / "run", **OPTIONS
    )
    assert tuned.predictor().vocabulary.tokens == first.predictor().vocabulary.tokens
    options = {"save_dir": tmp_path / "run", **OPTIONS}
    with pytest.raises(UserError, match="`resume=True` to continue it, `overwrite=True`"):
        pretrain(TOKENS[50:], **options)
    left_by_a_kill = tmp_path / "run" / f".corpus.{'0' * 16}.tmp"
    left_by_a_kill.mkdir()
    pretrain(TOKENS[50:], overwrite=True, **options)
    assert not left_by_a_kill.exists()
    assert not same_weights(tmp_path / "run", tmp_path / "tuned")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    error = OSError(errno.ENOSPC, "no space left")
    monkeypatch.setattr(Vocabulary, "save", mock.Mock(side_effect=error))
    with pytest.raises(UserError, match="the disk is full"):
        pretrain(TOKENS, save_dir=tmp_path / "run", **OPTIONS)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_the_settings_do_not_wait_for_paddle():
    done = fresh_python(
        "import sys; from elmo_tools import PreprocessingSettings, PretrainingSettings; "
        "PretrainingSettings(), PreprocessingSettings(); print('paddle' in sys.modules)"
    )
    assert done.stdout == "False\n", done.stderr


def test_an_iterator_that_raises_leaves_nothing(tmp_path):
    def texts():
        yield from TEXTS
        raise OSError("the network is down")

    with pytest.raises(OSError, match="network is down") as raised:
        pretrain(texts(), save_dir=tmp_path / "run", **OPTIONS)
    assert raised.traceback[-1].name == "texts"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"text": []}, UserError, "empty"),
        ({"text": "nowhere/*.txt"}, UserError, "no file matches"),
        ({"text": ["One sentence ."]}, UserError, "`dev_fraction=0`"),
        ({"text": ["The same line again ."] * 99}, UserError, "repeats"),
        ({"text": [["a", "b"], "c d"]}, TypeError, "item 1: found str 'c d'.*list of tokens"),
        ({"text": {"a": 1}}, TypeError, "found dict"),
        ({"settings": {"epochs": 3}}, TypeError, "expected PretrainingSettings"),
        ({"preprocessing": SETTINGS}, TypeError, "expected PreprocessingSettings"),
        ({"preprocessing": PreprocessingSettings(lang="zh")}, UserError, "lists of tokens"),
        ({"save_dir": Path(__file__) / "run"}, UserError, "`save_dir`"),
        ({"text": FOLDER, "save_dir": FOLDER / "run"}, UserError, "`save_dir` .* is in "),
        ({"save_dir": ""}, TypeError, "save_dir: found str '', expected"),
        ({"init_from_ckpt": "en", "finetune_from": "en"}, UserError, "not both"),
        ({"device": "tpu"}, UserError, "device tpu"),
    ],
)
def test_a_mistake_is_told(tmp_path, changes, error, said):
    options = {"text": TOKENS, "save_dir": tmp_path / "run", **OPTIONS, **changes}
    with pytest.raises(error, match=said):
        pretrain(options.pop("text"), **options)
    assert not list(tmp_path.glob("run/[!.]*"))


def test_held_out_text_of_ones_own(tmp_path):
    dev = tmp_path / "dev.txt"
    dev.write_text("\n".join(TEXTS[:9]) + "\n", encoding="utf-8")
    seen = []
    options = {**OPTIONS, "progress": seen.append}
    pretrain(TEXTS[9:], save_dir=tmp_path / "run", dev_data_path=dev, **options)
    assert [values["event"] for values in seen].count("evaluation") == 1
    assert not (tmp_path / "run" / "corpus" / "dev").exists()
    patient = PretrainingSettings(**MODEL, patience=1)
    none_held_out = PreprocessingSettings(dev_fraction=0)
    with pytest.raises(UserError, match="`patience` counts evaluations"):
        pretrain(
            TEXTS,
            save_dir=tmp_path / "other",
            preprocessing=none_held_out,
            **{**OPTIONS, "settings": patient},
        )


def test_several_processes_need_the_scripts(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.raises(UserError, match=r"one process.*run_pretrain\.py"):
        pretrain(TOKENS, save_dir=tmp_path / "run", **OPTIONS)


def test_unknown_and_invalid_settings_are_named():
    with pytest.raises(TypeError, match=r"'epoch'\. Did you mean 'epochs'\?"):
        PretrainingSettings(epoch=3)
    with pytest.raises(UserError, match=r"`lang` is 'de', expected one of .*any"):
        PreprocessingSettings(lang="de")
    with pytest.raises(UserError, match=r"filters is \(\(99, 4\),\), expected"):
        PretrainingSettings(filters=((99, 4),))
    with pytest.raises(UserError, match="`projection_dim` is 0"):
        PretrainingSettings(projection_dim=0)
