"""The training loop of the tasks: it keeps the epoch that scores best on the dev set."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from elmo_core.config import differences
from elmo_core.files import checkpoint
from elmo_core.machine import disk, versions
from elmo_core.machine.messages import UserError, format_duration, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.card import model_card
from elmo_tasks.saved import BILM, LOCK, STATE, WEIGHTS, TrainedModel, check_model_folder
from elmo_tasks.settings import setting

HELD_OUT = 0.1  # share of the training data that replaces a missing dev set
PROGRESS_SECONDS = 20  # between log lines within an epoch
Progress = Callable[[dict[str, Any]], None]  # receives the scores of each epoch
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run.

    lr: learning rate of Adam, which falls linearly towards a tenth. elmo_lr: the same for a trainable biLM.
    patience: epochs without improvement after which training stops; 0: never.
    ema: decay of the weights' moving average, which is what is scored and saved; 0: off.
    """

    epochs: int = setting(30, "maximum epochs")
    patience: int = setting(5, "stop after N epochs without improvement on the dev set; 0: never", minimum=0)
    batch_size: int = setting(32, "examples per step")
    lr: float = setting(0.002, "learning rate", above=0)
    cache_gb: float = setting(
        4.0,
        "memory for the layers of a frozen biLM; larger caches go to a file in the model's folder",
        above=0,
        needs="elmo",
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


def training_words(tokens: Iterable[str], min_count: int = 1) -> Vocabulary:
    """A vocabulary of the tokens that occur at least min_count times, in descending order of frequency."""
    counts = Counter(tokens)
    frequent = [token for token, n in counts.items() if n >= min_count and token not in SPECIAL_TOKENS]
    return Vocabulary([*SPECIAL_TOKENS, *sorted(frequent, key=lambda token: (-counts[token], token))], "training words")


class Score(Protocol):
    """Scores of a model: `value` selects the best epoch, `summary` is for the log, `to_dict()` for JSON."""

    value: float
    summary: str

    def to_dict(self) -> dict: ...


@dataclass
class BestEpoch:
    """The best epoch, its score on the dev set, and the duration of the training run."""

    epoch: int
    score: Score
    seconds: float


def fit(
    model: TrainedModel,
    batches: Callable[[np.random.Generator], Sequence],
    loss: Callable[..., paddle.Tensor],
    score: Callable[[], Score],
    settings: TrainingSettings,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> BestEpoch:
    """Train the model and load the weights of its best epoch into it.

    batches: draws the batches of one epoch. loss: computes the loss of a batch. score: scores the model on the dev set.
    folder: the model is saved there after each epoch that improves on all before. resume: continue an interrupted run.
    progress: called with the scores of each epoch.
    """
    state = TrainingState(model, settings)
    if resume:
        state.resume(folder, score)
    start = time.perf_counter() - state.seconds
    try:
        for epoch in range(state.epoch + 1, settings.epochs + 1):
            if settings.patience and epoch > 1 and epoch - 1 - state.best.epoch >= settings.patience:
                break
            state.optimizer.set_lr(settings.lr * (1 - 0.9 * (epoch - 1) / settings.epochs))
            mean_loss = _run_epoch(model.network, state.optimizer, batches(state.random), loss, epoch, state.average)
            with state.average.applied():
                current, seconds = score(), time.perf_counter() - start
                improved = current.value > state.best_value
                left = format_duration(seconds / epoch * (settings.epochs - epoch))
                log.info(
                    f"epoch {epoch:>2}/{settings.epochs}  loss {mean_loss:7.3f}  dev {current.summary}"
                    f"{' *' if improved else '  '}  {format_duration(seconds)}, at most {left} left"
                )
                if improved:
                    if folder:
                        model.save_weights(folder) if state.best else model.save(folder)
                    state.best, state.best_value = BestEpoch(epoch, current, seconds), current.value
                    state.best_weights = model.weights()
            if progress:
                progress({"epoch": epoch, "loss": mean_loss, "seconds": seconds, "dev": current.to_dict()})
            state.epoch, state.seconds = epoch, seconds
            if folder:
                state.save(folder)
    except UserError:
        raise
    except BaseException:  # Ctrl-C, a signal, or an error that is not the user's
        _log_what_is_left(folder, state.epoch + 1, state.best)
        raise
    model.set_weights(state.best_weights, "the best epoch")
    state.best.seconds = time.perf_counter() - start
    if folder:
        checkpoint.delete(folder / STATE)
    return state.best


def _log_what_is_left(folder: Path | None, epoch: int, best: BestEpoch | None) -> None:
    """Log what an interrupted training run has saved."""
    if folder and best:
        log.warning(
            f"stopped in epoch {epoch}. The best epoch so far is {best.epoch}, dev {best.score.summary.strip()}: use it "
            f"from {folder}, or continue with the same settings and `resume=True`."
        )
    else:
        log.warning(f"stopped in epoch {epoch}. Nothing has been saved.")


class TrainingState:
    """All that the rest of a training run depends on. Saved after each epoch, it resumes the run bit for bit."""

    def __init__(self, model: TrainedModel, settings: TrainingSettings):
        self.model, self.settings = model, settings
        self.optimizer = _make_adam(model.network, settings)
        self.average = WeightAverage(model.saved_parameters().values(), settings.ema)
        self.random = np.random.default_rng(settings.seed)
        self.epoch, self.seconds = 0, 0.0
        self.best: BestEpoch | None = None
        self.best_value, self.best_weights = -math.inf, {}

    def save(self, folder: Path) -> None:
        names = {weight.name: name for name, weight in self.model.network.named_parameters()}
        progress = {
            "step": self.epoch,
            "seconds": self.seconds,
            "best": (self.best.epoch, self.best_value),
            "random": self.random.bit_generator.state,
            "paddle_random": versions.random_states(paddle),
            "average": [self.average.steps, *(average.numpy() for average in self.average.averages)],
            "settings": self._settings(),
        }
        optimizer = {_renamed(key, names): np.asarray(value) for key, value in self.optimizer.state_dict().items()}
        checkpoint.save(folder / STATE, self.model.weights(), optimizer, progress)

    def resume(self, folder: Path, score: Callable[[], Score]) -> None:
        """Restore what `save` has written, and score the best epoch so far again."""
        progress = checkpoint.load_progress(folder / STATE)
        if changes := differences(progress["settings"], self._settings()):
            raise UserError(
                f"`resume`: {folder} was trained with other settings or data: {'; '.join(changes.values())}. Use the same, "
                "or start again with `overwrite=True`."
            )
        self.best_weights = checkpoint.load_params(folder / WEIGHTS)
        self.model.set_weights(self.best_weights, str(folder / WEIGHTS))
        self.epoch, self.seconds = progress["step"], progress["seconds"]
        epoch, self.best_value = progress["best"]  # of a killed run, the saved weights may be those of the next epoch
        self.best = BestEpoch(epoch, score(), self.seconds)
        log.info(
            f"resumed after epoch {self.epoch}. The best epoch so far is {epoch}, dev {self.best.score.summary.strip()}."
        )
        self.model.set_weights(checkpoint.load_params(folder / STATE), str(folder / STATE))
        names = {name: weight.name for name, weight in self.model.network.named_parameters()}
        optimizer = checkpoint.load_optimizer(folder / STATE)
        self.optimizer.set_state_dict({_renamed(key, names): value for key, value in optimizer.items()})
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
        return {**values, **values.pop(self.model.kind), **values.pop("dictionaries"), **asdict(self.settings)}


def _renamed(key: str, names: Mapping[str, str]) -> str:
    """Replace the weight's name with which a key of the optimizer's state begins. Paddle's names depend on the process."""
    name = max((name for name in names if key.startswith(f"{name}_")), key=len)
    return names[name] + key.removeprefix(name)


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
    model: TrainedModel,
    best: BestEpoch,
    test: Score | None,
    settings: TrainingSettings,
    sizes: dict[str, int],
    folder: Path | None,
) -> None:
    """Record the result of a training in the model, and write its card into the folder. sizes: numbers of examples."""
    elmo = model.network.elmo
    mixes = [elmo.mix_weights(number) for number in range(len(elmo.mixes))] if elmo else []
    named = dict(zip(model.network.elmo_at, mixes, strict=False))  # concatenated layers have no mix
    model.result = TrainingResult(best.epoch, best.seconds, settings.seed, best.score, test, named, sizes)
    model.card = model_card(model, folder.name if folder else model.kind, settings)
    if folder:
        model.save_card(folder)


@contextmanager
def training_folder(kind: str, save_dir: Path | str | None, overwrite: bool, resume: bool) -> Iterator[Path | None]:
    """Check, make and lock the folder of a model that is about to be trained. None: nothing is written."""
    if save_dir is None:
        if overwrite or resume:
            raise UserError(f"`{'overwrite' if overwrite else 'resume'}` has no effect without `save_dir`.")
        yield None
        return
    folder = Path(save_dir)
    check_model_folder(folder, kind, overwrite, resume)
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / LOCK, remove=True):
        check_model_folder(folder, kind, overwrite, resume)  # another training may have ended since
        yield folder


def _make_adam(network: paddle.nn.Layer, settings: TrainingSettings) -> paddle.optimizer.Optimizer:
    for name, weight in network.named_parameters():
        if name.startswith(BILM):
            weight.optimize_attr["learning_rate"] = settings.elmo_lr / settings.lr
    weights = [weight for weight in network.parameters() if not weight.stop_gradient]
    clip = paddle.nn.ClipGradByGlobalNorm(settings.max_grad_norm)
    return paddle.optimizer.Adam(settings.lr, parameters=weights, grad_clip=clip)


def _run_epoch(network, optimizer, batches: Sequence, loss: Callable, epoch: int, average: "WeightAverage") -> float:
    """Train on every batch. Returns the mean loss."""
    network.train()
    losses, start, last_log = [], time.perf_counter(), time.perf_counter()
    for step, batch in enumerate(batches):
        now = time.perf_counter()
        if now - last_log > PROGRESS_SECONDS:
            left = format_duration((now - start) / step * (len(batches) - step))
            log.info(f"epoch {epoch:>2}  step {step:,}/{len(batches):,}  {left} left in this epoch")
            last_log = now
        batch_loss = loss(batch)
        update(batch_loss, optimizer)
        average.update()
        losses.append(batch_loss.detach())  # read only at the end: reading makes a GPU wait
    mean = float(paddle.stack(losses).mean())
    if not math.isfinite(mean):
        raise UserError(f"the loss became {mean}: use a lower `lr`.")
    return mean


def update(loss: paddle.Tensor, *optimizers: paddle.optimizer.Optimizer) -> None:
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
