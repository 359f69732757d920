"""Pretraining: exact resume, faults, what a run starts from, what it says and writes."""

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import runs

import run_pretrain
from elmo_core import checkpoint
from elmo_core.runtime import UserError, paddle
from elmo_core.tokens import MARKERS, Vocabulary
from pretraining.meter import Meter
from pretraining.perplexity import Score

KINDS = list(itertools.product(("char", "word"), ("adagrad", "adam")))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return runs.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The folder of a run that has come to its end, for tests that only read it."""
    folder = tmp_path_factory.mktemp("finished")
    runs.pretrain(runs.flags(corpus, folder, save_freq=10, plot=True))
    return folder


# Exact resume


@pytest.mark.parametrize(("input", "optimizer"), KINDS)
def test_a_resumed_run_equals_one_that_never_stopped(corpus, tmp_path, input, optimizer):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run = runs.pretrain(runs.flags(corpus, whole, input=input, optimizer=optimizer))
    assert run.position["epoch"] > 0
    for stop in (8, 19, 26, None):  # two in the first epoch, one in the second
        resume = {"init_from_ckpt": parts} if stop != 8 else {}
        runs.pretrain(runs.flags(corpus, parts, input=input, optimizer=optimizer, **resume), stop_at=stop)
    runs.assert_same(whole / "final", parts / "final")
    runs.assert_same(whole / "best", parts / "best", checkpoint.load_params)
    for event in ("training", "evaluation"):
        assert runs.log_lines(whole, event) == runs.log_lines(parts, event)


@pytest.fixture(scope="module")
def two_ranks(corpus, finished, tmp_path_factory):
    """Folder of runs on two ranks: of each kind whole-*, and parts-*, whose halves were run by different processes."""
    folder = tmp_path_factory.mktemp("ranks")

    def kind(name, input, optimizer, **changes):
        return runs.flags(corpus, folder / f"{name}-{input}-{optimizer}", input=input, optimizer=optimizer, **changes)

    def run(jobs):
        processes = runs.start_ranks("tests/rank_runs.py", [json.dumps(jobs)], folder)
        assert [process.wait(timeout=120) for process in processes] == [0, 0], (folder / "rank0").read_text()

    run([(kind("whole", *k), None) for k in KINDS] + [(kind("parts", *k), 8) for k in KINDS])
    grown = runs.flags(corpus, folder / "grown", init_from_ckpt=finished / "20", allow_changes=True)
    resumed = [kind("parts", *k, init_from_ckpt=folder / "parts-{}-{}".format(*k)) for k in KINDS]
    run([(argv, None) for argv in (*resumed, grown)])
    return folder


@pytest.mark.parametrize(("input", "optimizer"), KINDS)
def test_on_two_ranks_too_a_resumed_run_equals_one_that_never_stopped(two_ranks, input, optimizer):
    whole, parts = (two_ranks / f"{name}-{input}-{optimizer}" for name in ("whole", "parts"))
    runs.assert_same(whole / "final", parts / "final")
    for event in ("training", "evaluation"):
        assert runs.log_lines(whole, event) == runs.log_lines(parts, event)


@pytest.mark.parametrize("name", ["whole-char-adagrad", "parts-word-adam", "grown"])
def test_ranks_end_with_identical_weights(two_ranks, name):
    first, second = (np.load(two_ranks / name / f"rank{k}.npz") for k in range(2))
    for key in first.files:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


# Kills, signals, faults


def test_ten_kills_change_nothing(corpus, tmp_path):
    """Eight at random moments, two inside a save. Every time the run goes on from what is in its folder."""
    changes = {"dev_data_path": None, "max_steps": 120, "save_freq": 3, "log_freq": 1, "keep": 2}
    runs.pretrain(runs.flags(corpus, tmp_path / "whole", **changes))
    parts, output = tmp_path / "parts", tmp_path / "output"
    argv = runs.flags(corpus, parts, **changes)
    seed = random.randrange(2**32)
    print("seed", seed)
    generator = random.Random(seed)
    for kill in range(10):
        resume = [f"--init_from_ckpt={parts}"] if list(parts.glob("*.pdparams")) else []
        if kill in (3, 7):
            call = str(generator.randrange(1, 10))
            process = runs.start("tests/dying_run.py", [call, *argv, *resume], output)
        else:
            process = runs.start("run_pretrain.py", [*argv, *resume], output)
            runs.wait_for_step(8 * kill + generator.randrange(1, 8), process, output)
            time.sleep(generator.random() / 50)
            process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL, output.read_text(encoding="utf-8")
    runs.pretrain([*argv, f"--init_from_ckpt={parts}"])
    runs.assert_same(tmp_path / "whole" / "final", parts / "final")
    assert [line["step"] for line in runs.log_lines(parts, "training")] == list(range(1, 121))


def test_a_best_model_from_steps_that_were_lost_is_no_obstacle(corpus, finished, tmp_path, monkeypatch):
    add = Meter.add

    def crash(meter, step, *rest):
        if step == 14:
            raise MemoryError
        add(meter, step, *rest)

    argv = runs.flags(corpus, tmp_path, save_freq=10)
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(Meter, "add", crash)
        run_pretrain.main(argv)
    assert sorted(path.stem for path in tmp_path.glob("*.pdparams")) == ["10", "best"]
    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path}"])
    runs.assert_same(tmp_path / "final", finished / "final")


def test_ctrl_c_saves_and_says_how_to_go_on(corpus, tmp_path):
    output = tmp_path / "output"
    argv = runs.flags(corpus, tmp_path / "run", max_steps=100000, log_freq=1)
    process = runs.start("run_pretrain.py", argv, output)
    runs.wait_for_step(2, process, output)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    lines = output.read_text(encoding="utf-8").splitlines()
    assert "finishing this step, then saving (Ctrl-C again: stop at once, without saving)" in lines
    prefix = lines[-1].strip().removeprefix("--init_from_ckpt=")
    assert checkpoint.resolve(tmp_path / "run") == Path(prefix)
    assert int(Path(prefix).name) == checkpoint.load_progress(prefix)["step"] >= 2


def test_ranks_whose_launcher_is_killed_stop_and_save(corpus, tmp_path):
    log = tmp_path / "log"
    argv = runs.flags(corpus, tmp_path / "run", dev_data_path=None, max_steps=100000, log_freq=1)
    launcher = runs.start("run_pretrain.py", argv, tmp_path / "output", launch=2, log_dir=log)
    until = time.monotonic() + 90
    while not (log / "workerlog.0").exists() or "step 3/" not in (log / "workerlog.0").read_text(encoding="utf-8"):
        assert launcher.poll() is None and time.monotonic() < until, (tmp_path / "output").read_text(encoding="utf-8")
        time.sleep(0.05)
    ranks = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text(encoding="ascii").split()
    assert len(ranks) == 2
    try:
        launcher.kill()
        while any(map(is_running, ranks)):
            assert time.monotonic() < until, "the ranks run on"
            time.sleep(0.05)
    finally:
        for rank in filter(is_running, ranks):
            os.kill(int(rank), signal.SIGKILL)
    assert checkpoint.step_of(checkpoint.resolve(tmp_path / "run")) >= 3


def is_running(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_second_ctrl_c_stops_at_once(corpus, tmp_path, monkeypatch):
    def interrupt(meter, *rest):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Meter, "add", interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_pretrain.main(runs.flags(corpus, tmp_path))
    assert not list(tmp_path.glob("*.pdparams")) and signal.getsignal(signal.SIGINT) is before


def test_an_evaluation_does_not_delay_a_stop_and_is_made_up_for(corpus, finished, tmp_path, monkeypatch):
    argv = runs.flags(corpus, tmp_path)
    evaluate = run_pretrain.evaluate

    def interrupted(bilm, batches):
        signal.raise_signal(signal.SIGTERM)
        assert not list(batches), "the evaluation goes on"
        return Score()

    monkeypatch.setattr(run_pretrain, "evaluate", interrupted)
    with pytest.raises(SystemExit):
        run_pretrain.main(argv)
    assert checkpoint.resolve(tmp_path).name == "12" and not runs.log_lines(tmp_path, "evaluation")
    monkeypatch.setattr(run_pretrain, "evaluate", evaluate)
    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path}"])
    assert runs.log_lines(tmp_path, "evaluation") == runs.log_lines(finished, "evaluation")


def test_a_full_disk_is_a_clear_error_and_spares_what_is_there(corpus, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], capture_output=True).returncode
    ):
        pytest.skip("a small disk can only be made by root")
    try:
        argv = runs.flags(corpus, disk, dev_data_path=None, save_freq=4, keep=100)
        with pytest.raises(UserError, match=r"could not be written, the disk is full: .* MB are needed"):
            run_pretrain.main(argv)
        saved = sorted(int(path.stem) for path in disk.glob("*.pdparams"))
        assert saved == list(range(4, 4 * len(saved) + 1, 4)) and saved
        runs.pretrain(runs.flags(corpus, tmp_path / "run", dev_data_path=None, init_from_ckpt=disk))
    finally:
        subprocess.run(["umount", disk], check=True)
    runs.pretrain(runs.flags(corpus, tmp_path / "whole", dev_data_path=None))
    runs.assert_same(tmp_path / "run" / "final", tmp_path / "whole" / "final")


def poison(monkeypatch, at: int, name: str) -> None:
    """A weight becomes not a number in the step."""
    learning_rate = run_pretrain.Pretraining.learning_rate

    def poisoned(run):
        if run.step == at:
            weight = dict(run.bilm.named_parameters())[name]
            weight.set_value(paddle.full_like(weight, float("nan")))
        return learning_rate(run)

    monkeypatch.setattr(run_pretrain.Pretraining, "learning_rate", poisoned)


def test_a_loss_that_is_not_finite_stops_the_run_and_is_not_saved(corpus, tmp_path, monkeypatch):
    poison(monkeypatch, 9, "forward_lstm.1.bias")
    with pytest.raises(
        UserError, match=r"step 10: the loss is not finite \(forward nan.* into .*/train/\d\.txt, epoch 0"
    ):
        run_pretrain.main(runs.flags(corpus, tmp_path, save_freq=4))
    assert checkpoint.resolve(tmp_path).name == "8"


@pytest.mark.parametrize("due", [{"save_freq": 12}, {"eval_freq": 12}, {"log_freq": 12}, {"max_steps": 12}])
def test_losses_that_are_looked_at_late_are_looked_at_in_time(corpus, tmp_path, monkeypatch, due):
    """As on a GPU: only when something is due."""
    monkeypatch.setattr(paddle, "get_device", lambda: "gpu:0")
    meter = Meter()
    monkeypatch.undo()
    monkeypatch.setattr(run_pretrain, "Meter", lambda: meter)
    poison(monkeypatch, 9, "forward_lstm.1.bias")
    late = {"save_freq": 100, "eval_freq": 100, "log_freq": 100, **due}
    with pytest.raises(UserError, match="step 10: the loss is not finite"):
        run_pretrain.main(runs.flags(corpus, tmp_path, **late))
    assert not list(tmp_path.glob("*.pdparams"))


@pytest.mark.parametrize("freq", ["save_freq", "eval_freq"])
def test_weights_that_are_not_finite_are_not_saved(corpus, tmp_path, monkeypatch, freq):
    poison(monkeypatch, 9, "softmax.bias")
    with pytest.raises(UserError, match=r"step 9: .*not finite"):
        run_pretrain.main(runs.flags(corpus, tmp_path, **{"eval_freq": 100, freq: 9}))
    assert not list(tmp_path.glob("*.pdparams"))


def test_a_rate_that_is_too_high_ends_in_a_clear_error(corpus, tmp_path):
    with pytest.raises(UserError, match="not finite"):
        run_pretrain.main(runs.flags(corpus, tmp_path, lr=1e30, save_freq=1))


# Other starts


def test_finetuning_with_the_same_vocabulary_starts_from_the_weights(corpus, finished, tmp_path):
    run = runs.pretrain(runs.flags(corpus, tmp_path, finetune_from=finished, max_steps=1, lr=1e-12, vocab_file=None))
    before = checkpoint.load_params(finished / "final")
    assert run.step == 1 and run.vocabulary.tokens == Vocabulary.from_file(corpus / "vocab.txt").tokens
    for name, array in checkpoint.load_params(tmp_path / "final").items():
        np.testing.assert_allclose(array, before[name], atol=1e-9, err_msg=name)


@pytest.mark.parametrize("input", ["char", "word"])
def test_finetuning_with_another_vocabulary_keeps_the_rows_of_known_words(corpus, tmp_path, said, input):
    known = Vocabulary.from_file(corpus / "vocab.txt")
    new = Vocabulary([*MARKERS, "new", *reversed(known.tokens[5:]), "words"])
    new.save(tmp_path / "new.txt")
    runs.pretrain(runs.flags(corpus, tmp_path / "1", max_steps=2, input=input))
    changes = {"finetune_from": tmp_path / "1", "vocab_file": tmp_path / "new.txt", "max_steps": 1, "lr": 1e-12}
    runs.pretrain(runs.flags(corpus, tmp_path / "2", **changes))
    assert f"{len(new) - 2} of {len(new)} words known, 2 start fresh" in said()
    before, after = (checkpoint.load_params(tmp_path / name / "final") for name in "12")
    tables = {name for name in after if after[name].shape[0] == len(new)}
    assert tables == {"softmax.weight", "softmax.bias"} | (
        {"token_encoder.embedding.weight"} if input == "word" else set()
    )
    for name, array in after.items():
        for k, token in enumerate(new.tokens if name in tables else ()):
            kept = token in known and np.allclose(array[k], before[name][known.id(token)], atol=1e-9)
            assert kept == (token in known), f"{name} of {token}"
        if name not in tables:
            np.testing.assert_allclose(array, before[name], atol=1e-9, err_msg=name)


@pytest.fixture(scope="module")
def word_vectors(tmp_path_factory):
    """vectors.txt and vectors.bin: six dimensions, for every second word and for one that the vocabulary lacks."""
    gensim = pytest.importorskip("gensim.models")
    folder, words = tmp_path_factory.mktemp("vectors"), [*runs.WORDS[:20:2], "elsewhere"]
    vectors = gensim.KeyedVectors(6)
    vectors.add_vectors(words, np.random.default_rng(0).standard_normal((len(words), 6)).astype("float32"))
    vectors.save_word2vec_format(str(folder / "vectors.txt"))
    vectors.save_word2vec_format(str(folder / "vectors.bin"), binary=True)
    return folder


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_word_vectors_fill_the_word_table(corpus, word_vectors, tmp_path, said, name):
    from gensim.models import KeyedVectors

    changes = {"input": "word", "pretrained_word_embeddings": word_vectors / name, "max_steps": 1, "lr": 1e-12}
    run = runs.pretrain(runs.flags(corpus, tmp_path, **changes))
    assert f"10 of {len(run.vocabulary)} words (25.0%) found in {word_vectors / name}" in said()
    vectors = KeyedVectors.load_word2vec_format(str(word_vectors / name), binary=name.endswith("bin"))
    table = checkpoint.load_params(tmp_path)["token_encoder.embedding.weight"]
    for word in runs.WORDS[:20:2]:
        np.testing.assert_allclose(table[run.vocabulary.id(word)], vectors[word], atol=1e-6)
    plain = runs.pretrain(runs.flags(corpus, tmp_path / "plain", input="word", max_steps=1, lr=1e-12))
    other = run.vocabulary.id(runs.WORDS[1])
    np.testing.assert_allclose(table[other], plain._weights()["token_encoder.embedding.weight"][other], atol=1e-9)


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (None, {}, "there is no such file of word vectors"),
        (b"1 3\nc0 1 2 3\n", {}, r"its vectors have 3 dimensions, the model's 6\. Give --projection_dim=3"),
        (b"c0 1 2 3 4 5 6\n", {}, "is not in word2vec's text format"),
        (b"2 6\nc0 1 2 3 4 5 6\n", {}, "is not in word2vec's text format"),
        (b"1 6\nc0 1 2 3 4 5 nan\n", {}, "not finite"),
        (b"1 6\n\xff\xfe 1 2 3 4 5 6\n", {}, "is not in word2vec's text format"),
        (b"1 6\nelsewhere 1 2 3 4 5 6\n", {}, "it has none of the vocabulary's 40 words"),
        (b"1 6\nc0 1 2 3 4 5 6\n", {"input": "char"}, "it needs --input=word"),
    ],
)
def test_word_vectors_that_cannot_be_used_say_why(corpus, tmp_path, content, changes, message):
    path = tmp_path / "vectors.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        run_pretrain.main(
            runs.flags(corpus, tmp_path / "run", **{"input": "word", "pretrained_word_embeddings": path, **changes})
        )


def test_word_vectors_are_not_read_again_by_a_resumed_run(corpus, tmp_path, said):
    argv = runs.flags(corpus, tmp_path, input="word")
    runs.pretrain(argv, stop_at=3)
    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path}", "--pretrained_word_embeddings=nowhere.txt"])
    assert "--pretrained_word_embeddings is not read" in said()


# The end of a run, and going on from it


def scores(monkeypatch, perplexities) -> None:
    """Evaluations find these perplexities."""
    losses = iter(np.log(perplexities))
    monkeypatch.setattr(run_pretrain, "evaluate", lambda *_: Score(-(loss := float(next(losses))), -loss, 1))


def test_patience_ends_a_run_whose_best_is_kept(corpus, tmp_path, monkeypatch, said):
    scores(monkeypatch, [30.0, 20.0, 25.0, 22.0, 21.0, 19.0, 18.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=2, patience=3)
    runs.pretrain(argv, stop_at=7)  # the stop is no evaluation
    run = runs.pretrain([*argv, f"--init_from_ckpt={tmp_path}"])
    assert run.step == 10 and "3 evaluations without gain" in said()
    assert checkpoint.load_progress(tmp_path / "best") == {"step": 4, "best": pytest.approx(20.0)}
    assert checkpoint.load_progress(tmp_path / "final")["step"] == 10

    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path}"])
    assert "final is the end of its run, step 10 of 30: nothing is left to do" in said()
    longer = [*argv, "--patience=4", "--max_steps=14", f"--init_from_ckpt={tmp_path}"]
    assert runs.pretrain(longer).step == 14
    assert checkpoint.load_progress(tmp_path / "best") == {"step": 14, "best": pytest.approx(18.0)}


def test_a_run_that_goes_back_to_before_its_best_model_looks_for_another(corpus, tmp_path, monkeypatch):
    scores(monkeypatch, [20.0, 10.0, 25.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=4, save_freq=6, max_steps=8)
    runs.pretrain(argv)
    assert checkpoint.load_progress(tmp_path / "best") == {"step": 8, "best": pytest.approx(10.0)}
    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path / '6'}", "--overwrite"])
    assert checkpoint.load_progress(tmp_path / "best") == {"step": 8, "best": pytest.approx(25.0)}


def test_a_finished_run_has_nothing_left_to_do_until_its_end_is_put_off(corpus, tmp_path, said):
    argv = runs.flags(corpus, tmp_path, max_steps=None, epochs=1)
    runs.pretrain(argv)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert runs.pretrain([*argv, f"--init_from_ckpt={tmp_path}"]) is None
    assert "nothing is left to do" in said()
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    longer = [*argv, "--epochs=2"]
    runs.pretrain([*longer, f"--init_from_ckpt={tmp_path}"])
    whole = runs.flags(corpus, tmp_path / "whole", max_steps=None, epochs=2)
    runs.pretrain(whole)
    runs.assert_same(tmp_path / "final", tmp_path / "whole" / "final")


@pytest.mark.parametrize("name", ["", "10", "10.pdparams", "10.pdopt"])
def test_a_checkpoint_is_named_by_folder_prefix_or_file(corpus, finished, tmp_path, name):
    run = runs.pretrain(runs.flags(corpus, tmp_path, init_from_ckpt=finished / name, max_steps=31))
    assert [line["step"] for line in runs.log_lines(tmp_path, "start")] == [0, 10 if name else 30]
    assert run.step == 31


def test_a_run_that_moves_to_another_folder_takes_its_best_model_along(corpus, finished, tmp_path, monkeypatch):
    scores(monkeypatch, [1000.0])
    best = checkpoint.load_progress(finished / "best")
    resume = {"init_from_ckpt": finished} if best["step"] > 20 else {"init_from_ckpt": finished / "20"}
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=31, eval_freq=31, **resume))
    assert checkpoint.load_progress(tmp_path / "best") == best
    runs.assert_same(tmp_path / "best", finished / "best", checkpoint.load_params)


def test_the_last_checkpoints_are_kept(finished):
    assert sorted(path.stem for path in finished.glob("*.pdparams")) == ["10", "20", "best", "final"]


def test_no_more_than_wished_are_kept(corpus, tmp_path):
    runs.pretrain(runs.flags(corpus, tmp_path, save_freq=4, keep=3))
    assert sorted(path.stem for path in tmp_path.glob("*.pdopt")) == ["20", "24", "28", "final"]


def test_an_earlier_run_is_not_overwritten_by_chance(corpus, tmp_path):
    argv = runs.flags(corpus, tmp_path, save_freq=10)
    runs.pretrain(argv)
    (tmp_path / "mine.pdparams").write_bytes(b"of the user")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for changes in ([], [f"--finetune_from={tmp_path}"], [f"--init_from_ckpt={tmp_path / '10'}"]):
        with pytest.raises(UserError, match="holds"):
            run_pretrain.main([*argv, *changes])
        assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="Choose another"):
        run_pretrain.main([*argv, f"--finetune_from={tmp_path}", "--overwrite"])

    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path / '10'}", "--overwrite"], stop_at=11)
    assert sorted(path.stem for path in tmp_path.glob("*.pdparams")) == ["10", "11", "mine"]
    runs.pretrain([*argv, "--overwrite"], stop_at=2)
    assert sorted(path.stem for path in tmp_path.glob("*.pdparams")) == ["2", "mine"]
    assert [line["step"] for line in runs.log_lines(tmp_path, "start")] == [0]


# What must be the same for a resumed run


CHANGES = {
    "batch_size": ("batch_size was 5, is 4", {"batch_size": 4}),
    "unroll_steps": ("unroll_steps was 7, is 6", {"unroll_steps": 6}),
    "seed": ("seed was 2020, is 1", {"seed": 1}),
    "optimizer": ("optimizer was adagrad, is adam; lr was 0.2, is 0.001", {"optimizer": "adam"}),
    "lr": ("lr was 0.2, is 0.1", {"lr": 0.1}),
    "dropout": ("dropout was 0.1, is 0.5", {"dropout": 0.5}),
    "softmax": ("n_negative_samples was 11, is 0", {"n_negative_samples": 0}),
    "corpus": (r"corpus was 3 files .*, is 2 files", {"train_data_path": "train/[01].txt"}),
    "dev": (r"dev_data was 1 files .*, is None", {"dev_data_path": None}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_named_and_goes_on_only_when_allowed(corpus, finished, tmp_path, said, change):
    message, changes = CHANGES[change]
    if "train_data_path" in changes:
        changes = {"train_data_path": corpus / changes["train_data_path"]}
    argv = runs.flags(corpus, tmp_path, init_from_ckpt=finished / "20", max_steps=25, **changes)
    with pytest.raises(UserError, match=f"{finished / '20'} was made with other settings: {message}"):
        run_pretrain.main(argv)
    run = runs.pretrain([*argv, "--allow_changes"])
    assert run.step == 25 and re.search(f"Going on although {message}", said())
    fresh = change in ("seed", "corpus")
    assert ("read from the beginning of epoch 0" in said()) == fresh


def test_a_change_that_leaves_the_rows_as_they_are_keeps_their_states(corpus, finished, tmp_path):
    """With a rate of almost 0 the next losses show what the states were."""
    losses = {}
    for name, changes in {"same": {}, "rate": {"lr": 1e-12}, "rows": {"lr": 1e-12, "batch_size": 6}}.items():
        argv = runs.flags(corpus, tmp_path / name, dropout=0, max_steps=21, log_freq=1, allow_changes=True, **changes)
        runs.pretrain([*argv, f"--init_from_ckpt={finished / '20'}"])
        losses[name] = runs.log_lines(tmp_path / name, "training")[-1]["loss"]
    assert losses["rate"] == losses["same"] != losses["rows"]


def test_another_number_of_processes(two_ranks, corpus, tmp_path, said):
    """From two to one here, from one to two in the run `grown`."""
    argv = runs.flags(corpus, tmp_path, init_from_ckpt=two_ranks / "parts-char-adagrad" / "8", max_steps=12)
    with pytest.raises(UserError, match=r"other settings: world_size was 2, is 1"):
        run_pretrain.main(argv)
    assert runs.pretrain([*argv, "--allow_changes"]).step == 12
    assert "read from the beginning of epoch 0: rank" in said() or "read from the beginning of epoch 0: world" in said()
    steps = [line["step"] for line in runs.log_lines(two_ranks / "grown", "training")]
    assert steps == [5, 10, 15, 20, 25, 30]


def test_a_resumed_run_keeps_its_vocabulary(corpus, finished, tmp_path):
    Vocabulary([*MARKERS, "other"]).save(tmp_path / "other.txt")
    argv = runs.flags(corpus, tmp_path / "run", init_from_ckpt=finished, vocab_file=tmp_path / "other.txt")
    with pytest.raises(UserError, match=r"other\.txt is not the vocabulary of .*final \(4 and 40 words\)"):
        run_pretrain.main(argv)


@pytest.mark.parametrize("source", ["init_from_ckpt", "finetune_from"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell_dim": 14}, "the flags ask for cell_dim 14, but .* has 13"),
        ({"input": "word"}, "the flags ask for input word, but .* has char"),
        ({"no_skip_connections": True}, "use_skip_connections False"),
        ({"model_size": "small", "cell_dim": None}, "cell_dim 1024"),
    ],
)
def test_a_checkpoint_decides_the_model(corpus, finished, tmp_path, source, changes, message):
    with pytest.raises(UserError, match=f"{message}.* config.json decides"):
        run_pretrain.main(runs.flags(corpus, tmp_path, **{source: finished, **changes}))


def test_adams_rate_follows_the_new_end_and_says_so(corpus, tmp_path, said):
    argv = runs.flags(corpus, tmp_path, optimizer="adam", warmup_steps=4, log_freq=1, max_steps=10, lr=0.1)
    runs.pretrain(argv)
    rates = [line["learning_rate"] for line in runs.log_lines(tmp_path, "training")]
    np.testing.assert_allclose(
        rates, 0.1 * np.array([1, 2, 3, 4, 6 / 7 * 4, 5 / 7 * 4, 4 / 7 * 4, 3 / 7 * 4, 2 / 7 * 4, 4 / 7]) / 4
    )
    runs.pretrain([*argv, "--max_steps=12", f"--init_from_ckpt={tmp_path}"])
    assert "The rate falls to 0 at step 12 instead of 10" in said()


# What is said and written


def test_the_start_says_what_is_about_to_run(corpus, finished, tmp_path, said):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=1))
    (line,) = runs.log_lines(tmp_path, "start")
    text = [sentence.split() for path in (corpus / "train").glob("*.txt") for sentence in path.read_text().splitlines()]
    tokens, known = sum(map(len, text)), set((corpus / "vocab.txt").read_text().split())
    unknown = sum(token not in known for sentence in text for token in sentence) / tokens
    weights = checkpoint.load_params(tmp_path)
    assert line["tokens"] == tokens and line["sentences"] == len(text) and line["vocabulary"] == 40
    assert line["unknown_share"] == pytest.approx(unknown) and unknown > 0
    assert line["steps_per_epoch"] == -(-(tokens + len(text)) // 35) and line["tokens_per_step"] == 35
    assert sum(line["parameters"].values()) == sum(array.size for array in weights.values())
    assert line["parameters"]["softmax"] == 40 * 6 + 40
    for part in (
        "cpu, 1 process",
        f"{tokens:,} tokens in {len(text):,} sentences, 3 files; {unknown:.2%} outside the vocabulary of 40 words",
        f"{line['steps_per_epoch']} an epoch, 1 in all, from step 0",
        "token_encoder 4,827, lstm 3,016, softmax 280",
        "11 candidates: the perplexities below are estimates",
    ):
        assert part in said()


def test_the_progress_line_and_its_record(finished, corpus, tmp_path, said):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=10))
    number = r"[\d,.]+"
    assert re.search(
        rf"step 10/10  epoch 0\.40  loss {number}  sampled perplexity forward {number} backward {number}  lr 0\.2  "
        rf"{number} tokens/s  0 s left  {number} MB",
        said(),
    )
    assert re.search(rf"step 10: held-out perplexity forward {number}, backward {number}, mean {number}", said())
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    training = [line for line in lines if line["event"] == "training"]
    assert [line["step"] for line in training] == [5, 10, 15, 20, 25, 30]
    for line in training:
        losses = np.log([line["forward_sampled_perplexity"], line["backward_sampled_perplexity"]])
        assert line["loss"] == pytest.approx(losses.mean())
        assert (
            line["epoch"] == pytest.approx(line["step"] / 25)
            and line["tokens_per_second"] > 0
            and line["memory_mb"] > 50
        )
    assert [line["step"] for line in lines if line["event"] == "evaluation"] == [12, 24, 30]


def test_the_full_softmax_is_not_called_an_estimate(corpus, tmp_path, said):
    runs.pretrain(runs.flags(corpus, tmp_path, n_negative_samples=0, max_steps=5))
    assert "over all 40 words" in said() and "sampled" not in said()
    assert "forward_perplexity" in runs.log_lines(tmp_path, "training")[0]


def test_the_plot_is_a_picture(finished):
    assert (finished / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_learns_the_structure_of_the_text(corpus, tmp_path):
    """Of a text whose source is known: the best that any model can do, in either direction, is the source's own score."""
    (tmp_path / "train.txt").write_text("\n".join(runs.sentences(3000, seed=5)) + "\n", encoding="utf-8")
    dev = [sentence.split() for sentence in (corpus / "dev.txt").read_text().splitlines()]
    best = np.exp(sum(runs.surprise(sentence) for sentence in dev) / sum(len(sentence) + 1 for sentence in dev))
    changes = {"train_data_path": tmp_path / "train.txt", "cell_dim": 32, "projection_dim": 16, "batch_size": 32}
    runs.pretrain(runs.flags(corpus, tmp_path / "run", n_negative_samples=0, max_steps=400, unroll_steps=10, **changes))
    found = runs.log_lines(tmp_path / "run", "evaluation")[-1]
    assert best * 0.9 < found["forward_perplexity"] < best * 1.3
    assert best * 0.9 < found["backward_perplexity"] < best * 1.3


# Mistakes


def test_mistakes_are_one_message_and_exit_code_2(corpus, tmp_path):
    output = tmp_path / "output"
    argv = runs.flags(corpus, tmp_path / "run", train_data_path=tmp_path / "nothing*")
    assert runs.start("run_pretrain.py", argv, output).wait(timeout=60) == 2
    assert re.fullmatch(
        r"error: no file matches '.*nothing\*', looked for from .*\n", output.read_text(encoding="utf-8")
    )


def damaged(folder: Path, suffix: str) -> Path:
    """A copy of a finished run's folder in which a byte of a file of the checkpoint 20 is another."""
    path = folder / f"20{suffix}"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    return folder / "20"


@pytest.mark.parametrize("suffix", checkpoint.SUFFIXES)
def test_a_damaged_checkpoint_is_refused(corpus, finished, tmp_path, suffix):
    shutil.copytree(finished, tmp_path / "copy")
    argv = runs.flags(corpus, tmp_path / "run", init_from_ckpt=damaged(tmp_path / "copy", suffix))
    with pytest.raises(UserError, match=rf"20\{suffix} is refused"):
        run_pretrain.main(argv)


def test_best_is_weights_only_and_cannot_be_resumed(corpus, finished, tmp_path):
    with pytest.raises(UserError, match=r"no .*best\.pdopt: this checkpoint is weights only"):
        run_pretrain.main(runs.flags(corpus, tmp_path, init_from_ckpt=finished / "best"))


MISTAKES = {
    "empty shard": ({"train_data_path": "FILE"}, "", "the file is empty"),
    "blank shard": ({"train_data_path": "FILE"}, "\n\n", "nothing but 2 blank lines"),
    "latin-1": ({"train_data_path": "FILE"}, b"caf\xe9\n", "FILE:1: byte 0xe9 is not UTF-8"),
    "no markers": ({"vocab_file": "FILE"}, "a\nb\n", "FILE:1: found 'a', expected <S>"),
    "no vocabulary": ({"vocab_file": None}, "", "--vocab_file is missing"),
    "missing vocabulary": ({"vocab_file": "FOLDER/x"}, "", "there is no such file"),
    "missing checkpoint": ({"init_from_ckpt": "FOLDER/x"}, "", "there is no .*x.pdparams"),
    "folder without checkpoint": ({"finetune_from": "FOLDER"}, "", "no checkpoint"),
    "folder is a file": ({"save_dir": "FILE"}, "x", "--save_dir .*FILE"),
    "device": ({"device": "gpu"}, "", "device gpu"),
    "missing held-out text": ({"dev_data_path": "FOLDER/x"}, "", "no file matches"),
    "blank held-out text": ({"dev_data_path": "FILE"}, "\n\n", "nothing but 2 blank lines"),
    "held-out text in GBK": ({"dev_data_path": "FILE"}, "很好\n".encode("gbk"), "FILE:1: byte 0xba is not UTF-8"),
    "a vocabulary as text": (
        {"train_data_path": "FILE"},
        "<S>\n</S>\n<UNK>\na\n",
        "FILE is a vocabulary. Expected text",
    ),
    "the text's own folder": ({"dev_data_path": "FILE", "save_dir": "FOLDER"}, "a\n", "is the text's own folder"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained(corpus, tmp_path, mistake, monkeypatch):
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: False)
    changes, content, message = MISTAKES[mistake]
    path = tmp_path / "FILE"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    changes = {
        name: value and value.replace("FOLDER", str(tmp_path)).replace("FILE", str(path))
        for name, value in changes.items()
    }
    with pytest.raises(UserError, match=message):
        run_pretrain.main(runs.flags(corpus, **{"save_dir": tmp_path / "run", **changes}))


def test_two_runs_in_one_folder_do_not_mix(corpus, tmp_path):
    argv = runs.flags(corpus, tmp_path / "run", max_steps=100000, log_freq=1)
    process = runs.start("run_pretrain.py", argv, tmp_path / "output")
    runs.wait_for_step(3, process, tmp_path / "output")
    with pytest.raises(UserError, match="another run is writing there"):
        run_pretrain.main([*argv, "--overwrite"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143


def test_lines_in_the_log_that_are_none_of_ours_are_no_obstacle(corpus, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    with (tmp_path / "copy" / "log.jsonl").open("ab") as file:
        file.write(b'{}\n123\n\xff\xfe\n{"step": "7"}\n')
    runs.pretrain(runs.flags(corpus, tmp_path / "copy", init_from_ckpt=tmp_path / "copy" / "final", max_steps=31))
    assert runs.log_lines(tmp_path / "copy", "training")[-1]["step"] == 31


def test_a_path_from_home_is_one_behind_an_equals_sign_too(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run_pretrain.parse([*runs.flags(corpus, "x"), "--save_dir=~/run"]).save_dir == tmp_path / "run"


def test_a_glob_that_the_shell_has_resolved_is_explained(corpus, tmp_path, capsys):
    argv = runs.flags(corpus, tmp_path, train_data_path=None)
    with pytest.raises(SystemExit, match="2"):
        run_pretrain.main([*argv, "--train_data_path", *map(str, sorted((corpus / "train").iterdir()))])
    assert "a glob must be in quotes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        "--unroll_steps=100000000000",
        "--batch_size=0",
        "--lr=-1",
        "--dropout=1",
        "--filters=3",
        "--seed=-1",
        "--patience=0",
        "--optimizer=sgd",
    ],
)
def test_a_wrong_value_is_named(corpus, tmp_path, capsys, wrong):
    with pytest.raises(SystemExit, match="2"):
        run_pretrain.main([*runs.flags(corpus, tmp_path), wrong])
    assert wrong.split("=")[0] in capsys.readouterr().err.splitlines()[-1]


def test_help_shows_every_flag_with_its_default(capsys):
    with pytest.raises(SystemExit, match="0"):
        run_pretrain.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("(default: ") >= 15
    for part in ("--save_dir DIR folder of the checkpoints (default: checkpoints)", "(default: 0.2 for adagrad"):
        assert part in text


def test_memory_does_not_grow_with_the_corpus(corpus, tmp_path):
    """The same number of steps over one file of text, and over fifty like it, each with words of its own."""
    text = runs.sentences(2000, seed=1)
    for k in range(50):
        words = "\n".join(f"{sentence} only{k}x{i}" for i, sentence in enumerate(text)) + "\n"
        (tmp_path / f"{k}.txt").write_text(words, encoding="utf-8")
    most = []
    for name in ("0.txt", "*.txt"):
        argv = runs.flags(corpus, tmp_path / "run", train_data_path=tmp_path / name, batch_size=64, max_steps=150)
        assert runs.start("run_pretrain.py", [*argv, "--overwrite"], tmp_path / "output").wait(timeout=120) == 0
        lines = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines())
        most.append(max(line["memory_mb"] for line in lines if line["event"] == "training"))
    assert most[1] < most[0] + 15
