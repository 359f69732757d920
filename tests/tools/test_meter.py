"""The meter of a run: losses that are not finite, and the lines of its log."""

import json
import re

import numpy as np
import pytest
import runs
from pretraining_runs import poison

import run_pretrain
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.meter import Meter

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.mark.parametrize(
    "due", [{"save_freq": 12}, {"eval_freq": 12}, {"log_freq": 12}, {"max_steps": 12}, None]
)
def test_a_loss_that_is_not_finite_stops_the_run_and_is_not_saved(
    corpus, tmp_path, monkeypatch, due
):
    """At once on a CPU; on a GPU, which would wait for each loss, when something is due."""
    start = Meter.__init__

    def start_waiting(meter, sums):
        start(meter, sums)
        meter.checks_at_once = False

    if due:
        monkeypatch.setattr(Meter, "__init__", start_waiting)
        monkeypatch.setattr(paddle.device.cuda, "synchronize", lambda: None)
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


def test_the_progress_line_and_its_record(finished, corpus, tmp_path, messages):
    runs.pretrain(runs.flags(corpus, tmp_path, max_steps=10))
    number = r"[\d,.]+"
    assert re.search(
        rf"step 10/10  epoch 0\.41  loss {number}  "
        rf"sampled perplexity forward {number} backward {number}  "
        rf"lr 0\.2  {number} tokens/s  0 s left  {number} MB",
        messages(),
    )
    assert messages().count(" took ") == 1
    assert messages().index("step 1 took") < messages().index("step 5/10")
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    training = [line for line in lines if line["event"] == "training"]
    tokens = sum(
        len(line.split()) + 1
        for path in (corpus / "train").glob("*.txt")
        for line in path.read_text().splitlines()
    )
    assert [line["step"] for line in training] == [5, 10, 15, 20, 25, 30]
    for line in training:
        losses = np.log([line["forward_sampled_perplexity"], line["backward_sampled_perplexity"]])
        assert line["loss"] == pytest.approx(losses.mean())
        assert line["epoch"] == pytest.approx(35 * line["step"] / tokens)
        assert line["tokens_per_second"] > 0 and line["memory_mb"] > 50
    assert [line["step"] for line in lines if line["event"] == "evaluation"] == [12, 24, 30]
