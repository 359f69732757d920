"""The trainer of all tasks: Adam on shuffled batches; the epoch that scores best on the dev set is kept."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from elmo_core.config import differences
from elmo_core.files.tensors import digest, join_arrays, read_tensors, split_arrays, write_tensors
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, bar, format_duration, log
from elmo_core.network.bilm import set_weights
from elmo_core.text.tokens import shuffled_batches
from elmo_core.training.optimizer import Adam
from elmo_tasks import folder as model_folder
from elmo_tasks.inputs import BILM
from elmo_tasks.settings import HELD_OUT, TrainingSettings

PROGRESS_SECONDS = 20  # between log lines within an epoch
ELMO_DIGEST = "ELMo's weights"  # in a training's identity
Task = Any  # an `elmo_tasks.task.Task`, whose module imports this one
Progress = Callable[[dict[str, Any]], object]  # receives the scores of each epoch


def hold_out(examples: Sequence[Any], seed: int) -> tuple[list[Any], list[Any]]:
    """Split examples at random into a training set and a dev set, which is a tenth."""
    if len(examples) < 2:
        raise UserError(
            "found one sentence, text or passage, of which no part can be held out. Give `dev`, or more data."
        )
    order = np.random.default_rng(seed).permutation(len(examples))
    n = max(1, round(len(order) * HELD_OUT))
    return [examples[k] for k in order[n:]], [examples[k] for k in order[:n]]


def fit(
    task: Task,
    train: Sequence[Any],
    dev: Sequence[Any],
    settings: TrainingSettings,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | bool = True,
    phase: int = 1,
) -> "State":
    """Train the task's network, and load the weights of its best epoch into it. Returns the state at the end.

    folder: the state is saved there after each epoch. resume: continue from that, if it is there. phase: the number of this
    training, of a task that calls `fit` several times. progress: called with the scores of each epoch; False: no bar.
    """
    file = folder / model_folder.STATE.format(phase) if folder else None
    state = State(task, settings, dev)
    state.is_saved = file is not None and phase > 1
    if file and resume and file.exists():
        state.load(file)
    elif phase > 1:  # what it begins with may remain the best
        state.keep_best(0, task.evaluated(dev))
    start = time.perf_counter() - state.seconds
    has_means = (
        task.network.inputs.pool and not task.settings.elmo_trainable
    )  # of fixed vectors: nothing to pad
    lengths = [1 if has_means else task.length(example) for example in train]
    with _bar(settings.epochs, progress) as shown, state.interruptible(folder):
        for epoch in range(state.epoch + 1, settings.epochs + 1):
            if settings.patience and epoch - 1 - state.best_epoch >= settings.patience:
                break
            loss = run_epoch(
                task,
                train,
                shuffled_batches(lengths, settings.batch_size, state.random),
                state,
                epoch,
            )
            with state.average.applied():
                score = task.evaluated(dev)
                state.keep_best(epoch, score)
            state.epoch, state.seconds = epoch, time.perf_counter() - start
            state.log(loss, score)
            if file:
                state.save(file)
                for other in model_folder.states(folder):
                    if model_folder.phase_of(other) > phase:  # of an older training
                        other.unlink()
            shown.update()
            if callable(progress):
                values = {"epoch": epoch, "phase": phase, "loss": loss, "seconds": state.seconds}
                progress({**values, "dev": score.to_dict()})
    if state.best_score is None:  # without epochs
        state.keep_best(0, task.evaluated(dev))
    set_weights(task.trained_weights(), state.best_weights, "the best epoch")
    return state


def run_epoch(
    task: Task, train: Sequence[Any], batches: Sequence[np.ndarray], state: "State", epoch: int
) -> float:
    """Train on every batch. Returns the mean loss, which is finite."""
    settings, optimizer = state.settings, state.optimizer
    task.network.train()
    losses, last_log = [], time.perf_counter()
    for step, rows in enumerate(batches):
        if time.perf_counter() - last_log > PROGRESS_SECONDS:
            last_log = time.perf_counter()
            log.info(
                f"epoch {epoch:>2}  step {step:,}/{len(batches):,}  loss {losses[-1].item():.4f}"
            )
        optimizer.lr = learning_rate(settings, (epoch - 1 + step / len(batches)) / settings.epochs)
        loss = task.network.loss(task.collate([train[k] for k in rows]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        state.average.update()
        losses.append(loss.detach())  # read only at the end: reading makes a GPU wait
    mean = float(paddle.stack(losses).mean())
    if not math.isfinite(mean) or not all(
        bool(w.isfinite().all()) for w in task.trained_weights().values()
    ):
        found = f"the loss became {mean:.3g}, or weights are not finite, in epoch {epoch}"
        raise UserError(
            f"{found}. Start again with a lower `lr`, and `overwrite=True` if epochs were saved."
        )
    return mean


def learning_rate(settings: TrainingSettings, share: float) -> float:
    """The learning rate when a share of the training is done."""
    warmup, final = settings.warmup, settings.final_lr
    if share < warmup:
        return settings.lr * min(1, max(share, 0.01) / warmup)
    return settings.lr * (final + (1 - final) * (1 - share) / (1 - warmup))


def make_optimizer(network: paddle.nn.Layer, settings: Any) -> Adam:
    """Adam for all weights that are trained; those of ELMo have a learning rate of their own, and no decay."""
    weights, decay = dict(network.named_parameters()), {}
    for name, weight in weights.items():
        if settings.elmo_trainable and name.startswith(BILM):
            weight.optimize_attr["learning_rate"] = settings.elmo_lr / settings.lr
        elif name.endswith(".weight") and "embedding" not in name and settings.weight_decay:
            decay[name] = settings.weight_decay
    return Adam(weights.items(), settings.lr, settings.max_grad_norm, decay)


class State:
    """All that the rest of a training depends on. Saved after each epoch, it continues the training bit for bit."""

    def __init__(self, task: Task, settings: TrainingSettings, dev: Sequence[Any]):
        self.task = task
        self.settings = settings
        self.dev = dev
        self.is_saved = False
        self.optimizer = make_optimizer(task.network, settings)
        trained = {
            name: w for name, w in task.trained_weights().items() if not w.stop_gradient
        }  # in this phase
        self.average = WeightAverage(trained, settings.ema)
        self.random = np.random.default_rng(settings.seed)
        self.epoch, self.seconds = 0, 0.0
        self.best_epoch, self.best_score, self.best_weights = 0, None, {}

    def keep_best(self, epoch: int, score: Any) -> None:
        if self.best_score is None or score.value > self.best_score.value:
            self.best_epoch, self.best_score = epoch, score
            self.best_weights = _numpy(self.task.trained_weights())

    def log(self, loss: float, score: Any) -> None:
        star, epochs = "*" if self.best_epoch == self.epoch else " ", self.settings.epochs
        left = format_duration(self.seconds / self.epoch * (epochs - self.epoch))
        times = f"{format_duration(self.seconds)}, at most {left} left"
        log.info(
            f"epoch {self.epoch:>2}/{epochs}  loss {loss:7.3f}  dev {score.summary} {star}  {times}"
        )

    def save(self, file: Path) -> None:
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
        self.epoch, self.seconds, self.average.steps = (
            values["epoch"],
            values["seconds"],
            values["steps"],
        )
        self.random.bit_generator.state = values["random"]
        if values["paddle_random"]:
            paddle_compat.set_random_states(paddle, values["paddle_random"])
        else:
            paddle.seed(self.settings.seed + self.epoch)
            log.warning(
                "Paddle 2.6 cannot restore its random generator: dropout differs from an uninterrupted run."
            )
        self.is_saved = True
        log.info(
            f"resumed after epoch {self.epoch}. The best is {self.best_epoch}, dev {self.best_score.summary}."
        )

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
    """Exponential moving averages of weights over the steps, which score better than the weights of any one step.

    decay: of the averages; lower in the first steps, which would otherwise keep the initial weights. 0: off.
    """

    def __init__(self, weights: dict[str, paddle.Tensor], decay: float):
        self.weights, self.decay, self.steps = weights if decay else {}, decay, 0
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
    """Describe what a resumed training must share: the settings, and digests of the data, ELMo and the word vectors."""
    sources = {
        f"{name} data": (repr(example).encode() for example in part) for name, part in data.items()
    }
    sources["word vectors"] = (
        [task.vectors.table, *map(str.encode, task.vectors.words)] if task.vectors else ()
    )
    digests = {name: digest(parts) for name, parts in sources.items()}
    return json.loads(
        json.dumps({**task.settings.to_dict(), **digests, ELMO_DIGEST: task.elmo_digest()})
    )


def check_identity(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if a training is resumed with other settings or data."""
    if changes := differences(before, now):
        found = f"{folder} was trained with other settings or data: {'; '.join(changes.values())}"
        raise UserError(
            f"`resume`: {found}. Use the same, or start again without `resume`, with `overwrite=True`."
        )


def _numpy(tensors: dict[str, paddle.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _bar(epochs: int, progress: Progress | bool) -> tqdm:
    """A bar of epochs: by default in a terminal or notebook where the log is not shown."""
    shown = bar(
        None, progress is not False and not log.isEnabledFor(20), total=epochs, unit="epoch"
    )
    if not shown.disable:
        tqdm.write(
            'To see scores and times while it trains: logging.basicConfig(level="INFO")',
            file=sys.stderr,
        )
    return shown
