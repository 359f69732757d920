"""The verdict on a run: what it compares, and what it advises."""

import json

import pytest
import runs

from elmo_core.text.corpus import Counts
from elmo_tools.pretraining.baseline import Baseline
from elmo_tools.pretraining.progress import Progress
from elmo_tools.pretraining.settings import PretrainingSettings
from elmo_tools.pretraining.verdict import find_trend, verdict

pytestmark = pytest.mark.usefixtures("no_fsync")
NGRAMS = Baseline(order=5, unigrams=500.0, perplexity=206.1, halved=250.0, sample=1000, tokens=1000)


def verdict_of(evaluations, unknown=0, baseline=NGRAMS, **settings):
    """The text of the verdict on a run of 100 steps per epoch."""
    progress = Progress(
        tokens_per_step=11,
        counts=Counts(sentences=100, tokens=1000, looked_up=1000, unknown=unknown),
        position={},
        states=[],
        warmup=0,
    )
    for step, perplexity in evaluations:
        progress.step = step
        progress.add_evaluation(perplexity)
    text, _ = verdict(progress, evaluations, baseline, PretrainingSettings(**settings))
    return text


def test_a_perplexity_that_still_falls_asks_for_twice_the_epochs():
    falling = [(100, 300.0), (200, 200.0), (300, 180.0)]
    text = verdict_of(falling, epochs=3)
    assert "180.00" in text
    assert "206.10" in text
    assert "fell by 10.0% from step 200" in text
    assert "`epochs=6`" in text
    assert "`max_steps=600`" in verdict_of(falling, max_steps=300)


def test_a_perplexity_that_hardly_falls_asks_for_more_text():
    text = verdict_of([(100, 200.0), (200, 180.0), (300, 179.0)])
    assert "more text" in text
    assert "epochs=" not in text


def test_a_perplexity_that_has_risen_asks_to_stop_earlier():
    risen = [(100, 200.0), (200, 180.0), (300, 189.0)]
    text = verdict_of(risen)
    assert "180.00" in text
    assert "risen by 5.0%" in text
    assert "step 200" in text
    assert "`patience=3`" in text
    assert "patience" not in verdict_of(risen, patience=1)


def test_the_trend_is_that_of_the_last_epoch_if_there_was_one():
    often = [(50, 400.0), (100, 300.0), (150, 250.0), (200, 240.0)]
    assert find_trend(often, steps_per_epoch=100).since == 100
    assert find_trend(often, steps_per_epoch=1000).since == 50
    assert find_trend(often[:1], steps_per_epoch=100).fall is None


def test_many_unknown_words_ask_for_a_larger_vocabulary():
    evaluations = [(100, 200.0)]
    assert "min_count" not in verdict_of(evaluations, unknown=50)
    text = verdict_of(evaluations, unknown=51)
    assert "5.1% of the words" in text
    assert "min_count" in text


def test_a_sample_of_the_text_is_said_to_be_one():
    sample = Baseline(
        order=5, unigrams=500.0, perplexity=206.1, halved=250.0, sample=1000, tokens=3000
    )
    assert "1,000 tokens of" in verdict_of([(100, 200.0)], baseline=sample)
    assert "the same text" in verdict_of([(100, 200.0)])


def test_without_held_out_text_only_unknown_words_are_judged():
    assert not verdict_of([], baseline=None)
    text = verdict_of([], baseline=None, unknown=100)
    assert "10.0% of the words" in text
    assert "perplexity" not in text


def test_a_run_ends_with_its_verdict(corpus, tmp_path, messages):
    runs.pretrain(runs.flags(corpus, tmp_path, eval_freq=10))
    record = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert record["event"] == "verdict"
    evaluations = runs.log_lines(tmp_path, "evaluation")
    assert record["perplexity"] == min(line["perplexity"] for line in evaluations)
    assert record["kneser_ney_perplexity"] > 1
    assert "verdict " in messages()


def test_an_interrupted_run_has_no_verdict(corpus, tmp_path, messages):
    runs.pretrain(runs.flags(corpus, tmp_path, eval_freq=10), stop_at=15)
    assert "verdict" not in messages()
