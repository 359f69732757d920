"""Training a classifier on a fold: the head alone, then trainable encoders together with it; the dev part selects."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from elmo_core.machine import messages
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import shuffled_batches
from elmo_tasks.classification.encoders import Encoder
from elmo_tasks.classification.network import ClassifierModel, Head
from elmo_tasks.classification.scores import accuracy, auc, macro_f1
from elmo_tasks.training import update

nn = paddle.nn

WARMUP = 0.1  # share of the training in which the learning rates rise; then they fall to 0
MAX_GRAD_NORM = 1.0  # per parameter group of a fine-tuned encoder


@dataclass
class SearchSettings:
    """If a field has several values, the dev part selects one."""

    lr: Sequence[float] = (0.001, 0.003)
    weight_decay: Sequence[float] = (0.1, 1.0)
    dropout: Sequence[float] = (0.5,)
    hidden_dim: int = 64  # 0: no hidden layer
    epochs: int = 15
    tune_epochs: int = 5  # of fine-tuning
    batch_size: int = 64
    seed: int = 2020
    logging_step: int | None = None  # steps between log lines; None: one line per fold


@dataclass
class Fold:
    """Indices of the texts to train on, to select on, and to score."""

    name: str
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray


@dataclass
class Candidate:
    """A model after an epoch: its settings, its scores on the dev part, and its trained weights."""

    settings: dict[str, float] = field(default_factory=dict)
    auc: float = -1.0
    accuracy: float = 0.0
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{format_settings(self.settings)}, dev AUC {self.auc:.4f} accuracy {self.accuracy:.2%}"


@dataclass
class FoldResult:
    """Probabilities (n, classes) and scores on a fold's test texts, and the selected settings.

    first_accuracy: before fine-tuning.
    """

    probabilities: np.ndarray
    accuracy: float
    first_accuracy: float
    macro_f1: float
    settings: dict[str, float]
    mixes: list[list[float]]


class Trainer:
    """Trains a model on folds of the labelled texts. A fold's result depends only on it, its number and the seed.

    n_folds: how many will be trained, for the time left. class_weights: (classes,), of the loss.
    """

    def __init__(
        self,
        model: ClassifierModel,
        labels: np.ndarray,
        settings: SearchSettings,
        n_folds: int,
        class_weights: np.ndarray | None = None,
    ):
        self.model, self.labels, self.settings = model, labels, settings
        self.class_weights = None if class_weights is None else paddle.to_tensor(class_weights.astype(np.float32))
        self.n_folds, self.done, self.began = n_folds, 0, time.perf_counter()
        self.fold, self.best = None, Candidate()  # in training

    def train(self, fold: Fold, number: int) -> FoldResult:
        """Select on the dev part, score the test part, and leave the model with the selected weights."""
        began, labels = time.perf_counter(), self.labels[fold.test]
        self.fold, self.best = fold, Candidate()
        seed = int(np.random.SeedSequence([self.settings.seed, number]).generate_state(1)[0])
        self._train_head(fold, seed)
        first = probabilities = self.model.probabilities(fold.test)
        if self.model.trainable:
            self._fine_tune(fold, seed)
            probabilities = self.model.probabilities(fold.test)
        self.done += 1
        scores, test = [math.nan] * 3, ""
        if len(labels):
            f1 = macro_f1(probabilities.argmax(axis=1), labels)
            scores = accuracy(probabilities, labels), accuracy(first, labels), f1
            test = f"accuracy {scores[0]:.2%}  "
        times = messages.format_duration(time.perf_counter() - began)
        if self.done < self.n_folds:
            times += f"  {messages.format_duration(self._seconds_left(0))} left"
        best = self.best
        log.info(f"{fold.name}  {test}(dev {best.accuracy:.2%})  {format_settings(best.settings)}  {times}")
        return FoldResult(probabilities, *scores, best.settings, self.model.head.mixes())

    def load_best(self) -> None:
        """Load the best weights of the fold that is being trained."""
        self.model.load_weights({**self.model.initial_weights, **self.best.weights})

    def _train_head(self, fold: Fold, seed: int) -> None:
        """Select and load the best head over the encoders' first means."""
        grid = {name: getattr(self.settings, name) for name in ("lr", "weight_decay", "dropout")}
        for values in itertools.product(*grid.values()):
            self.model.start_head(fold.train, seed)
            for candidate in self._candidates(fold, dict(zip(grid, values, strict=True)), self.settings.epochs, seed):
                self.best = max(self.best, candidate, key=attrgetter("auc"))  # the earlier of equal ones
        self.load_best()

    def _fine_tune(self, fold: Fold, seed: int) -> None:
        """Fine-tune the initial encoders with the best head. Select and load the best candidate, at worst this head."""
        model, epochs, head = self.model, self.settings.tune_epochs, self.best
        settings = {name: value for name, value in head.settings.items() if name != "epoch"}
        grid = list(itertools.product(*(encoder.tuning.rates for encoder in model.trainable)))
        model.fine_tuning = True
        for k, rates in enumerate(grid):
            model.load_weights({**model.initial_weights, **head.weights})
            settings |= {f"{encoder.name}_lr": rate for encoder, rate in zip(model.trainable, rates, strict=True)}
            for epoch, candidate in enumerate(self._candidates(fold, settings, epochs, seed), 1):
                self.best = max(self.best, candidate, key=attrgetter("auc"))
                left = self._seconds_left((k + epoch / epochs) / len(grid))
                log.info(
                    f"{fold.name}  fine-tuning {k + 1}/{len(grid)}, epoch {epoch}/{epochs}  dev AUC {candidate.auc:.4f} "
                    f"accuracy {candidate.accuracy:.2%}  {messages.format_duration(left)} left"
                )
        self.load_best()

    def _candidates(self, fold: Fold, settings: Mapping[str, float], epochs: int, seed: int) -> Iterator[Candidate]:
        """Train the model from its current weights. Yields it after each epoch."""
        model, step, random = self.model, 0, np.random.default_rng(seed)
        paddle.seed(seed)
        model.head.dropout = settings["dropout"]
        optimizers = [(_head_optimizer(model.head, settings["weight_decay"]), settings["lr"])]
        for encoder in model.trainable if model.fine_tuning else ():
            optimizers.append((_encoder_optimizer(encoder), settings[f"{encoder.name}_lr"]))
        for epoch in range(epochs):
            model.train()
            batches = self._batches(fold.train, random)
            for k, indices in enumerate(batches):
                labels = paddle.to_tensor(self.labels[indices])
                loss = nn.functional.cross_entropy(model(indices), labels, weight=self.class_weights)
                share = (epoch + k / len(batches)) / epochs
                factor = max(share, 0.01) / WARMUP if share < WARMUP else (1 - share) / (1 - WARMUP)
                for optimizer, lr in optimizers:
                    optimizer.set_lr(lr * factor)
                update(loss, *(optimizer for optimizer, _ in optimizers))
                step += 1
                if self.settings.logging_step and step % self.settings.logging_step == 0:
                    log.info(f"{fold.name}  epoch {epoch + 1}/{epochs}  step {step:,}  loss {loss.item():.4f}")
            yield self._candidate(fold, {**settings, "tune_epoch" if model.fine_tuning else "epoch": epoch + 1})

    def _candidate(self, fold: Fold, settings: dict[str, float]) -> Candidate:
        """The current model, scored on the dev part."""
        probabilities, labels = self.model.probabilities(fold.dev), self.labels[fold.dev]
        if not np.isfinite(probabilities).all():
            with_these = f"with {format_settings(settings)}"
            raise UserError(f"{fold.name}: predictions are not finite {with_these}. Lower the learning rates.")
        scores = auc(probabilities, labels), accuracy(probabilities, labels)
        return Candidate(settings, *scores, self.model.trained_weights())

    def _batches(self, train: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
        """Shuffled batches; in fine-tuning, of texts of similar length, which encode faster."""
        size = self.settings.batch_size
        if not self.model.fine_tuning:
            return np.array_split(random.permutation(train), math.ceil(len(train) / size))
        texts = self.model.texts[0]
        lengths = [sum(len(texts[row]) for row in self.model.row_numbers(train[k : k + 1])) for k in range(len(train))]
        return [train[positions] for positions in shuffled_batches(lengths, size, random)]

    def _seconds_left(self, share: float) -> float:
        """Seconds until all folds are done. share: the part of the current fold that is done."""
        done = self.done + share
        return (time.perf_counter() - self.began) / done * (self.n_folds - done)


def _head_optimizer(head: Head, weight_decay: float) -> paddle.optimizer.Optimizer:
    """AdamW, without weight decay for biases and the mix."""
    decayed = {weight.name for name, weight in head.named_parameters() if name.endswith(".weight")}
    return paddle.optimizer.AdamW(
        parameters=head.parameters(), weight_decay=weight_decay, apply_decay_param_fun=decayed.__contains__
    )


def _encoder_optimizer(encoder: Encoder) -> paddle.optimizer.Optimizer:
    """Adam that clips the gradient of each of the encoder's parameter groups separately."""
    return paddle.optimizer.Adam(
        parameters=[{"params": group} for group in encoder.groups()],
        grad_clip=nn.ClipGradByGlobalNorm(MAX_GRAD_NORM),
        lazy_mode=True,  # update only the table rows used in the batch
    )


def format_settings(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())
