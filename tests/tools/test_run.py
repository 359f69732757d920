"""A run of pretraining: exact resume, faults, its steps, its end, what it prints."""

import itertools
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import runs
import tiny
from pretraining_runs import best_of, content, load, progress, scores
from project import PROJECT

import run_eval
import run_pretrain
from elmo import load_bilm
from elmo_core.encoding.encoder import mean_start_state
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.network.softmax import draw_candidates
from elmo_core.text.corpus import Corpus
from elmo_core.text.speller import UnknownWords
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run
from elmo_tools.pretraining.meter import Meter
from elmo_tools.pretraining.streams import TrainStream

pytestmark = pytest.mark.usefixtures("no_fsync")
KINDS = list(itertools.product(("char", "word"), ("adagrad", "adam")))
ON_RANKS = [("char", "adagrad"), ("word", "adam")]


# Exact resume


OTHERS = [("char", "adam", {"noise": 0.4}), ("char", "adagrad", {"precision": "bfloat16"})]


@pytest.mark.usefixtures("any_precision")
@pytest.mark.parametrize(
    ("input", "optimizer", "changes"), [*((*kind, {}) for kind in KINDS), *OTHERS]
)
def test_a_resumed_run_equals_one_that_never_stopped(
    small_corpus, tmp_path, input, optimizer, changes
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    kind = {
        "input": input,
        "optimizer": optimizer,
        "max_steps": 15,
        "eval_freq": 6,
        "log_freq": 4,
        **changes,
    }
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
    """Folder of runs on two ranks: of each kind whole-* and parts-*.

    The halves of parts-* were run by different processes.
    """
    folder = tmp_path_factory.mktemp("ranks")

    def kind(name, input, optimizer, **changes):
        save_dir = folder / f"{name}-{input}-{optimizer}"
        return runs.flags(corpus, save_dir, input=input, optimizer=optimizer, keep=20, **changes)

    def run(jobs):
        processes = runs.start_ranks("tests/support/rank_runs.py", [json.dumps(jobs)], folder)
        assert [process.wait(timeout=120) for process in processes] == [0, 0], (
            folder / "rank0"
        ).read_text()

    run([(kind("whole", *k), None) for k in ON_RANKS] + [(kind("parts", *k), 8) for k in ON_RANKS])
    grown = runs.flags(corpus, folder / "grown", init_from_ckpt=finished / "20", allow_changes=True)
    resumed = [
        kind("parts", *k, init_from_ckpt=folder / "parts-{}-{}".format(*k)) for k in ON_RANKS
    ]
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
    argv = runs.flags(
        corpus, tmp_path, init_from_ckpt=two_ranks / "parts-char-adagrad" / "8", max_steps=12
    )
    with pytest.raises(UserError, match="world_size was 2, is 1"):
        run_pretrain.main(argv)
    runs.pretrain([*argv, "--allow_changes"])
    assert checkpoint.steps(tmp_path)[-1] == 12 and "beginning of epoch 0" in messages()
    assert progress(tmp_path)["tokens"] == 4 * 35
    assert_ranks_agree(two_ranks / "grown")
    assert [line["step"] for line in runs.log_lines(two_ranks / "grown", "training")] == [25, 30]


# Kills, signals, faults


def test_a_crash_costs_only_the_steps_since_the_last_checkpoint(
    corpus, finished, tmp_path, monkeypatch
):
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
    losses = [
        [line["loss"] for line in runs.log_lines(folder, "training")]
        for folder in (tmp_path, finished)
    ]
    assert losses[0] == losses[1][:4]


def test_a_warning_about_text_on_one_line(corpus, tmp_path, messages):
    (tmp_path / "train").write_text("a b c " * 200, encoding="utf-8")
    runs.pretrain(
        runs.flags(
            corpus,
            tmp_path / "run",
            train_data_path=tmp_path / "train",
            dev_data_path=None,
            max_steps=2,
        )
    )
    assert "1 sentence for 5 rows" in messages()


# The end of a run, and resuming after it


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


@pytest.mark.parametrize(
    ("source", "changes", "named"),
    [
        ("init_from_ckpt", {"cell_dim": 14}, "cell_dim was 13, is 14"),
        ("init_from_ckpt", {"word_dim": 7}, "word_dim was 100, is 7"),
        (
            "init_from_ckpt",
            {"vocab_file": PROJECT / "data" / "vocabulary.txt"},
            "`vocab_file` .*vocabulary.txt",
        ),
        ("finetune_from", {"input": "word"}, "input was char, is word"),
        ("finetune_from", {"model_size": "small", "cell_dim": None}, "cell_dim was 13, is 1024"),
    ],
)
def test_a_checkpoint_decides_the_model(corpus, finished, tmp_path, source, changes, named):
    with pytest.raises(UserError, match=named):
        run_pretrain.main(runs.flags(corpus, tmp_path, **{source: finished, **changes}))


def test_a_step_follows_the_mean_loss_times_the_steps_of_a_row(corpus, finished, tmp_path):
    """Adagrad's first step on the first batch, from the definitions."""
    changes = {
        "dropout": 0,
        "n_negative_samples": 0,
        "max_grad_norm": 1e9,
        "lr": 0.3,
        "max_steps": 1,
    }
    runs.pretrain(
        runs.flags(corpus, tmp_path, finetune_from=finished, dev_data_path=None, **changes)
    )
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
    changes = {
        "input": input,
        "optimizer": optimizer,
        "dropout": 0,
        "max_steps": 6,
        "log_freq": 1,
        "lr": 0.01,
    }
    runs.pretrain(runs.flags(corpus, tmp_path / "whole", batch_size=6, eval_freq=100, **changes))
    runs.pretrain(
        runs.flags(corpus, tmp_path / "parts", batch_size=2, accumulate=3, eval_freq=100, **changes)
    )
    whole, parts = (runs.log_lines(tmp_path / name, "training") for name in ("whole", "parts"))
    assert [line["loss"] for line in parts] == pytest.approx(
        [line["loss"] for line in whole], rel=1e-5
    )
    weights, expected = (load(tmp_path / name) for name in ("parts", "whole"))
    for name, weight in weights.items():
        np.testing.assert_allclose(
            weight, expected[name], atol=1e-3 if optimizer == "adam" else 1e-5, err_msg=name
        )


def test_a_run_that_accumulates_is_resumed_exactly_and_may_regroup_its_rows(
    corpus, tmp_path, messages
):
    argv = runs.flags(corpus, tmp_path / "whole", batch_size=2, accumulate=3, max_steps=12)
    runs.pretrain(argv)
    runs.pretrain([*argv, f"--save_dir={tmp_path / 'parts'}"], stop_at=7)
    resume = [*argv, f"--init_from_ckpt={tmp_path / 'parts' / '7'}"]
    runs.pretrain([*resume, f"--save_dir={tmp_path / 'parts'}"])
    runs.assert_same(tmp_path / "whole" / "final", tmp_path / "parts" / "final")
    runs.pretrain(
        [
            *resume,
            f"--save_dir={tmp_path / 'other'}",
            "--batch_size=6",
            "--accumulate=1",
            "--dropout=0.1",
        ]
    )
    assert "beginning" not in messages()


# What is printed and written


def test_checkpoints_can_spell_and_begin_sentences(corpus, tmp_path, capsys):
    """From the words of the text outside the vocabulary, and the states behind held-out sentences.

    The log has the bits that the held-out text takes, as run_eval.py prints them.
    """
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=3))
    bilm, vocabulary = load_bilm(tmp_path, softmax=True)
    unknown = Counter(itertools.chain.from_iterable(Corpus(corpus / "train").sentences()))
    for token in vocabulary.tokens:
        unknown.pop(token, None)
    assert unknown and vocabulary.unknown_words == UnknownWords(unknown, unknown.total())
    start = mean_start_state(bilm, vocabulary, Corpus(corpus / "dev.txt").sentences())
    np.testing.assert_allclose(bilm.start_state.h, start.h, atol=1e-6)
    *_, evaluation = runs.log_lines(tmp_path, "evaluation")
    capsys.readouterr()
    run_eval.main(
        [f"--init_from_ckpt={tmp_path}", f"--dev_data_path={corpus / 'dev.txt'}", "--device=cpu"]
    )
    printed = re.findall(r"([\d.]+) bits per character, ([\d.]+) per byte", capsys.readouterr().out)
    means = np.array(printed, float).mean(axis=0)  # of the directions
    values = [evaluation["bits_per_character"], evaluation["bits_per_byte"]]
    assert values == pytest.approx(means, abs=1e-3)


def test_the_start_says_what_is_about_to_run(corpus, tmp_path, messages):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=1))
    (line,) = runs.log_lines(tmp_path, "start")
    text = [
        sentence.split()
        for path in (corpus / "train").glob("*.txt")
        for sentence in path.read_text().splitlines()
    ]
    tokens, known = sum(map(len, text)), set((corpus / "vocab.txt").read_text().split())
    unknown = sum(token not in known for sentence in text for token in sentence) / tokens
    weights = load(tmp_path)
    assert line["tokens"] == tokens and line["sentences"] == len(text) and line["vocabulary"] == 40
    assert line["unknown_share"] == pytest.approx(unknown) and unknown > 0
    assert (
        line["steps_per_epoch"] == -(-(tokens + len(text)) // 35) and line["tokens_per_step"] == 35
    )
    sizes = [array.size for name, array in weights.items() if not name.startswith("start.")]
    assert sum(line["parameters"].values()) == sum(sizes)
    assert line["parameters"]["softmax"] == 40 * 6 + 40
    for part in (
        f"{tokens:,} tokens",
        f"{unknown:.2%}",
        f"{line['steps_per_epoch']} per epoch",
        "softmax 280",
    ):
        assert part in messages()


def test_a_short_run_has_at_least_20_lines_in_its_log(corpus, tmp_path):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=39, log_freq=None, eval_freq=100))
    assert len(runs.log_lines(tmp_path, "training")) == 39


@pytest.mark.slow
def test_a_short_run_comes_near_the_best_possible(corpus, tmp_path):
    """The best possible is the score of the text's source.

    After 5 steps perplexity is 8 times that, after 300 1.2 times.
    """
    (tmp_path / "train.txt").write_text(
        "\n".join(runs.sentences(3000, seed=5)) + "\n", encoding="utf-8"
    )
    dev = [sentence.split() for sentence in runs.sentences(30, seed=99)]
    (tmp_path / "dev.txt").write_text("\n".join(map(" ".join, dev)) + "\n", encoding="utf-8")
    loss = sum(runs.surprise(sentence) for sentence in dev)
    best = np.exp(loss / sum(len(sentence) + 1 for sentence in dev))
    data = {
        "train_data_path": tmp_path / "train.txt",
        "dev_data_path": tmp_path / "dev.txt",
        "batch_size": 32,
        "unroll_steps": 10,
        "n_negative_samples": 0,
    }
    model = {"cell_dim": 32, "projection_dim": 16, "dropout": 0, "lr": 0.2}
    runs.pretrain(
        runs.flags(corpus, tmp_path / "run", max_steps=300, eval_freq=300, **data, **model)
    )
    (evaluation,) = runs.log_lines(tmp_path / "run", "evaluation")
    for direction in ("forward", "backward"):
        assert 0.95 * best < evaluation[f"{direction}_perplexity"] < 1.4 * best


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(corpus, tmp_path):
    """The same number of steps over one file of text, and over fifty like it.

    Each has its own words.
    """
    text = runs.sentences(2000, seed=1)
    for k in range(50):
        words = "\n".join(f"{sentence} only{k}x{i}" for i, sentence in enumerate(text)) + "\n"
        (tmp_path / f"{k}.txt").write_text(words, encoding="utf-8")
    most = []
    for name in ("0.txt", "*.txt"):
        changes = {
            "train_data_path": tmp_path / name,
            "dev_data_path": None,
            "batch_size": 64,
            "max_steps": 150,
        }
        argv = [*runs.flags(corpus, tmp_path / "run", **changes), "--overwrite"]
        process = runs.start("run_pretrain.py", argv, tmp_path / "output")
        assert process.wait(timeout=120) == 0
        log = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in log.splitlines()]
        most.append(max(line["memory_mb"] for line in lines if line["event"] == "training"))
    assert most[1] < most[0] + 15
