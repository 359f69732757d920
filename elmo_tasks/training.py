"""Training a network for a task: epochs over the training data, keeping the best on the dev data."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from elmo_core.machine.messages import UserError, format_duration, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.saved import TrainedModel

HELD_OUT = 0.1  # of the training data, where there are no dev data
PROGRESS_SECONDS = 20  # between two lines within an epoch
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of training.

    lr: of Adam, falling linearly towards a tenth. elmo_lr: of a trainable biLM, falling alike.
    patience: epochs without a better one after which training ends; 0: never.
    ema: decay of the mean of the weights over the steps, which is what is scored and kept; 0: no mean.
    """

    epochs: int = 30
    batch_size: int = 32
    lr: float = 0.002
    elmo_lr: float = 0.0002
    max_grad_norm: float = 5.0
    patience: int = 5
    ema: float = 0.0
    seed: int = 2020


def hold_out(examples: Sequence[Kind], seed: int) -> tuple[list[Kind], list[Kind]]:
    """The examples to train on, and a tenth to choose the epoch on."""
    if len(examples) < 2:
        raise UserError("--train_file has a single example: give --dev_file, or more examples.")
    order = np.random.default_rng(seed).permutation(len(examples))
    n = max(1, round(len(order) * HELD_OUT))
    return [examples[k] for k in order[n:]], [examples[k] for k in order[:n]]


def training_words(tokens: Iterable[str], min_count: int = 1) -> Vocabulary:
    """The tokens that occur so often, by falling frequency. The others are <UNK>, which is learnt from them."""
    counts = Counter(tokens)
    frequent = [token for token, n in counts.items() if n >= min_count and token not in SPECIAL_TOKENS]
    return Vocabulary([*SPECIAL_TOKENS, *sorted(frequent, key=lambda token: (-counts[token], token))], "training words")


class Score(Protocol):
    """How good a model is: `value` chooses the best epoch, `brief` is shown, `figures` are for JSON."""

    value: float
    brief: str

    def figures(self) -> dict: ...


@dataclass
class BestEpoch:
    """The best epoch, its score on the dev data, and the seconds that training took."""

    epoch: int
    score: Score
    seconds: float


def fit(
    model: TrainedModel,
    batches: Callable[[], Sequence],
    loss: Callable[..., paddle.Tensor],
    score: Callable[[], Score],
    schedule: TrainingSettings,
    folder: Path | None = None,
) -> BestEpoch:
    """Train the model and leave it with the weights of its best epoch.

    batches: makes those of an epoch. loss: of a batch. folder: where the model is saved after each epoch that is better
    than all before.
    """
    network, best, weights, start = model.network, None, {}, time.perf_counter()
    optimizer = _adam(network, schedule)
    means = WeightAverage(model.saved_parameters().values(), schedule.ema)
    for epoch in range(1, schedule.epochs + 1):
        optimizer.set_lr(schedule.lr * (1 - 0.9 * (epoch - 1) / schedule.epochs))
        mean_loss = _run_epoch(network, optimizer, batches(), loss, epoch, means)
        with means.in_place():
            current, seconds = score(), time.perf_counter() - start
            better = best is None or current.value > best.score.value
            log.info(
                f"epoch {epoch:>2}/{schedule.epochs}  loss {mean_loss:7.3f}  dev {current.brief}{' *' if better else '  '}  "
                f"{format_duration(seconds)}, at most {format_duration(seconds / epoch * (schedule.epochs - epoch))} left"
            )
            if better:
                if folder:
                    model.save_weights(folder) if best else model.save(folder)
                best, weights = BestEpoch(epoch, current, seconds), model.weights()
        if schedule.patience and epoch - best.epoch >= schedule.patience:
            break
    model.set_weights(weights, "the best epoch")
    best.seconds = time.perf_counter() - start
    return best


def report(
    model: TrainedModel, best: BestEpoch, test: Score | None, seed: int, show: Callable[[str, Score], None]
) -> dict:
    """Print the scores of a trained model and the weights of its mixed layers. Returns them for JSON."""
    results = {"epoch": best.epoch, "seconds": best.seconds, "seed": seed, "dev": best.score.figures()}
    show(f"dev, epoch {best.epoch}", best.score)
    elmo = model.network.elmo
    mixes = [elmo.mix_weights(number) for number in range(len(elmo.mixes))] if elmo else []
    for where, mix in zip(model.network.elmo_at, mixes, strict=False):  # concatenated layers have none
        results[f"mix_at_{where}"] = mix
        weights = " ".join(f"{weight:.2f}" for weight in mix["layers"])
        print(f"ELMo's layers at the {where} {weights}, times {mix['gamma']:.2f}")
    if test is not None:
        results["test"] = test.figures()
        show("test", test)
    return results


def _adam(network: paddle.nn.Layer, schedule: TrainingSettings) -> paddle.optimizer.Optimizer:
    for name, weight in network.named_parameters():
        if name.startswith("elmo.bilm."):
            weight.optimize_attr["learning_rate"] = schedule.elmo_lr / schedule.lr
    weights = [weight for weight in network.parameters() if not weight.stop_gradient]
    clip = paddle.nn.ClipGradByGlobalNorm(schedule.max_grad_norm)
    return paddle.optimizer.Adam(schedule.lr, parameters=weights, grad_clip=clip)


def _run_epoch(network, optimizer, batches: Sequence, loss_of: Callable, epoch: int, means: "WeightAverage") -> float:
    """Train on every batch. Returns the mean loss."""
    network.train()
    losses, start, shown = [], time.perf_counter(), time.perf_counter()
    for step, batch in enumerate(batches):
        now = time.perf_counter()
        if now - shown > PROGRESS_SECONDS:
            left = format_duration((now - start) / step * (len(batches) - step))
            log.info(f"epoch {epoch:>2}  step {step:,}/{len(batches):,}  {left} left in this epoch")
            shown = now
        loss = loss_of(batch)
        update(loss, optimizer)
        means.update()
        losses.append(loss.detach())  # read once at the end: a GPU would wait each time
    mean = float(paddle.stack(losses).mean())
    if not math.isfinite(mean):
        raise UserError(f"the loss became {mean}: give a lower --lr.")
    return mean


def update(loss: paddle.Tensor, *optimizers: paddle.optimizer.Optimizer) -> None:
    """Take one step down the loss's gradient."""
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.clear_grad()


class WeightAverage:
    """Exponential means of weights over the steps, which score better than the weights of any one step.

    decay: of the mean; in the first steps less, so that it does not dwell on where training began. 0: no mean.
    """

    def __init__(self, weights: Iterable[paddle.Tensor], decay: float):
        self.weights, self.decay, self.steps = list(weights) if decay else [], decay, 0
        self.means = [weight.detach().clone() for weight in self.weights]

    @paddle.no_grad()
    def update(self) -> None:
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for mean, weight in zip(self.means, self.weights, strict=True):
            mean.lerp_(weight.detach(), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The means in place of the weights, which come back at the end."""
        before = [weight.numpy() for weight in self.weights]
        for weight, mean in zip(self.weights, self.means, strict=True):
            weight.set_value(mean)
        try:
            yield
        finally:
            for weight, value in zip(self.weights, before, strict=True):
                weight.set_value(value)
