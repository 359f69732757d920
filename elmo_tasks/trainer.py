"""The trainer of all tasks: Adam on shuffled batches. The epoch that scores best on dev is kept."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import differences
from elmo_core.files.tensors import digest, join_arrays, read_tensors, split_arrays, write_tensors
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import Progress, UserError, format_duration, log, training_bar
from elmo_core.network.bilm import set_weights
from elmo_core.text.batches import shuffled_batches
from elmo_core.training.optimizer import Adam
from elmo_tasks import folder as model_folder
from elmo_tasks.inputs import BILM, FileVectors
from elmo_tasks.score import Score
from elmo_tasks.settings import HELD_OUT, TrainingSettings
from elmo_tasks.training_curve import TrainingCurve

PROGRESS_SECONDS = 20  # between log lines within an epoch
ELMO_DIGEST = "ELMo's weights"  # in a training's identity
Task = Any  # an `elmo_tasks.task.Task`, whose module imports this one


def hold_out(examples: Sequence[Any], seed: int) -> tuple[list[Any], list[Any]]:
    """Split examples at random into a training set and a dev set, which is a tenth."""
    if len(examples) < 2:
        raise UserError(
            "found one sentence, text or passage, of which no part can be held out. "
            "Give `dev`, or more data."
        )
    order = np.random.default_rng(seed).permutation(len(examples))
    n = max(1, round(len(order) * HELD_OUT))
    return [examples[k] for k in order[n:]], [examples[k] for k in order[:n]]


def fit(
    task: Task,
    train: Sequence[Any],
    dev: Sequence[Any],
    settings: TrainingSettings,
    curve: TrainingCurve,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | bool = True,
    phase: int = 1,
) -> "State":
    """Train the task's network, and load the weights of its best epoch into it.

    Returns the state at the end.

    curve: gets each epoch.
    folder: the state is saved there after each epoch.
    resume: continue from that, if it is there.
    progress: called with the scores of each epoch; False: no bar.
    phase: the number of this training, of a task that calls `fit` several times.
    """
    file = folder / model_folder.STATE.format(phase) if folder else None
    state = State(task, settings, dev, curve)
    state.is_saved = file is not None and phase > 1
    if resume and file and file.exists():
        state.load(file)
    elif phase > 1:  # what it begins with may remain the best
        state.keep_best(0, task.evaluated(dev))
    start = time.perf_counter() - state.seconds
    if task.network.inputs.pool and not task.settings.elmo_trainable:
        lengths = [1] * len(train)  # means of fixed vectors: nothing to pad
    else:
        lengths = [task.length(example) for example in train]
    shown = training_bar(progress, total=settings.epochs, unit="epoch")
    with shown, state.interruptible(folder):
        for epoch in range(state.epoch + 1, settings.epochs + 1):
            if settings.patience and epoch - 1 - state.best_epoch >= settings.patience:
                break
            batches = shuffled_batches(lengths, settings.batch_size, state.random)
            loss = run_epoch(task, train, batches=batches, state=state, epoch=epoch)
            with state.average.applied():
                score = task.evaluated(dev)
                state.keep_best(epoch, score)
            state.epoch = epoch
            state.seconds = time.perf_counter() - start
            state.log(loss, score)
            curve.add(
                phase=phase,
                loss=loss,
                learning_rate=state.optimizer.lr,
                score=score,
                is_best=state.best_epoch == epoch,
            )
            if file:
                state.save(file)
                _delete_later_phases(folder, phase)
                curve.draw()
            shown.update()
            if callable(progress):
                progress(
                    {
                        "epoch": epoch,
                        "phase": phase,
                        "loss": loss,
                        "seconds": state.seconds,
                        "dev": score.to_dict(),
                    }
                )
    if state.best_score is None:  # without epochs
        state.keep_best(0, task.evaluated(dev))
    set_weights(task.trained_weights(), state.best_weights, "the best epoch")
    return state


def _delete_later_phases(folder: Path, phase: int) -> None:
    """Delete the states of later phases, which an older training has left."""
    for file in model_folder.states(folder):
        if model_folder.phase_of(file) > phase:
            file.unlink()


def run_epoch(
    task: Task, train: Sequence[Any], batches: Sequence[np.ndarray], state: "State", epoch: int
) -> float:
    """Train on every batch. Returns the mean loss, which is finite."""
    settings = state.settings
    optimizer = state.optimizer
    task.network.train()
    losses = []
    last_log = time.perf_counter()
    for step, rows in enumerate(batches):
        if time.perf_counter() - last_log > PROGRESS_SECONDS:
            last_log = time.perf_counter()
            steps = f"step {step:,}/{len(batches):,}"
            log.info(f"epoch {epoch:>2}  {steps}  loss {losses[-1].item():.4f}")
        epochs_done = epoch - 1 + step / len(batches)
        optimizer.lr = learning_rate(settings, epochs_done / settings.epochs)
        batch = task.collate([train[k] for k in rows])
        loss = task.network.loss(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        state.average.update()
        losses.append(loss.detach())  # read only at the end: reading makes a GPU wait
    mean = float(paddle.stack(losses).mean())
    weights_are_finite = all(bool(w.isfinite().all()) for w in task.trained_weights().values())
    if not (math.isfinite(mean) and weights_are_finite):
        found = f"the loss became {mean:.3g}, or weights are not finite, in epoch {epoch}"
        raise UserError(
            f"{found}. Start again with a lower `lr`, and `overwrite=True` if epochs were saved."
        )
    return mean


def learning_rate(settings: TrainingSettings, share: float) -> float:
    """The learning rate when a share of the training is done."""
    warmup = settings.warmup
    final = settings.final_lr
    if share < warmup:  # the first step, at 0, also moves the weights
        return settings.lr * min(1, max(share, 0.01) / warmup)
    return settings.lr * (final + (1 - final) * (1 - share) / (1 - warmup))


def make_optimizer(network: paddle.nn.Layer, settings: Any) -> Adam:
    """Adam for all weights that are trained.

    Those of ELMo have a learning rate of their own, and no decay.
    """
    weights = dict(network.named_parameters())
    decay = {}
    for name, weight in weights.items():
        if settings.elmo_trainable and name.startswith(BILM):
            weight.optimize_attr["learning_rate"] = settings.elmo_lr / settings.lr
        elif name.endswith(".weight") and "embedding" not in name and settings.weight_decay:
            decay[name] = settings.weight_decay
    return Adam(weights.items(), settings.lr, settings.max_grad_norm, decay)


class State:
    """All that the rest of a training depends on.

    It is saved after each epoch, and continues the training bit for bit.
    """

    def __init__(
        self, task: Task, settings: TrainingSettings, dev: Sequence[Any], curve: TrainingCurve
    ):
        self.task = task
        self.settings = settings
        self.dev = dev
        self.curve = curve
        self.is_saved = False
        self.optimizer = make_optimizer(task.network, settings)
        trained_in_this_phase = {
            name: weight
            for name, weight in task.trained_weights().items()
            if not weight.stop_gradient
        }
        self.average = WeightAverage(trained_in_this_phase, settings.ema)
        self.random = np.random.default_rng(settings.seed)
        self.epoch = 0  # the last that is done
        self.seconds = 0.0
        self.best_epoch = 0
        self.best_score: Score | None = None
        self.best_weights: dict[str, np.ndarray] = {}

    def keep_best(self, epoch: int, score: Score) -> None:
        """Keep a copy of the weights, if their score on the dev set is better than all before."""
        if self.best_score is None or score.value > self.best_score.value:
            self.best_epoch = epoch
            self.best_score = score
            self.best_weights = _numpy(self.task.trained_weights())

    def log(self, loss: float, score: Score) -> None:
        """Log the results of an epoch; an asterisk marks the best so far."""
        epochs = self.settings.epochs
        star = "*" if self.best_epoch == self.epoch else " "
        seconds_per_epoch = self.seconds / self.epoch
        left = format_duration(seconds_per_epoch * (epochs - self.epoch))
        times = f"{format_duration(self.seconds)}, at most {left} left"
        log.info(
            f"epoch {self.epoch:>2}/{epochs}  loss {loss:7.3f}  dev {score.summary} {star}  {times}"
        )

    def save(self, file: Path) -> None:
        """Write the state to a file."""
        values = {
            "weights": _numpy(self.task.trained_weights()),
            "average": _numpy(self.average.averages),
            "optimizer": _numpy(self.optimizer.state_dict()),
            "best": self.best_weights,
            "best_epoch": self.best_epoch,
            "steps": self.average.steps,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "random": self.random.bit_generator.state,
            "paddle_random": paddle_compat.random_states(paddle),
            "identity": self.task.identity,
            "curve": self.curve.epochs,
        }
        arrays, rest = split_arrays(values)
        write_tensors(file, arrays, {"state": json.dumps(rest)})
        self.is_saved = True

    def load(self, file: Path) -> None:
        """Restore what `save` has written, and score the best epoch again."""
        arrays, metadata = read_tensors(file)
        values = join_arrays(json.loads(metadata["state"]), arrays)
        weights = self.task.trained_weights()
        check_identity(file.parent, values["identity"], self.task.identity)
        set_weights(weights, values["best"], str(file))
        self.keep_best(values["best_epoch"], self.task.evaluated(self.dev))
        set_weights(weights, values["weights"], str(file))
        set_weights(self.average.averages, values["average"], str(file))
        self.optimizer.set_state_dict(values["optimizer"])
        self.epoch = values["epoch"]
        self.seconds = values["seconds"]
        self.curve.epochs = values["curve"]
        self.average.steps = values["steps"]
        self.random.bit_generator.state = values["random"]
        if values["paddle_random"]:
            paddle_compat.set_random_states(paddle, values["paddle_random"])
        else:
            paddle.seed(self.settings.seed + self.epoch)
            log.warning(
                "Paddle 2.6 cannot restore its random generator: "
                "dropout differs from an uninterrupted run."
            )
        self.is_saved = True
        best = f"{self.best_epoch}, dev {self.best_score.summary}"
        log.info(f"resumed after epoch {self.epoch}. The best is {best}.")

    @contextmanager
    def interruptible(self, folder: Path | None) -> Iterator[None]:
        """If the training is interrupted, log whether it can be continued."""
        try:
            yield
        except UserError:
            raise
        except BaseException:  # Ctrl-C, a signal, or an error that is not the user's
            advice = "Nothing has been saved."
            if self.is_saved:
                advice = f"Continue with the same settings and `resume=True`: {folder}"
            log.warning(f"stopped in epoch {self.epoch + 1}. {advice}")
            raise


class WeightAverage:
    """Exponential moving averages of weights, which score better than the weights of any one step.

    decay: of the averages, per step; lower in the first steps, which would otherwise keep the
        initial weights. 0: off.
    """

    def __init__(self, weights: dict[str, paddle.Tensor], decay: float):
        self.weights = weights if decay else {}
        self.decay = decay
        self.steps = 0
        self.averages = {name: weight.detach().clone() for name, weight in self.weights.items()}

    @paddle.no_grad()
    def update(self) -> None:
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for name, average in self.averages.items():
            average.lerp_(self.weights[name].detach(), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights with their averages; restore them at the end."""
        originals = _numpy(self.weights)
        for name, average in self.averages.items():
            self.weights[name].set_value(average)
        try:
            yield
        finally:
            for name, original in originals.items():
                self.weights[name].set_value(original)


def training_identity(task: Task, data: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Describe what a resumed training must share, as plain values.

    That is the settings, and digests of the data, of ELMo and of the word vectors.
    """
    identity = task.settings.to_dict()
    for name, examples in data.items():
        identity[f"{name} data"] = digest(repr(example).encode() for example in examples)
    identity["word vectors"] = digest(_bytes_of_vectors(task.vectors))
    identity[ELMO_DIGEST] = task.elmo_digest()
    return json.loads(json.dumps(identity))


def _bytes_of_vectors(vectors: FileVectors | None) -> Iterator[Any]:
    if vectors:
        yield vectors.table
        for word in vectors.words:
            yield word.encode()


def check_identity(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if a training is resumed with other settings or data."""
    changes = differences(before, now)
    if changes:
        found = f"{folder} was trained with other settings or data: {'; '.join(changes.values())}"
        raise UserError(
            f"`resume`: {found}. "
            "Use the same, or start again without `resume`, with `overwrite=True`."
        )


def _numpy(tensors: dict[str, paddle.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
