"""Pretraining: exact resume, interruptions and faults, what a run starts from, what it prints and writes."""

import itertools
import json
import os
import re
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import runs
import tiny
from project import PROJECT

import run_pretrain
from dataset import TrainStream
from elmo import load_bilm
from elmo_core.config import ELMoConfig
from elmo_core.files import disk, tensors
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.network.softmax import draw_candidates
from elmo_core.text.corpus import Corpus
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint
from pretraining import run, schedule
from pretraining.meter import Meter
from pretraining.perplexity import Score
from pretraining.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("no_fsync")
KINDS = list(itertools.product(("char", "word"), ("adagrad", "adam")))
ON_RANKS = [("char", "adagrad"), ("word", "adam")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return runs.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def small_corpus(tmp_path_factory):
    """Text that is read in ten steps."""
    return runs.write_corpus(tmp_path_factory.mktemp("small_corpus"), size=15)


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The folder of a run that has come to its end, for tests that only read it."""
    folder = tmp_path_factory.mktemp("finished")
    runs.pretrain(runs.flags(corpus, folder, save_freq=10))
    return folder


def load(folder: Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, or of a folder's latest one."""
    return checkpoint.load_params(checkpoint.resolve(folder))


def progress(folder: Path) -> dict:
    """The progress of a checkpoint, or of a folder's latest one."""
    return checkpoint.load_training(checkpoint.resolve(folder))[1]


# Exact resume


@pytest.fixture
def any_precision(monkeypatch):
    """Accept bfloat16 on machines without it, too: they round the operands."""
    monkeypatch.setattr(run_pretrain, "chosen_precision", lambda name, device: name)


OTHERS = [("char", "adam", {"noise": 0.4}), ("char", "adagrad", {"precision": "bfloat16"})]


@pytest.mark.usefixtures("any_precision")
@pytest.mark.parametrize(("input", "optimizer", "changes"), [*((*kind, {}) for kind in KINDS), *OTHERS])
def test_a_resumed_run_equals_one_that_never_stopped(small_corpus, tmp_path, input, optimizer, changes):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    kind = {"input": input, "optimizer": optimizer, "max_steps": 15, "eval_freq": 6, "log_freq": 4, **changes}
    runs.pretrain(runs.flags(small_corpus, whole, **kind))
    assert progress(whole)["ranks"][0]["position"]["epoch"] > 0
    for stop in (3, 13, None):  # in the first epoch, and in the second
        resume = {"init_from_ckpt": parts} if stop == 13 else {"resume": True}
        runs.pretrain(runs.flags(small_corpus, parts, **kind, **resume), stop_at=stop)
    runs.assert_same(whole / "final", parts / "final")
    runs.assert_same(whole / "best", parts / "best", checkpoint.load_params)
    for event in ("training", "evaluation"):
        assert runs.log_lines(whole, event) == runs.log_lines(parts, event)


@pytest.fixture(scope="module")
def two_ranks(corpus, finished, tmp_path_factory):
    """Folder of runs on two ranks: of each kind whole-*, and parts-*, whose halves were run by different processes."""
    folder = tmp_path_factory.mktemp("ranks")

    def kind(name, input, optimizer, **changes):
        save_dir = folder / f"{name}-{input}-{optimizer}"
        return runs.flags(corpus, save_dir, input=input, optimizer=optimizer, keep=20, **changes)

    def run(jobs):
        processes = runs.start_ranks("tests/support/rank_runs.py", [json.dumps(jobs)], folder)
        assert [process.wait(timeout=120) for process in processes] == [0, 0], (folder / "rank0").read_text()

    run([(kind("whole", *k), None) for k in ON_RANKS] + [(kind("parts", *k), 8) for k in ON_RANKS])
    grown = runs.flags(corpus, folder / "grown", init_from_ckpt=finished / "20", allow_changes=True)
    resumed = [kind("parts", *k, init_from_ckpt=folder / "parts-{}-{}".format(*k)) for k in ON_RANKS]
    run([(argv, None) for argv in (*resumed, grown)])
    return folder


def assert_ranks_agree(name: Path) -> None:
    first, second = (np.load(f"{name}.rank{k}.npz") for k in range(2))
    for key in first.files:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


@pytest.mark.ranks
@pytest.mark.parametrize(("input", "optimizer"), ON_RANKS)
def test_on_two_ranks_too_a_resumed_run_equals_one_that_never_stopped(two_ranks, input, optimizer):
    whole, parts = (two_ranks / f"{name}-{input}-{optimizer}" for name in ("whole", "parts"))
    runs.assert_same(whole / "final", parts / "final")
    assert_ranks_agree(whole)
    assert_ranks_agree(parts)
    for event in ("training", "evaluation"):
        assert runs.log_lines(whole, event) == runs.log_lines(parts, event)


@pytest.mark.ranks
def test_another_number_of_processes(two_ranks, corpus, tmp_path, messages):
    """Two ranks to one in this test, one to two in the run `grown`."""
    argv = runs.flags(corpus, tmp_path, init_from_ckpt=two_ranks / "parts-char-adagrad" / "8", max_steps=12)
    with pytest.raises(UserError, match="world_size was 2, is 1"):
        run_pretrain.main(argv)
    runs.pretrain([*argv, "--allow_changes"])
    assert checkpoint.steps(tmp_path)[-1] == 12 and "beginning of epoch 0" in messages()
    assert progress(tmp_path)["tokens"] == 4 * 35
    assert_ranks_agree(two_ranks / "grown")
    assert [line["step"] for line in runs.log_lines(two_ranks / "grown", "training")] == [25, 30]


# Kills, signals, faults


def test_a_crash_costs_only_the_steps_since_the_last_checkpoint(corpus, finished, tmp_path, monkeypatch):
    add = Meter.add

    def crash(meter, step, *rest):
        if step == 16:  # after the log's line of step 15, which will be repeated
            raise MemoryError
        add(meter, step, *rest)

    argv = runs.flags(corpus, tmp_path, save_freq=10, max_steps=20)
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(Meter, "add", crash)
        run_pretrain.main(argv)
    assert checkpoint.steps(tmp_path) == [10, 12]
    runs.pretrain([*argv, "--resume"])
    runs.assert_same(tmp_path / "final", finished / "20")
    losses = [[line["loss"] for line in runs.log_lines(folder, "training")] for folder in (tmp_path, finished)]
    assert losses[0] == losses[1][:4]


def test_a_log_that_cannot_be_written_does_not_end_the_run(corpus, finished, tmp_path, monkeypatch, messages):
    append = RunFolder.append_log

    def append_to_nothing(folder, *line):
        (folder.path / "log.jsonl").unlink(missing_ok=True)
        (folder.path / "log.jsonl").symlink_to(folder.path)
        append(folder, *line)

    monkeypatch.setattr(RunFolder, "append_log", append_to_nothing)
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=12))
    runs.assert_same(tmp_path / "final", finished / "12", checkpoint.load_params)
    assert "log.jsonl could not be written" in messages()


def test_a_warning_about_text_on_one_line(corpus, tmp_path, messages):
    (tmp_path / "train").write_text("a b c " * 200, encoding="utf-8")
    runs.pretrain(
        runs.flags(corpus, tmp_path / "run", train_data_path=tmp_path / "train", dev_data_path=None, max_steps=2)
    )
    assert "1 sentence for 5 rows" in messages()


def test_ctrl_c_saves_and_says_how_to_resume(corpus, tmp_path):
    """Meanwhile no other run may use the folder."""
    output = tmp_path / "output"
    argv = runs.flags(corpus, tmp_path / "run", max_steps=100000, log_freq=1)
    process = runs.start("run_pretrain.py", argv, output)
    runs.wait_for_step(2, process, output)
    with pytest.raises(UserError, match="another process"):
        run_pretrain.main([*argv, "--overwrite"])
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    *_, stopped, advice = output.read_text(encoding="utf-8").splitlines()
    folder = checkpoint.resolve(tmp_path / "run")
    assert f"saved as {folder}." in stopped and "--resume" in advice
    assert int(folder.name) == progress(folder)["step"] >= 2


@pytest.mark.ranks
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_whose_launcher_ends_stop_and_save(corpus, tmp_path, number):
    log = tmp_path / "log"
    argv = runs.flags(corpus, tmp_path / "run", dev_data_path=None, max_steps=100000, log_freq=1)
    launcher = runs.start("run_pretrain.py", argv, tmp_path / "output", launch=2, log_dir=log)
    runs.wait_until((log / "workerlog.0").exists, launcher, tmp_path / "output")
    runs.wait_for_step(3, launcher, log / "workerlog.0")
    ranks = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text(encoding="ascii").split()
    assert len(ranks) == 2
    try:
        launcher.send_signal(number)
        until = time.monotonic() + 60
        while any(map(is_running, ranks)):
            assert time.monotonic() < until, "the ranks are still running"
            time.sleep(0.05)
    finally:
        for rank in filter(is_running, ranks):
            os.kill(int(rank), signal.SIGKILL)
    assert checkpoint.steps(tmp_path / "run")[-1] >= 3


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
    assert not checkpoint.steps(tmp_path) and signal.getsignal(signal.SIGINT) is before


def test_ranks_with_other_flags_are_an_error():
    ranks = mock.Mock(gather=lambda settings: [settings, settings, {**settings, "lr": 0.2}])
    with pytest.raises(UserError, match=r"rank 2 .*lr was 0\.1, is 0\.2"):
        run_pretrain.check_ranks(ranks, {"lr": 0.1, "seed": 1})


# after 12 steps it is the last evaluation
@pytest.mark.parametrize(("max_steps", "number"), [(14, signal.SIGTERM), (12, signal.SIGHUP)])
def test_an_evaluation_does_not_delay_a_stop_and_is_repeated(corpus, tmp_path, monkeypatch, max_steps, number):
    monkeypatch.setattr(
        signal, "getsignal", lambda number: signal.SIG_DFL
    )  # nohup ignores SIGHUP, and so would the run
    evaluate, whole = run.evaluate, tmp_path / "whole"
    runs.pretrain(runs.flags(corpus, whole, max_steps=max_steps))

    def interrupted(bilm, batches, ranks):
        signal.raise_signal(number)
        assert not list(batches), "the evaluation continues"
        return Score()

    argv = runs.flags(corpus, tmp_path / "run", max_steps=max_steps)
    monkeypatch.setattr(run, "evaluate", interrupted)
    with pytest.raises(SystemExit):
        run_pretrain.main(argv)
    assert checkpoint.steps(tmp_path / "run") == [12] and not runs.log_lines(tmp_path / "run", "evaluation")
    monkeypatch.setattr(run, "evaluate", evaluate)
    runs.pretrain([*argv, "--resume"])
    assert runs.log_lines(tmp_path / "run", "evaluation") == runs.log_lines(whole, "evaluation")
    np.testing.assert_equal(progress(tmp_path / "run" / "12"), progress(whole / "12"))  # it knows of its evaluation


def poison(monkeypatch, at: int) -> None:
    """A weight becomes not a number in the step."""
    average, steps = Ranks.average_gradients, itertools.count(1)

    def poisoned(ranks, weights, request):
        if next(steps) == at:
            weights[-1].set_value(paddle.full_like(weights[-1], float("nan")))
        return average(ranks, weights, request)

    monkeypatch.setattr(Ranks, "average_gradients", poisoned)


@pytest.mark.parametrize("due", [{"save_freq": 12}, {"eval_freq": 12}, {"log_freq": 12}, {"max_steps": 12}, None])
def test_a_loss_that_is_not_finite_stops_the_run_and_is_not_saved(corpus, tmp_path, monkeypatch, due):
    """At once on a CPU; on a GPU, which would wait for each loss, when something is due."""
    start = Meter.__init__

    def start_waiting(meter, sums):
        start(meter, sums)
        meter.checks_at_once = False

    if due:
        monkeypatch.setattr(Meter, "__init__", start_waiting)
    poison(monkeypatch, at=9)
    late = {"save_freq": 8, "eval_freq": 100, "log_freq": 100, **(due or {})}
    with pytest.raises(UserError, match=r"step 10: .* not finite .*/train/\d\.txt"):
        run_pretrain.main(runs.flags(corpus, tmp_path, **late))
    assert checkpoint.steps(tmp_path) == ([8] if late["save_freq"] == 8 else [])


@pytest.mark.parametrize("freq", ["save_freq", "eval_freq"])
def test_weights_that_are_not_finite_are_not_saved(corpus, tmp_path, monkeypatch, freq):
    poison(monkeypatch, at=9)
    with pytest.raises(UserError, match=r"(step 9:|9 is not saved:) .*not finite"):
        run_pretrain.main(runs.flags(corpus, tmp_path, **{"eval_freq": 100, freq: 9}))
    assert not checkpoint.steps(tmp_path)


# Other starts


def test_finetuning_with_the_same_vocabulary_starts_from_the_weights(corpus, finished, tmp_path):
    runs.pretrain(runs.flags(corpus, tmp_path, finetune_from=finished, max_steps=1, lr=1e-12, vocab_file=None))
    before = load(finished / "final")
    assert checkpoint.steps(tmp_path) == [1]
    assert (tmp_path / "1" / "vocab.txt").read_bytes() == (corpus / "vocab.txt").read_bytes()
    for name, array in load(tmp_path / "final").items():
        np.testing.assert_allclose(array, before[name], atol=1e-9, err_msg=name)


@pytest.mark.parametrize("input", ["char", "word"])
def test_finetuning_with_another_vocabulary_keeps_the_rows_of_known_words(corpus, tmp_path, messages, input):
    known = Vocabulary.from_file(corpus / "vocab.txt")
    new = Vocabulary([*SPECIAL_TOKENS, "new", *reversed(known.tokens[5:]), "words"])
    new.save(tmp_path / "new.txt")
    runs.pretrain(runs.flags(corpus, tmp_path / "1", max_steps=2, input=input))
    changes = {"finetune_from": tmp_path / "1", "vocab_file": tmp_path / "new.txt", "max_steps": 1, "lr": 1e-12}
    runs.pretrain(runs.flags(corpus, tmp_path / "2", **changes))
    assert f"{len(new) - 2} of {len(new)} words known" in messages()
    before, after = (load(tmp_path / name / "final") for name in "12")
    tables = {name for name in after if after[name].shape[0] == len(new)}
    assert tables == {"softmax.weight", "softmax.bias"} | (
        {"token_encoder.embedding.weight"} if input == "word" else set()
    )
    for name, array in after.items():
        for k, token in enumerate(new.tokens if name in tables else ()):
            kept = token in known and np.allclose(array[k], before[name][known.index[token]], atol=1e-9)
            assert kept == (token in known), f"{name} of {token}"
        if name not in tables:
            np.testing.assert_allclose(array, before[name], atol=1e-9, err_msg=name)


def test_finetuning_adds_a_missing_softmax(corpus, finished, tmp_path, messages):
    """Most published models have none."""
    folder = checkpoint.resolve(finished)
    weights, config = load(folder), ELMoConfig.from_dict(checkpoint.load_config(folder)["model"])
    bare = {name: array for name, array in weights.items() if not name.startswith("softmax.")}
    checkpoint.save_model(tmp_path / "bare", replace(config, vocab_size=0), bare)
    flags = runs.flags(corpus, tmp_path / "2", finetune_from=tmp_path / "bare", max_steps=1, lr=1e-12)
    runs.pretrain(flags)
    after = load(tmp_path / "2" / "final")
    assert after["softmax.weight"].shape == weights["softmax.weight"].shape and "softmax" in messages()
    for name, array in bare.items():
        np.testing.assert_allclose(after[name], array, atol=1e-9, err_msg=name)


def write_vectors(path: Path, words: list[str], dimensions: int) -> np.ndarray:
    vectors = np.random.default_rng(0).standard_normal((len(words), dimensions)).round(3)
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in zip(words, vectors.tolist(), strict=True)]
    path.write_text("\n".join([f"{len(words)} {dimensions}", *lines]) + "\n", encoding="utf-8")
    return vectors


@pytest.mark.parametrize("changes", [{"input": "word"}, {"input": "char+word", "word_dim": 6, "projection_dim": 7}])
def test_word_vectors_fill_the_word_table(corpus, tmp_path, messages, changes):
    """Other words keep their random start. A resumed run does not read the vectors again."""
    words = [*runs.WORDS[:20:2], "elsewhere"]
    vectors = write_vectors(tmp_path / "vectors.txt", words, 6)
    argv = runs.flags(corpus, tmp_path / "run", max_steps=1, lr=1e-12, **changes)
    runs.pretrain([*argv, f"--pretrained_word_embeddings={tmp_path / 'vectors.txt'}"])
    runs.pretrain([*argv, f"--save_dir={tmp_path / 'plain'}"])
    assert "10 of 40 words (25.0%)" in messages()
    vocabulary = Vocabulary.from_file(corpus / "vocab.txt")
    name = "embedding.weight" if changes["input"] == "word" else "words.weight"
    table, plain = (load(tmp_path / run)[f"token_encoder.{name}"] for run in ("run", "plain"))
    for word, vector in zip(words[:-1], vectors, strict=False):
        np.testing.assert_allclose(table[vocabulary.index[word]], vector, atol=1e-6)
    other = vocabulary.index[runs.WORDS[1]]
    np.testing.assert_allclose(table[other], plain[other], atol=1e-9)
    resume = ["--resume", "--pretrained_word_embeddings=nowhere.txt", "--max_steps=2"]
    runs.pretrain([*argv, *resume])
    assert "--pretrained_word_embeddings is not read" in messages()


# The end of a run, and resuming after it


def scores(monkeypatch, perplexities) -> None:
    """Evaluations find these perplexities."""
    losses = iter(np.log(perplexities))
    monkeypatch.setattr(run, "evaluate", lambda *_: Score(-(loss := float(next(losses))), -loss, 1))


@pytest.mark.parametrize(("given", "lr"), [({}, 0.2), ({"optimizer": "adam"}, 0.001), ({"lr": 0.5}, 0.5)])
def test_the_learning_rate_is_by_default_that_of_the_optimizer(tmp_path, given, lr):
    assert run.PretrainingSettings(save_dir=tmp_path, batch_size=1, unroll_steps=1, seed=1, **given).lr == lr


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def best_of(folder: Path) -> tuple[int, float]:
    saved = progress(folder / "best")
    assert saved["best_step"] == saved["step"] == checkpoint.read_names(folder)["best"]
    return saved["best_step"], pytest.approx(saved["best"])


def test_patience_ends_a_run_whose_best_is_kept(corpus, tmp_path, monkeypatch, messages):
    scores(monkeypatch, [30.0, 20.0, 25.0, 22.0, 21.0, 19.0, 18.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=2, patience=3, resume=True)
    runs.pretrain(argv, stop_at=7)  # the stop is no evaluation
    runs.pretrain(argv)
    assert "3 evaluations without improvement" in messages()
    assert best_of(tmp_path) == (4, 20.0)
    assert checkpoint.read_names(tmp_path) == {"best": 4, "final": 10}

    before = content(tmp_path)
    runs.pretrain(argv)
    assert "nothing is left to do" in messages()
    assert before == content(tmp_path)
    runs.pretrain([*argv, "--patience=4", "--max_steps=14"], stop_at=11)
    assert checkpoint.read_names(tmp_path) == {"best": 4, "final": 10}  # until there is a new end
    runs.pretrain([*argv, "--patience=4", "--max_steps=14"])
    assert checkpoint.read_names(tmp_path)["final"] == 14
    assert best_of(tmp_path) == (14, 18.0)


def test_a_run_resumed_before_its_best_model_finds_another(corpus, tmp_path, monkeypatch):
    scores(monkeypatch, [20.0, 10.0, 25.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=4, save_freq=6, max_steps=8)
    runs.pretrain(argv)
    assert best_of(tmp_path) == (8, 10.0)
    shutil.rmtree(tmp_path / "4")
    runs.pretrain([*argv, f"--init_from_ckpt={tmp_path / '6'}", "--overwrite"])
    assert best_of(tmp_path) == (8, 25.0)


def test_a_kill_before_the_names_are_written_loses_no_name(corpus, tmp_path, monkeypatch):
    scores(monkeypatch, [20.0, 30.0])
    argv = runs.flags(corpus, tmp_path, eval_freq=4, max_steps=8, resume=True)
    monkeypatch.setattr(checkpoint, "write_names", mock.Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        runs.pretrain(argv)
    monkeypatch.undo()
    scores(monkeypatch, [30.0])
    runs.pretrain(argv)
    assert best_of(tmp_path) == (4, 20.0) and checkpoint.read_names(tmp_path) == {"best": 4, "final": 8}


def test_a_run_resumed_in_another_folder_begins_its_log_and_its_best(corpus, finished, tmp_path, monkeypatch):
    scores(monkeypatch, [1000.0])
    runs.pretrain(runs.flags(corpus, tmp_path / "run", max_steps=31, eval_freq=31, init_from_ckpt=finished))
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


def test_checkpoints_come_by_time_and_evaluations_in_a_tenth_of_it(corpus, tmp_path, monkeypatch):
    """A step takes a second, an evaluation four."""
    now, step, evaluate = [0.0], run.Trainer._step, run.evaluate
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now[0])

    def second(trainer, *batch):
        now[0] += 1
        return step(trainer, *batch)

    def slow(*arguments):
        now[0] += 4
        return evaluate(*arguments)

    monkeypatch.setattr(run.Trainer, "_step", second)
    monkeypatch.setattr(run, "evaluate", slow)
    monkeypatch.setattr(schedule, "SECONDS", 10)
    monkeypatch.setattr(schedule, "STEPS", 15)
    argv = runs.flags(corpus, tmp_path, max_steps=60, save_freq=None, eval_freq=None, keep=1000, log_freq=100)
    runs.pretrain(argv)
    evaluated = [line["step"] for line in runs.log_lines(tmp_path, "evaluation")]
    assert evaluated[0] == 10 and evaluated[-1] == 60 and len(evaluated) > 2
    assert 4 * (len(evaluated) - 1) <= 0.1 * now[0] + 4
    assert (np.diff([0, *checkpoint.steps(tmp_path)]) <= 15).all()
    assert len(checkpoint.steps(tmp_path)) < 30


def test_an_epoch_ends_with_a_checkpoint(small_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "SHARE", 1e9)
    runs.pretrain(runs.flags(small_corpus, tmp_path, max_steps=24, save_freq=None, eval_freq=None))
    (start,) = runs.log_lines(tmp_path, "start")
    assert checkpoint.steps(tmp_path)[:2] == [start["steps_per_epoch"], 2 * start["steps_per_epoch"] - 1]
    assert [line["step"] for line in runs.log_lines(tmp_path, "evaluation")] == checkpoint.steps(tmp_path)


def test_an_earlier_run_is_not_overwritten_by_accident(corpus, finished, tmp_path):
    argv = runs.flags(corpus, tmp_path, save_freq=10)
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    before = content(tmp_path)
    for changes in ([], [f"--finetune_from={tmp_path}"], [f"--init_from_ckpt={tmp_path / '10'}"]):
        with pytest.raises(UserError, match="--save_dir"):
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
def test_an_earlier_run_stays_until_there_is_something_in_its_place(corpus, finished, tmp_path, monkeypatch, fault):
    folder = shutil.copytree(finished, tmp_path / "run")
    before = content(folder)
    argv = runs.flags(corpus, folder, overwrite=True, save_freq=6, max_steps=8)
    if fault == "corpus":
        argv.append("--train_data_path=nowhere/*")
    with monkeypatch.context() as patched, pytest.raises(UserError if fault == "corpus" else MemoryError):
        patched.setattr(Meter, "add", mock.Mock(side_effect=MemoryError))
        run_pretrain.main(argv)
    assert content(folder) == before


def test_overwriting_replaces_a_run_by_the_first_checkpoint(corpus, finished, tmp_path, messages):
    """Also the checkpoints of the same steps, the log and the names."""
    folder = shutil.copytree(finished, tmp_path / "run")
    runs.pretrain(runs.flags(corpus, folder, overwrite=True, save_freq=10, max_steps=14, seed=3, log_freq=10))
    assert "10, 12, 20" in messages()
    assert checkpoint.steps(folder) == [10, 12, 14]
    assert all(checkpoint.load_config(folder / step)["training"]["seed"] == 3 for step in ("10", "12", "14"))
    assert checkpoint.read_names(folder)["final"] == 14
    assert [line["step"] for line in runs.log_lines(folder, "training")] == [10, 14]
    assert not list(folder.glob(".*.tmp"))


def test_a_run_stopped_before_its_first_step_replaces_nothing(corpus, finished, tmp_path, monkeypatch, messages):
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
    lock = {} if name == "model.safetensors" else {tmp_path / ".lock": b""}  # nothing is written beside a model
    assert content(tmp_path) == {tmp_path / name: b'{"mine": "yes"}', **lock}


def test_what_killed_runs_have_left_is_removed(corpus, tmp_path):
    left = [f".10.{'a' * 16}.tmp/config.json", f".names.json.{'b' * 16}.tmp"]
    others = [f".imported.{'c' * 16}.tmp/model.safetensors", ".10.tmp"]
    for name in left + others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=1))
    assert [name for name in left + others if (tmp_path / name).exists()] == others


def test_a_checkpoint_that_a_kill_has_left_under_a_temporary_name_is_restored(corpus, finished, tmp_path):
    shutil.copytree(finished / "30", tmp_path / f".30.{'a' * 16}.tmp")
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=31, resume=True))
    assert checkpoint.steps(tmp_path) == [30, 31]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("name", ["log.jsonl", "names.json"])
def test_a_link_to_itself_is_an_error(corpus, tmp_path, name):
    (tmp_path / name).symlink_to(name)
    with pytest.raises(UserError, match=name):
        run_pretrain.main(runs.flags(corpus, tmp_path))


def test_a_lock_that_is_a_pipe_is_an_error(corpus, tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(UserError, match=r"\.lock"):
        run_pretrain.main(runs.flags(corpus, tmp_path))


# What must be the same for a resumed run

TEXT = {"seed", "train_data_path", "batch_size", "accumulate"}  # changes after which the epoch starts again


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
        ({"train_data_path": "edited/*"}, "corpus was 3 files of .* bytes .*, is 3 files of .* bytes"),
        ({"dev_data_path": None}, "dev_data was 1 file .*, is None"),
    ],
)
@pytest.mark.usefixtures("any_precision")
def test_a_change_is_named_and_resumes_only_if_allowed(corpus, finished, tmp_path, messages, changes, named):
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
    for name, changes in {"same": {}, "rate": {"lr": 1e-12}, "rows": {"lr": 1e-12, "batch_size": 6}}.items():
        argv = runs.flags(corpus, tmp_path / name, dropout=0, max_steps=21, log_freq=1, allow_changes=True, **changes)
        runs.pretrain([*argv, f"--init_from_ckpt={finished / '20'}"])
        losses[name] = runs.log_lines(tmp_path / name, "training")[-1]["loss"]
    assert losses["rate"] == losses["same"] != losses["rows"]


@pytest.mark.parametrize(
    ("source", "changes", "named"),
    [
        ("init_from_ckpt", {"cell_dim": 14}, "cell_dim was 13, is 14"),
        ("init_from_ckpt", {"word_dim": 7}, "word_dim was 100, is 7"),
        ("init_from_ckpt", {"vocab_file": PROJECT / "data" / "vocabulary.txt"}, "--vocab_file .*vocabulary.txt"),
        ("finetune_from", {"input": "word"}, "input was char, is word"),
        ("finetune_from", {"model_size": "small", "cell_dim": None}, "cell_dim was 13, is 1024"),
    ],
)
def test_a_checkpoint_decides_the_model(corpus, finished, tmp_path, source, changes, named):
    with pytest.raises(UserError, match=named):
        run_pretrain.main(runs.flags(corpus, tmp_path, **{source: finished, **changes}))


def test_adams_rate_follows_the_new_end_and_says_so(corpus, tmp_path, messages):
    argv = runs.flags(corpus, tmp_path, optimizer="adam", warmup_steps=4, log_freq=1, max_steps=10, lr=0.1)
    runs.pretrain(argv)
    rates = [line["learning_rate"] for line in runs.log_lines(tmp_path, "training")]
    np.testing.assert_allclose(rates, 0.1 * np.array([1 / 4, 2 / 4, 3 / 4, 1, *(k / 7 for k in range(6, 0, -1))]))
    runs.pretrain([*argv, "--max_steps=12", "--resume"])
    assert "step 12 instead of 10" in messages()
    runs.pretrain([*argv, "--max_steps=11", "--resume"])
    assert "nothing is left to do" in messages() and "step 11 instead" not in messages()


def test_another_batch_size_starts_the_epoch_again(corpus, tmp_path, messages):
    """Two epochs end where they end. Adam's rate follows the text, too."""
    changes = {"max_steps": None, "epochs": 2, "optimizer": "adam", "warmup_steps": 6, "log_freq": 1}
    changes |= {"dev_data_path": None}
    argv = runs.flags(corpus, tmp_path, **changes)
    runs.pretrain(argv, stop_at=30)
    runs.pretrain([*argv, "--batch_size=10", "--resume", "--allow_changes"])
    assert "beginning of epoch 1" in messages()
    lines = runs.log_lines(tmp_path, "training")
    step = 70 / sum(runs.log_lines(tmp_path, "start")[0][name] for name in ("tokens", "sentences"))  # in epochs
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[29]["epoch"] == pytest.approx(15 * step) and lines[30]["epoch"] == pytest.approx(1 + step)
    assert 2 <= lines[-1]["epoch"] < 2 + step
    rates = np.array([line["learning_rate"] for line in lines]) / 0.001
    np.testing.assert_allclose(rates[:6], np.arange(1, 7) / 6)
    assert (np.diff(rates[5:30]) < 0).all() and (np.diff(rates[30:]) < 0).all() and rates[-1] < 0.1


def test_a_step_follows_the_mean_loss_times_the_steps_of_a_row(corpus, finished, tmp_path):
    """Adagrad's first step on the first batch, from the definitions."""
    changes = {"dropout": 0, "n_negative_samples": 0, "max_grad_norm": 1e9, "lr": 0.3, "max_steps": 1}
    runs.pretrain(runs.flags(corpus, tmp_path, finetune_from=finished, dev_data_path=None, **changes))
    bilm, vocabulary = load_bilm(finished, softmax=True)
    batch = next(TrainStream(Corpus(corpus / "train"), vocabulary, 5, 7, seed=2020))
    candidates = draw_candidates(len(vocabulary), 0, np.random.default_rng())
    losses, _ = bilm(batch, bilm.zero_state(5), candidates)
    (7 * sum(losses) / 2).backward()
    for name, weight in bilm.named_parameters():
        gradient = tiny.dense_gradient(weight)
        expected = weight.numpy() - 0.3 * gradient / np.sqrt(1 + gradient**2)
        np.testing.assert_allclose(load(tmp_path)[name], expected, atol=1e-5, err_msg=name)


def test_each_step_draws_its_own_candidates_and_dropout(corpus, tmp_path, monkeypatch):
    candidates, dropout = set(), set()

    def draw(*given):
        drawn = draw_candidates(*given)
        candidates.add(tuple(drawn.ids))
        return drawn

    def add(meter, *given):
        dropout.add(paddle.rand([1]).item())  # which would have dropped out next
        return add_losses(meter, *given)

    add_losses = Meter.add
    monkeypatch.setattr(run, "draw_candidates", draw)
    monkeypatch.setattr(Meter, "add", add)
    runs.pretrain(runs.flags(corpus, tmp_path, dev_data_path=None, max_steps=5))
    assert len(candidates) >= 5 and len(dropout) == 5


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_accumulated_batches_equal_one_large_batch(corpus, tmp_path, input, optimizer):
    changes = {"input": input, "optimizer": optimizer, "dropout": 0, "max_steps": 6, "log_freq": 1, "lr": 0.01}
    runs.pretrain(runs.flags(corpus, tmp_path / "whole", batch_size=6, eval_freq=100, **changes))
    runs.pretrain(runs.flags(corpus, tmp_path / "parts", batch_size=2, accumulate=3, eval_freq=100, **changes))
    whole, parts = (runs.log_lines(tmp_path / name, "training") for name in ("whole", "parts"))
    assert [line["loss"] for line in parts] == pytest.approx([line["loss"] for line in whole], rel=1e-5)
    weights, expected = (load(tmp_path / name) for name in ("parts", "whole"))
    for name, weight in weights.items():
        np.testing.assert_allclose(weight, expected[name], atol=1e-3 if optimizer == "adam" else 1e-5, err_msg=name)


def test_a_run_that_accumulates_is_resumed_exactly_and_may_regroup_its_rows(corpus, tmp_path, messages):
    argv = runs.flags(corpus, tmp_path / "whole", batch_size=2, accumulate=3, max_steps=12)
    runs.pretrain(argv)
    runs.pretrain([*argv, f"--save_dir={tmp_path / 'parts'}"], stop_at=7)
    resume = [*argv, f"--init_from_ckpt={tmp_path / 'parts' / '7'}"]
    runs.pretrain([*resume, f"--save_dir={tmp_path / 'parts'}"])
    runs.assert_same(tmp_path / "whole" / "final", tmp_path / "parts" / "final")
    runs.pretrain([*resume, f"--save_dir={tmp_path / 'other'}", "--batch_size=6", "--accumulate=1", "--dropout=0.1"])
    assert "beginning" not in messages()


# What is printed and written


def test_the_start_says_what_is_about_to_run(corpus, tmp_path, messages):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=1))
    (line,) = runs.log_lines(tmp_path, "start")
    text = [sentence.split() for path in (corpus / "train").glob("*.txt") for sentence in path.read_text().splitlines()]
    tokens, known = sum(map(len, text)), set((corpus / "vocab.txt").read_text().split())
    unknown = sum(token not in known for sentence in text for token in sentence) / tokens
    weights = load(tmp_path)
    assert line["tokens"] == tokens and line["sentences"] == len(text) and line["vocabulary"] == 40
    assert line["unknown_share"] == pytest.approx(unknown) and unknown > 0
    assert line["steps_per_epoch"] == -(-(tokens + len(text)) // 35) and line["tokens_per_step"] == 35
    assert sum(line["parameters"].values()) == sum(array.size for array in weights.values())
    assert line["parameters"]["softmax"] == 40 * 6 + 40
    for part in (f"{tokens:,} tokens", f"{unknown:.2%}", f"{line['steps_per_epoch']} per epoch", "softmax 280"):
        assert part in messages()


def test_the_progress_line_and_its_record(finished, corpus, tmp_path, messages):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=10))
    number = r"[\d,.]+"
    assert re.search(
        rf"step 10/10  epoch 0\.41  loss {number}  sampled perplexity forward {number} backward {number}  lr 0\.2  "
        rf"{number} tokens/s  0 s left  {number} MB",
        messages(),
    )
    assert messages().count(" took ") == 1 and messages().index("step 1 took") < messages().index("step 5/10")
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    training = [line for line in lines if line["event"] == "training"]
    tokens = sum(
        len(line.split()) + 1 for path in (corpus / "train").glob("*.txt") for line in path.read_text().splitlines()
    )
    assert [line["step"] for line in training] == [5, 10, 15, 20, 25, 30]
    for line in training:
        losses = np.log([line["forward_sampled_perplexity"], line["backward_sampled_perplexity"]])
        assert line["loss"] == pytest.approx(losses.mean())
        assert line["epoch"] == pytest.approx(35 * line["step"] / tokens)
        assert line["tokens_per_second"] > 0 and line["memory_mb"] > 50
    assert [line["step"] for line in lines if line["event"] == "evaluation"] == [12, 24, 30]


def test_a_short_run_has_at_least_20_lines_in_its_log(corpus, tmp_path):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=39, log_freq=None, eval_freq=100))
    assert len(runs.log_lines(tmp_path, "training")) == 39


@pytest.mark.slow
def test_a_short_run_comes_near_the_best_possible(corpus, tmp_path):
    """The best possible is the score of the text's source. After 5 steps perplexity is 8 times that, after 300 1.2 times."""
    (tmp_path / "train.txt").write_text("\n".join(runs.sentences(3000, seed=5)) + "\n", encoding="utf-8")
    dev = [sentence.split() for sentence in runs.sentences(30, seed=99)]
    (tmp_path / "dev.txt").write_text("\n".join(map(" ".join, dev)) + "\n", encoding="utf-8")
    best = np.exp(sum(runs.surprise(sentence) for sentence in dev) / sum(len(sentence) + 1 for sentence in dev))
    data = {"train_data_path": tmp_path / "train.txt", "dev_data_path": tmp_path / "dev.txt"}
    data |= {"batch_size": 32, "unroll_steps": 10, "n_negative_samples": 0}
    model = {"cell_dim": 32, "projection_dim": 16, "dropout": 0, "lr": 0.2}
    runs.pretrain(runs.flags(corpus, tmp_path / "run", max_steps=300, eval_freq=300, **data, **model))
    (evaluation,) = runs.log_lines(tmp_path / "run", "evaluation")
    for direction in ("forward", "backward"):
        assert 0.95 * best < evaluation[f"{direction}_perplexity"] < 1.4 * best


# Mistakes


def test_a_damaged_or_partial_checkpoint_is_an_error(corpus, finished, tmp_path):
    damaged, partial = (shutil.copytree(finished / "20", tmp_path / name) for name in ("damaged", "partial"))
    (damaged / "progress.json").write_text((damaged / "progress.json").read_text().replace("1", "2"))
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


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(corpus, tmp_path):
    """The same number of steps over one file of text, and over fifty like it, each with its own words."""
    text = runs.sentences(2000, seed=1)
    for k in range(50):
        words = "\n".join(f"{sentence} only{k}x{i}" for i, sentence in enumerate(text)) + "\n"
        (tmp_path / f"{k}.txt").write_text(words, encoding="utf-8")
    most = []
    for name in ("0.txt", "*.txt"):
        changes = {"train_data_path": tmp_path / name, "dev_data_path": None, "batch_size": 64, "max_steps": 150}
        argv = runs.flags(corpus, tmp_path / "run", **changes)
        assert runs.start("run_pretrain.py", [*argv, "--overwrite"], tmp_path / "output").wait(timeout=120) == 0
        lines = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines())
        most.append(max(line["memory_mb"] for line in lines if line["event"] == "training"))
    assert most[1] < most[0] + 15
