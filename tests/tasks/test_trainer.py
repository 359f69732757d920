"""The trainer.

The moving average of the weights, learning rates, the best epoch, resuming, what is held out.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_tasks import Tagger, TaggerSettings
from elmo_tasks.score import PlainScore
from elmo_tasks.settings import TrainingSettings
from elmo_tasks.trainer import WeightAverage, hold_out, learning_rate, make_optimizer

SENTENCES = [["Anna", "lives", "in", "Paris"], ["Paris", "is", "large"]]
LABELS = [["PER", "O", "O", "LOC"], ["LOC", "O", "O"]]
SETTINGS = TaggerSettings(
    elmo=None, epochs=1, lr=0.02, hidden_dim=7, n_layers=1, word_dim=5, dropout=0.0, scheme="plain"
)


def train(settings: TaggerSettings) -> Tagger:
    data = SENTENCES, LABELS
    return Tagger.train(*data, dev=data, settings=settings, progress=False, device="cpu")


def weights_of(tagger: Tagger) -> dict[str, np.ndarray]:
    return {name: weight.numpy() for name, weight in tagger.trained_weights().items()}


# The moving average


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_the_average_is_that_of_the_recursion(decay):
    generator = np.random.default_rng(1)
    steps = generator.normal(size=(40, 3, 2)).astype(np.float32)
    weight = paddle.to_tensor(steps[0])
    average = WeightAverage({"w": weight}, decay)
    expected = steps[0].astype(np.float64)
    for k in range(1, len(steps)):
        weight.set_value(steps[k])
        average.update()
        kept = min(decay, k / (k + 9))  # 0.1, 0.18, 0.25, ...
        expected = kept * expected + (1 - kept) * steps[k]
        np.testing.assert_allclose(average.averages["w"].numpy(), expected, atol=1e-6)


def test_the_initial_weights_are_soon_forgotten():
    weight = paddle.zeros([1])
    average = WeightAverage({"w": weight}, 0.999)
    weight.set_value(paddle.ones([1]))
    average.update()
    assert average.averages["w"].item() == pytest.approx(0.9)
    for _ in range(9):
        average.update()
    assert average.averages["w"].item() > 0.999


def test_the_average_is_applied_for_a_while():
    weight = paddle.zeros([1])
    average = WeightAverage({"w": weight}, 0.9)
    weight.set_value(paddle.full([1], 2.0))
    average.update()
    with average.applied():
        assert weight.item() == pytest.approx(1.8)
    assert weight.item() == 2


def test_the_model_has_the_averaged_weights():
    """After one step, a tenth of the initial weights and nine tenths of those after it."""
    initial, plain, averaged = (
        weights_of(train(replace(SETTINGS, **changes)))
        for changes in ({"epochs": 0}, {}, {"ema": 0.99})
    )
    for name, weight in averaged.items():
        np.testing.assert_allclose(
            weight, 0.1 * initial[name] + 0.9 * plain[name], atol=1e-6, err_msg=name
        )
    assert any(not np.allclose(initial[name], plain[name]) for name in initial)


# Learning rates


def test_the_learning_rate_rises_and_falls():
    settings = TrainingSettings(lr=0.1, warmup=0.2, final_lr=0.5)
    rates = [learning_rate(settings, share) for share in (0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.05, 0.1, 0.075, 0.05])
    first = [learning_rate(TrainingSettings(warmup=warmup), 0.0) for warmup in (0.0, 0.001, 0.1)]
    assert first == pytest.approx([0.002, 0.002, 0.0002])


def test_learning_rates_of_the_parts(checkpoints):
    """The first step of Adam is as long as the learning rate."""
    options = {
        "elmo": checkpoints["word"],
        "elmo_trainable": True,
        "elmo_lr": 0.001,
        "layers": "mix",
    }
    settings = replace(SETTINGS, lr=0.01, emb_lr_factor=5.0, **options)
    before, after = weights_of(train(replace(settings, epochs=0))), weights_of(train(settings))
    for name, rate in {
        "inputs.words.embedding.weight": 0.05,
        "emission.weight": 0.01,
        "crf.transitions": 0.002,
        "inputs.elmo.bilm.token_encoder.embedding.weight": 0.001,
    }.items():
        assert np.abs(after[name] - before[name]).max() == pytest.approx(rate, rel=1e-2), name


def test_what_is_decayed():
    settings = replace(SETTINGS, weight_decay=0.1)
    tagger = Tagger.create(
        settings, {"labels": ["a", "b"], "words": ["c"], "known": None, "pieces": None}, "cpu"
    )
    decay = make_optimizer(tagger.network, settings).weight_decay
    assert "emission.weight" in decay and not any(
        "embedding" in name or "bias" in name for name in decay
    )


# The best epoch


def scored(value: float) -> PlainScore:
    """A score on the dev set."""
    return PlainScore({"value": value}, value)


def test_the_first_best_epoch_is_kept_and_patience_ends_the_training(monkeypatch):
    values, weights = [1, 3, 2, 3, 9, 9], []  # of the score, and of the model, by epoch

    def measure(tagger, *_) -> PlainScore:
        weights.append(weights_of(tagger))
        return scored(values[len(weights) - 1])

    monkeypatch.setattr(Tagger, "measure", measure)
    tagger = train(replace(SETTINGS, epochs=6, patience=2))
    assert len(weights) == 4 and tagger.training["epoch"] == 2
    for name, weight in weights_of(tagger).items():
        np.testing.assert_array_equal(weight, weights[1][name], err_msg=name)


@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_training_continues_bit_for_bit(tmp_path, monkeypatch, stop):
    """Each epoch is scored better than those before it: the model has the weights of the last."""
    if not paddle_compat.random_states(paddle):
        version = paddle.__version__
        pytest.skip(f"paddle {version} hides the state of its generator, which dropout draws from")
    scores = itertools.count()
    monkeypatch.setattr(Tagger, "measure", lambda *_: scored(next(scores)))

    def interrupt(scores) -> None:
        if scores["epoch"] == stop:
            raise KeyboardInterrupt

    data = SENTENCES * 6, LABELS * 6
    settings = replace(SETTINGS, epochs=4, dropout=0.5, ema=0.9, batch_size=3)
    options = {"dev": data, "settings": settings, "device": "cpu"}
    whole = Tagger.train(*data, **options, progress=False)
    with pytest.raises(KeyboardInterrupt):
        Tagger.train(*data, **options, save_dir=tmp_path / "model", progress=interrupt)
    resumed = Tagger.train(
        *data, **options, save_dir=tmp_path / "model", resume=True, progress=False
    )
    assert whole.training["epoch"] == resumed.training["epoch"] == 4
    for name, weight in weights_of(resumed).items():
        np.testing.assert_array_equal(weight, weights_of(whole)[name], err_msg=name)


# What is held out


@pytest.mark.parametrize(("n", "expected"), [(2, 1), (10, 1), (25, 2), (60, 6)])
def test_a_tenth_is_held_out(n, expected):
    train, dev = hold_out(range(n), seed=1)
    assert len(dev) == expected and sorted([*train, *dev]) == list(range(n))
    assert hold_out(range(n), seed=1) == (train, dev)


def test_of_one_example_nothing_can_be_held_out():
    with pytest.raises(UserError, match="dev"):
        hold_out(["one"], seed=1)
