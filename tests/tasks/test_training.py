"""The tasks' training loop: best epoch, patience, averaged weights, saving."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import run_finetune
import run_read
import run_tag
from elmo_core.files import disk
from elmo_core.files.tensors import read_tensors
from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks import Reader, Tagger
from elmo_tasks.pretrained import ELMoSettings
from elmo_tasks.saved import LOCK, TrainedModel, check_model_folder, part
from elmo_tasks.training import Run, TrainingSettings, TrainingState, fit, hold_out, search


@dataclass
class Score:
    value: float
    summary: str = ""


class Line(TrainedModel):
    """A model y = w x that learns y = 3 x and records when it is saved."""

    kind, settings = "line", ELMoSettings()
    noise: float = part(float, default=0.0)

    def make_network(self) -> paddle.nn.Layer:
        self.saved = []
        network = paddle.nn.Linear(1, 1, bias_attr=False)
        network.weight.set_value(np.array([[1.0]], np.float32))
        return network

    @property
    def w(self) -> float:
        return self.network.weight.item()

    def loss(self, x: float) -> paddle.Tensor:
        return (self.network(paddle.to_tensor([[x]])) - 3 * x - self.noise * paddle.rand([1])).square().mean()

    def save(self, folder) -> None:
        self.saved.append("all")
        super().save(folder)

    def save_weights(self, folder) -> None:
        self.saved.append(self.w)
        super().save_weights(folder)


def fitted(scores: list[float], folder=None, resume=False, noise=0.0, **schedule) -> tuple[Line, list[float], object]:
    """Returns the model, its weight at each scoring, and the best epoch. scores: one per epoch; then Ctrl-C is pressed."""
    model, seen, scores = Line.create(noise=noise), [], iter(scores)

    def score(model: Line) -> Score:
        seen.append(model.w)
        value = next(scores, None)
        if value is None:
            raise KeyboardInterrupt
        return Score(value, f"F1 {value}")

    def batches(random: np.random.Generator) -> list[float]:
        return random.permutation([1.0, 2.0]).tolist()

    best = fit(model, batches, model.loss, score, TrainingSettings(lr=0.1, **schedule), folder, resume)
    return model, seen, best


def test_the_best_epoch_is_kept_and_training_stops_without_improvement(tmp_path):
    model, seen, best = fitted([1, 3, 2, 3, 1], tmp_path, epochs=9, patience=3)
    assert len(seen) == 5 and len(set(seen)) == 5  # the second 3 is no improvement
    assert (best.epoch, best.score.value, model.w) == (2, 3, seen[1])
    assert model.saved == ["all", seen[0], seen[1]]
    assert len(fitted([1] * 9, epochs=9, patience=0)[1]) == 9


@pytest.mark.parametrize("stop", [1, 2, 4, 5])
@pytest.mark.parametrize("saved", [True, False])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, messages, monkeypatch, stop, saved):
    """saved: stopped by Ctrl-C in the next epoch; otherwise killed between saving its weights and its state."""
    noise = float(bool(versions.random_states(paddle)))  # Paddle 2.6 hides its generator
    scores, settings = [1, 3, 2, 4, 4, 5, 1, 1], {"epochs": 8, "ema": 0.3, "patience": 2, "noise": noise}
    paddle.seed(3)
    model, seen, best = fitted(scores, tmp_path / "whole", **settings)
    paddle.seed(3)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        save = TrainingState.save
        patched.setattr(TrainingState, "save", lambda state, folder: state.epoch <= stop and save(state, folder))
        fitted(scores[: stop if saved else stop + 1], tmp_path / "run", **settings)
    so_far = max(scores[:stop])
    assert f"stopped in epoch {stop + 1 + (not saved)}" in messages() and "resume=True" in messages()
    with pytest.raises(UserError, match=r"epochs was 8, is 9"):
        fitted([so_far], tmp_path / "run", resume=True, **{**settings, "epochs": 9})
    paddle.seed(4)
    again, seen_again, resumed = fitted([so_far, *scores[stop:]], tmp_path / "run", resume=True, **settings)
    assert seen_again[1:] == seen[stop:] and (resumed.epoch, again.w) == (best.epoch, model.w) == (6, seen[5])
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.json", "model.safetensors"]
    with pytest.raises(UserError, match="no interrupted training"):
        check_model_folder(tmp_path / "run", "line", overwrite=False, resume=True)


@pytest.mark.parametrize("script", [run_tag, run_read, run_finetune])
def test_one_training_at_a_time_writes_a_folder(script, tmp_path):
    (tmp_path / "tokens").write_text("a B-x\nb O\n\n" * 9, encoding="utf-8")
    (tmp_path / "texts").write_text("a cat\tx\na dog\ty\n" * 30, encoding="utf-8")
    answer = {"text": ["cat"], "answer_start": [2]}
    examples = [{"id": str(k), "context": f"a cat {k}", "question": "what ?", "answers": answer} for k in range(9)]
    (tmp_path / "questions").write_text("\n".join(map(json.dumps, examples)), encoding="utf-8")
    data = {run_tag: "tokens", run_read: "questions", run_finetune: "texts"}[script]
    folder, written = tmp_path / "model", [tmp_path / "model"]
    flags = ["train", f"--train_file={tmp_path / data}", "--init_from_ckpt=none", f"--save_dir={folder}", "--epochs=1"]
    if script is run_finetune:
        flags += ["--folds=2", f"--results={tmp_path / 'r.json'}"]
        written.append(tmp_path / "r.json.parts")
    for locked in written:
        locked.mkdir()
        with disk.locked(locked / LOCK), pytest.raises(disk.FileLocked, match=locked.name):
            script.main(flags)
        assert [path.name for path in locked.iterdir()] == [LOCK]
    script.main(flags)
    assert (folder / "model.safetensors").exists()


def test_averaged_weights_are_scored_and_saved():
    plain, mean = fitted([1], epochs=1)[0], fitted([1], epochs=1, ema=0.5)
    steps = [1.0 + 0.1, plain.w]  # Adam's first step is as long as the learning rate
    expected = 1.0
    for decay, weight in zip((0.1, 2 / 11), steps, strict=True):  # t / (t + 9), still below 0.5
        expected = decay * expected + (1 - decay) * weight
    assert mean[0].w == mean[1][0] == pytest.approx(expected, abs=1e-5)


def test_a_learning_rate_that_is_too_high_is_an_error():
    model = Line.create()
    with pytest.raises(UserError, match="`lr`"):
        fit(model, lambda _: [1e30], model.loss, lambda _: Score(1), TrainingSettings(lr=1e30))


def test_rare_words_are_unknown():
    assert Vocabulary.frequent("abbccc", 2).tokens == [*SPECIAL_TOKENS, "c", "b"]


def test_a_tenth_is_held_out():
    train, dev = hold_out(range(50), seed=1)
    assert len(dev) == 5 and sorted([*train, *dev]) == list(range(50))
    assert hold_out(range(50), seed=1) == (train, dev) and hold_out(range(50), seed=2)[1] != dev
    assert len(hold_out("ab", 1)[1]) == 1
    with pytest.raises(UserError, match="`dev`"):
        hold_out("a", 1)


def test_of_several_values_the_best_is_kept(tmp_path):
    """In the folder, too. An interrupted run is continued, those before it are not repeated."""
    scores, trained = {0.1: 2, 0.2: 5, 0.3: 5, 0.4: 1}, []

    def train(run: Run, resume: bool):
        model, settings = Line.create(), TrainingSettings(epochs=2, **run.settings)
        trained.append((settings.lr, resume))
        if stop and settings.lr == 0.3:
            raise KeyboardInterrupt
        return fit(model, lambda _: [1.0], model.loss, score, settings, tmp_path, resume, run=run)

    def score(model: Line) -> Score:
        return Score(scores[trained[-1][0]] if len(trained) < 9 else 0)

    stop = True
    with pytest.raises(KeyboardInterrupt):
        search(train, {"lr": list(scores)})
    stop = False
    trained.clear()
    best = search(train, {"lr": list(scores)})
    assert trained == [(lr, False) for lr in scores] and best.settings == {"lr": 0.2} and best.epoch == 1
    saved = read_tensors(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(saved["weight"], best.model.network.weight.numpy())
    trained.clear()
    with pytest.raises(UserError):  # of what would be continued, there is nothing
        search(train, {"lr": list(scores)}, resume_at=2)
    assert trained == [(0.3, True)]


@pytest.mark.parametrize("task", ["tagger", "reader"])
def test_taggers_and_readers_select_values(tmp_path, task):
    quick = {"epochs": 2, "lr": [0.001, 0.02], "dropout": [0.1, 0.3], "device": "cpu", "save_dir": tmp_path / "model"}
    if task == "tagger":
        sentences, labels = [["Anna", "left"], ["Paris", "."]] * 6, [["B-PER", "O"], ["B-LOC", "O"]] * 6
        model = Tagger.train(sentences, labels, dev=(sentences, labels), hidden_dim=5, word_dim=6, **quick)
    else:
        row = {"id": "1", "context": "Anna left Paris.", "question": "Who left?", "answers": ["Anna"]}
        model = Reader.train(
            [{**row, "id": str(k)} for k in range(4)], dev=[row], min_count=1, hidden_dim=5, word_dim=6, **quick
        )
    saved = type(model)(tmp_path / "model")
    assert saved.settings == model.settings and model.settings.dropout in quick["dropout"]
    for name, weight in model.weights().items():
        np.testing.assert_array_equal(weight, saved.weights()[name])
    with pytest.raises(UserError, match="epochs"):
        type(model).train("nothing", **{**quick, "epochs": [1, 0]})
