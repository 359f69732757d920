"""The training loop of the tasks: it keeps the epoch that scores best on the dev set."""

import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from elmo_core.config import differences
from elmo_core.files import disk
from elmo_core.files.tensors import read_tensors, read_values, write_values
from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, format_duration, log
from elmo_core.network.optimizer import Adam
from elmo_core.settings import first_of, make, setting
from elmo_tasks.card import model_card
from elmo_tasks.saved import BILM, LOCK, STATE, WEIGHTS, WORDS, TrainedModel, check_model_folder

HELD_OUT = 0.1  # share of the training data that replaces a missing dev set
PROGRESS_SECONDS = 20  # between log lines within an epoch
ONE_VALUE = ("seed", "max_seq_len", "doc_stride", "cache_gb", "patience", "logging_step")  # numbers without a search
Progress = Callable[[dict[str, Any]], None]  # receives the scores of each epoch
Several = float | Sequence[float]  # of several values, the dev set selects one
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run with Adam.

    The learning rates rise during the share `warmup` of the steps, then they fall linearly to the share `final_lr`.
    weight_decay: AdamW's, of the weights named `.weight`.
    """

    warmup: ClassVar[float] = 0.0
    final_lr: ClassVar[float] = 0.1
    weight_decay: ClassVar[float] = 0.0
    word_vectors_lr: ClassVar[float] = 0.0
    logging_step: ClassVar[int | None] = None

    epochs: int = setting(30, "maximum epochs")
    patience: int = setting(5, "stop after N epochs without improvement on the dev set; 0: never", minimum=0)
    batch_size: int = setting(32, "examples per step")
    lr: float = setting(0.002, "learning rate", above=0)
    cache_gb: float = setting(
        4.0, "memory for a frozen biLM's layers; what needs more is computed in each epoch", above=0, needs="elmo"
    )
    elmo_lr: float = setting(0.0002, "learning rate of the biLM", above=0, needs="elmo_trainable")
    max_grad_norm: float = setting(5.0, "clip the gradient norm to this", above=0)
    ema: float = setting(0.0, "decay of the weights' moving average, which is what is saved; 0: off", below=1)
    seed: int = setting(2020, "random seed", minimum=0, below=2**32)


def hold_out(examples: Sequence[Kind], seed: int) -> tuple[list[Kind], list[Kind]]:
    """Split examples at random into a training set and a dev set, which is a tenth."""
    if len(examples) < 2:
        raise UserError(
            "there is only one example to train on (in columns, blank lines end sentences): give `dev`, or more examples."
        )
    order = np.random.default_rng(seed).permutation(len(examples))
    n = max(1, round(len(order) * HELD_OUT))
    return [examples[k] for k in order[n:]], [examples[k] for k in order[:n]]


class Score(Protocol):
    """Scores of a model: `value` selects the best epoch, `summary` is for the log, `to_dict()` for JSON."""

    value: float
    summary: str

    def to_dict(self) -> dict: ...


@dataclass
class BestEpoch:
    """The best epoch, its score on the dev set, and the duration of the training run; the model, with its weights.

    settings: the chosen values of settings with several, see `search`. training: all settings of the training.
    """

    epoch: int
    score: Score
    seconds: float
    model: TrainedModel
    weights: dict[str, np.ndarray]
    settings: dict[str, Any]
    training: TrainingSettings


@dataclass
class Run:
    """One of several training runs, of which the best is kept.

    number: its position. settings: by which it differs from the others. best: of the runs before it, or a starting point.
    name: of the part of the data, for log lines. is_brief: epochs are logged only if they take long.
    """

    number: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    best: BestEpoch | None = None
    name: str = ""
    is_brief: bool = False

    @property
    def label(self) -> str:
        return "".join(f"{part}  " for part in (self.name, format_settings(self.settings)) if part)


def fit(
    model: TrainedModel,
    batches: Callable[[np.random.Generator], Sequence],
    loss: Callable[..., paddle.Tensor],
    score: Callable[[TrainedModel], Score],
    settings: TrainingSettings,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    run: Run | None = None,
) -> BestEpoch:
    """Train the model and load the weights of its best epoch into it.

    batches: draws the batches of one epoch. loss: computes the loss of a batch. score: scores a model on the dev set.
    folder: the model is saved there after each epoch that improves on all before. resume: continue an interrupted run.
    progress: called with the scores of each epoch.
    run: one of several. If no epoch is better than its `best`, that is returned, and the model is not saved.
    """
    run = run or Run()
    state = TrainingState(model, settings, run)
    if resume:
        state.resume(folder, score)
    elif folder and run.best:  # the folder holds that: from now on this run is what is continued
        state.save(folder)
    start = time.perf_counter() - state.seconds
    try:
        for epoch in range(state.epoch + 1, settings.epochs + 1):
            if settings.patience and epoch - 1 - state.improved >= settings.patience:
                break
            mean_loss = _run_epoch(model.network, state, batches(state.random), loss, epoch)
            with state.average.applied():
                current, seconds = score(model), time.perf_counter() - start
                improved = current.value > state.best_value
                state.log(epoch, seconds, mean_loss, f"{current.summary}{' *' if improved else '  '}")
                if improved:
                    if folder:
                        model.save_weights(folder) if state.improved else model.save(folder)
                    state.best = BestEpoch(epoch, current, seconds, model, model.weights(), run.settings, settings)
                    state.best_value, state.improved = current.value, epoch
            if progress:
                progress(
                    {"epoch": epoch, "loss": mean_loss, "seconds": seconds, "dev": current.to_dict(), **run.settings}
                )
            state.epoch, state.seconds = epoch, seconds
            if folder:
                state.save(folder)
    except UserError:
        raise
    except BaseException:  # Ctrl-C, a signal, or an error that is not the user's
        _log_what_is_left(folder, state)
        raise
    if state.improved:
        model.set_weights(state.best.weights, "the best epoch")
        state.best.seconds = time.perf_counter() - start
    if folder:
        (folder / STATE).unlink(missing_ok=True)
    return state.best


def grid_of(options: Mapping[str, Any], *kinds: type) -> dict[str, Sequence]:
    """The settings that are given several values. Raise unless these are valid numbers. kinds: dataclasses of settings."""
    grid = {}
    for kind in kinds:
        for known in fields(kind):
            value, is_number = options.get(known.name, known.default), type(first_of(known.default)) in (int, float)
            is_list = isinstance(value, list | tuple) and len(value) > 0
            if is_list and is_number and known.name not in ONE_VALUE:
                grid[known.name] = value
            for one in grid.get(known.name, [value] if is_list or is_number else []):
                make(kind, {known.name: one})
    return grid


def search(
    train: Callable[[Run, bool], BestEpoch],
    grid: Mapping[str, Sequence],
    resume_at: int | None = None,
    first: Run | None = None,
) -> BestEpoch:
    """Train once with each combination of the values of some settings. Returns what scores best; of equals, the first.

    train(run, resume): trains a new model. resume_at: the number of an interrupted run: those before it are not repeated.
    first: number, best, name and is_brief of the first run.
    """
    first = first or Run()
    best = first.best
    for number, values in enumerate(itertools.product(*grid.values()), first.number):
        if resume_at is None or number >= resume_at:
            run = replace(first, number=number, settings=dict(zip(grid, values, strict=True)), best=best)
            best = train(run, number == resume_at)
    return best


def interrupted_run(folder: Path | None, resume: bool) -> int | None:
    """The number of the run to resume."""
    return read_values(folder / STATE)["run"] if resume else None


def format_settings(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())


def _log_what_is_left(folder: Path | None, state: "TrainingState") -> None:
    """Load the best epoch of an interrupted training run, and log what has been saved."""
    best, stopped = state.best, f"stopped in epoch {state.epoch + 1}"
    if best:
        best.model.set_weights(best.weights, "the best epoch")
    if folder and best:
        log.warning(
            f"{stopped}. The best epoch so far is {best.epoch}, dev {best.score.summary.strip()}: use it from {folder}, or "
            "continue with the same settings and `resume=True`."
        )
    elif not state.run.name:
        log.warning(f"{stopped}. Nothing has been saved.")


class TrainingState:
    """All that the rest of a training run depends on. Saved after each epoch, it resumes the run bit for bit."""

    def __init__(self, model: TrainedModel, settings: TrainingSettings, run: Run):
        self.model, self.settings, self.run = model, settings, run
        self.optimizers = _optimizers(model.network, settings)
        self.average = WeightAverage(model.saved_parameters().values(), settings.ema)
        self.random = np.random.default_rng(settings.seed)
        self.epoch, self.seconds, self.last_log = 0, 0.0, time.perf_counter()
        self.best, self.best_value = run.best, run.best.score.value if run.best else -math.inf
        self.improved = 0  # the last epoch that was better than all before

    def set_lr(self, share: float) -> None:
        """Set the learning rates. share: of the training that is done."""
        warmup, final = self.settings.warmup, self.settings.final_lr
        factor = max(share, 0.01) / warmup if share < warmup else final + (1 - final) * (1 - share) / (1 - warmup)
        for optimizer, lr in self.optimizers:
            optimizer.lr = lr * factor

    def log(self, epoch: int, seconds: float, loss: float, dev: str) -> None:
        now, epochs = time.perf_counter(), self.settings.epochs
        if not self.run.is_brief or now - self.last_log > PROGRESS_SECONDS:
            left = format_duration(seconds / epoch * (epochs - epoch))
            times = f"{format_duration(seconds)}, at most {left} left"
            log.info(f"{self.run.label}epoch {epoch:>2}/{epochs}  loss {loss:7.3f}  dev {dev}  {times}")
            self.last_log = now

    def save(self, folder: Path) -> None:
        progress = {
            "step": self.epoch,
            "seconds": self.seconds,
            "run": self.run.number,
            "best": (self.improved, self.best_value, self.best.epoch, self.best.settings),
            "random": self.random.bit_generator.state,
            "paddle_random": versions.random_states(paddle),
            "average": [self.average.steps, *(average.numpy() for average in self.average.averages)],
            "settings": self._settings(),
        }
        states = (optimizer.state_dict() for optimizer, _ in self.optimizers)
        optimizer = {key: np.asarray(value) for state in states for key, value in state.items()}
        write_values(folder / STATE, {**progress, "model": self.model.weights(), "optimizer": optimizer})

    def resume(self, folder: Path, score: Callable[[TrainedModel], Score]) -> None:
        """Restore what `save` has written, and score the best epoch so far again."""
        progress = read_values(folder / STATE)
        if changes := differences(progress["settings"], self._settings()):
            raise UserError(
                f"`resume`: {folder} was trained with other settings or data: {'; '.join(changes.values())}. Use the same, "
                "or start again with `overwrite=True`."
            )
        self.epoch, self.seconds = progress["step"], progress["seconds"]
        # of a killed run, the saved weights may be those of the next epoch
        self.improved, self.best_value, epoch, chosen = progress["best"]
        best = self.model if self.improved else type(self.model)(folder, self.model.device)  # of a run before this one
        if self.improved:
            best.set_weights(read_tensors(folder / WEIGHTS), str(folder / WEIGHTS))
        self.best = BestEpoch(epoch, score(best), self.seconds, best, best.weights(), chosen, self.settings)
        log.info(
            f"resumed after epoch {self.epoch}. The best epoch so far is {epoch}, dev {self.best.score.summary.strip()}."
        )
        self.model.set_weights(progress["model"], str(folder / STATE))
        for optimizer, _ in self.optimizers:
            optimizer.set_state_dict(progress["optimizer"])
        self.average.steps, *averages = progress["average"]
        for average, saved in zip(self.average.averages, averages, strict=True):
            average.set_value(saved)
        self.random.bit_generator.state = progress["random"]
        if progress["paddle_random"]:
            versions.set_random_states(paddle, progress["paddle_random"])
        else:
            paddle.seed(self.settings.seed + self.epoch)
            log.warning("Paddle 2.6 cannot restore its random generator: dropout differs from an uninterrupted run.")

    def _settings(self) -> dict[str, Any]:
        """The settings and data that a resumed run must share."""
        values = self.model.values()
        values = {**values, **values.pop(self.model.kind), **values.pop("dictionaries"), **asdict(self.settings)}
        return json.loads(json.dumps(values))  # as they are read again: lists for tuples


@dataclass
class TrainingResult:
    """The best epoch and its scores, the duration of the training, and the weights of ELMo's mixed layers by place.

    sizes: numbers of training, dev and test examples.
    """

    epoch: int
    seconds: float
    seed: int
    dev: Score
    test: Score | None
    mixes: dict[str, dict]
    sizes: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The scores, for JSON."""
        values = {"epoch": self.epoch, "seconds": self.seconds, "seed": self.seed, "dev": self.dev.to_dict()}
        values |= {f"mix_at_{where}": mix for where, mix in self.mixes.items()}
        return values | ({"test": self.test.to_dict()} if self.test else {})


def conclude(
    best: BestEpoch, test: Score | None, settings: TrainingSettings, sizes: dict[str, int], folder: Path | None
) -> None:
    """Record the result of a training in the model, and write its card into the folder. sizes: numbers of examples."""
    model, elmo = best.model, best.model.network.elmo
    if elmo:
        elmo.clear_cache()  # of the training texts: it may hold gigabytes
    mixes = [elmo.mix_weights(number) for number in range(len(elmo.mixes))] if elmo else []
    named = dict(zip(model.network.elmo_at, mixes, strict=False))  # concatenated layers have no mix
    model.result = TrainingResult(best.epoch, best.seconds, settings.seed, best.score, test, named, sizes)
    model.card = model_card(model, folder.name if folder else model.kind, settings)
    if folder:
        model.save_card(folder)


@contextmanager
def training_folder(kind: str, options: Mapping[str, Any], interrupted: bool | None = None) -> Iterator[Path | None]:
    """Check, make and lock the folder of a model that is about to be trained. None: nothing is written.

    options: the arguments of `train`. interrupted: see `check_model_folder`.
    """
    if options["save_dir"] is None:
        yield None
        return
    folder = Path(options["save_dir"])
    how = kind, options["overwrite"], options["resume"], interrupted
    check_model_folder(folder, *how)
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / LOCK):
        check_model_folder(folder, *how)  # another training may have ended since
        yield folder


def _optimizers(network: paddle.nn.Layer, settings: TrainingSettings) -> list[tuple[Adam, float]]:
    """Adam for each group of weights whose gradients are clipped together, with its learning rate.

    Groups are those of `network.tuned_groups()`, if it has that, and the rest, whose gradients are then not clipped.
    """
    named = dict(network.named_parameters())
    rates = {name: settings.elmo_lr for name in named if name.startswith(BILM)}
    rates |= {name: settings.word_vectors_lr for name in named if name.startswith(WORDS)}
    tuned, names = getattr(network, "tuned_groups", None), {id(weight): name for name, weight in named.items()}
    groups = [[names[id(weight)] for weight in group] for group in (tuned() if tuned else ())]
    rest = [name for name in named if not any(name in group for group in groups)]
    for name in rates.keys() & set(rest):
        named[name].optimize_attr["learning_rate"] = rates[name] / settings.lr
    decay = {name: settings.weight_decay for name in rest if name.endswith(".weight") and settings.weight_decay}
    clip = None if tuned else settings.max_grad_norm
    optimizers = [(Adam([(name, named[name]) for name in rest], settings.lr, clip, decay), settings.lr)]
    for group in groups:
        weights = [(name, named[name]) for name in group]
        optimizers.append((Adam(weights, rates[group[0]], settings.max_grad_norm), rates[group[0]]))
    return optimizers


def _run_epoch(network: paddle.nn.Layer, state: TrainingState, batches: Sequence, loss: Callable, epoch: int) -> float:
    """Train on every batch. Returns the mean loss."""
    network.train()
    losses, start = [], time.perf_counter()
    every, label = state.settings.logging_step, f"{state.run.label}epoch {epoch:>2}  step"
    for step, batch in enumerate(batches):
        now = time.perf_counter()
        is_late = now - max(start, state.last_log) > PROGRESS_SECONDS
        if step and (step % every == 0 if every else is_late):
            left = format_duration((now - start) / step * (len(batches) - step))
            log.info(f"{label} {step:,}/{len(batches):,}  loss {losses[-1].item():.4f}  {left} left in this epoch")
            state.last_log = now
        state.set_lr((epoch - 1 + step / len(batches)) / state.settings.epochs)
        batch_loss = loss(batch)
        update(batch_loss, *(optimizer for optimizer, _ in state.optimizers))
        state.average.update()
        losses.append(batch_loss.detach())  # read only at the end: reading makes a GPU wait
    mean = float(paddle.stack(losses).mean())
    if not math.isfinite(mean):
        raise UserError(f"{state.run.label}the loss became {mean}: use a lower `lr`.")
    return mean


def update(loss: paddle.Tensor, *optimizers: Adam) -> None:
    """Take one optimizer step on the gradient of a loss."""
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.clear_grad()


class WeightAverage:
    """Exponential moving averages of weights over the steps, which score better than the weights of any one step.

    decay: of the averages; lower in the first steps, which would otherwise keep the initial weights. 0: off.
    """

    def __init__(self, weights: Iterable[paddle.Tensor], decay: float):
        self.weights, self.decay, self.steps = list(weights) if decay else [], decay, 0
        self.averages = [weight.detach().clone() for weight in self.weights]

    @paddle.no_grad()
    def update(self) -> None:
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.lerp_(weight.detach(), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights with their averages; restore them at the end."""
        originals = [weight.numpy() for weight in self.weights]
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.set_value(average)
        try:
            yield
        finally:
            for weight, original in zip(self.weights, originals, strict=True):
                weight.set_value(original)
