"""A classifier over the bag of a text's words: a head over encoders' vectors, and their training.

    text ─▶ encoder: a vector of each token ─▶ their mean ─▶ standardised ─▶ mixed if L > 1 ─▶ head ─▶ classes
            (word table | biLM)                 (L, D)        (L, D)           (D)

A pair of texts a and b becomes [a; b; |a - b|; a * b] before the head.

A frozen encoder computes the mean of each layer once, and then a head is trained in seconds: what comes above is a
function of these means, since a ScalarMix over layers and an average over tokens commute.

Letters: n texts, B of a batch, L layers (1 where the biLM's are side by side), D dimensions. Of pairs, arrays hold all
first texts, then all second ones: 2B rows.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import elmo
from elmo_core.machine import messages
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import shuffled_batches
from elmo_tasks.classification.encoders import Encoder
from elmo_tasks.classification.scores import accuracy, auc

nn = paddle.nn

WARMUP = 0.1  # share of the training in which the learning rates rise; in the rest they fall to 0
MAX_GRAD_NORM = 1.0  # of an encoder that is fine-tuned


# The network


class Standardised(nn.Layer):
    """An encoder's layers (B, L, D), each dimension of each with mean 0 and variance 1 in training, mixed: (B, D).

    So a learning rate means the same for every encoder, and a layer's weight in the mix does not depend on its scale.
    """

    def __init__(self, n_layers: int, dim: int):
        super().__init__()
        self.register_buffer("mean", paddle.zeros([n_layers, dim]))
        self.register_buffer("deviation", paddle.ones([n_layers, dim]))
        self.mix = elmo.ScalarMix(n_layers) if n_layers > 1 else None

    def measure(self, means: np.ndarray) -> None:
        """Take mean and deviation from the training part (n, L, D)."""
        self.mean.set_value(means.mean(axis=0))
        self.deviation.set_value(means.std(axis=0) + 1e-6)

    def forward(self, means: paddle.Tensor) -> paddle.Tensor:
        layers = ((means - self.mean) / self.deviation).unbind(axis=1)
        return self.mix(layers) if self.mix else layers[0]


class Head(nn.Layer):
    """The vectors of all encoders side by side, a hidden layer of size `hidden` (0: none), dropout, the classes.

    shapes: (L, D) of each encoder. pairs: whether it classifies pairs of texts.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], hidden: int, n_classes: int = 2, pairs: bool = False):
        super().__init__()
        dim = sum(dim for _, dim in shapes) * (4 if pairs else 1)
        self.pairs = pairs
        self.inputs = nn.LayerList(Standardised(*shape) for shape in shapes)
        self.hidden = nn.Linear(dim, hidden) if hidden else None
        self.output = nn.Linear(hidden or dim, n_classes)
        self.dropout = 0.0

    def forward(self, means: Sequence[paddle.Tensor | np.ndarray]) -> paddle.Tensor:
        """Logits (B, classes) from each encoder's (B, L, D), of pairs (2B, L, D)."""
        means = [paddle.to_tensor(layers) if isinstance(layers, np.ndarray) else layers for layers in means]
        x = paddle.concat([part(layers) for part, layers in zip(self.inputs, means, strict=True)], axis=1)
        if self.pairs:
            a, b = x.chunk(2)
            x = paddle.concat([a, b, (a - b).abs(), a * b], axis=1)
        x = paddle.tanh(self.hidden(x)) if self.hidden else x
        return self.output(nn.functional.dropout(x, self.dropout, training=self.training))

    def probabilities(self, means: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities (n, classes) from each encoder's (n, L, D)."""
        self.eval()
        if not len(means[0]):
            return np.zeros((0, self.output.weight.shape[1]), np.float32)
        with paddle.no_grad():
            return nn.functional.softmax(self(means)).numpy()

    def mixes(self) -> list[list[float]]:
        """For every encoder with several layers, their weights softmax(s) and gamma."""
        mixes = [part.mix for part in self.inputs if part.mix]
        return [[*nn.functional.softmax(mix.scalars, axis=0).tolist(), mix.gamma.item()] for mix in mixes]


class Model(nn.Layer):
    """Encoders, with the texts they have read, and the head.

    fine_tuning: whether trainable encoders recompute their means. Until then, their first means are used.
    """

    def __init__(self, encoders: Sequence[Encoder], hidden: int, n_classes: int = 2, pairs: bool = False):
        super().__init__()
        self.encoders, self.hidden, self.n_classes, self.pairs = nn.LayerList(encoders), hidden, n_classes, pairs
        self.trainable = [encoder for encoder in encoders if encoder.tuning]
        self.head = self._new_head()
        self.fine_tuning = False

    def _new_head(self) -> Head:
        return Head([encoder.shape for encoder in self.encoders], self.hidden, self.n_classes, self.pairs)

    def read(self, sentences: Sequence[Sequence[str]], ranks: Ranks) -> None:
        """Read the texts, which are numbers from here on. Every rank computes the means of a share of them."""
        self.reviews = [encoder.read(sentences) for encoder in self.encoders]
        mine = range(ranks.rank, len(sentences), ranks.size)
        pairs = list(zip(self.encoders, self.reviews, strict=True))
        shares = ranks.on_each(lambda: [encoder.means([reviews[k] for k in mine]) for encoder, reviews in pairs])
        self.means = [np.empty((len(sentences), *encoder.shape), np.float32) for encoder in self.encoders]
        for rank, share in enumerate(shares):
            for means, part in zip(self.means, share, strict=True):
                means[rank :: ranks.size] = part
        self.first = self._arrays("encoders.")

    def forward(self, which: np.ndarray) -> paddle.Tensor:
        """Logits (B, classes) of texts."""
        return self.head(self._inputs(which, lambda encoder, reviews: encoder(reviews)))

    def probabilities(self, which: np.ndarray) -> np.ndarray:
        """(n, classes) of texts, without dropout."""
        return self.head.probabilities(self._inputs(which, lambda encoder, reviews: encoder.means(reviews)))

    def _inputs(self, which: np.ndarray, encode: Callable[[Encoder, list], Any]) -> list:
        """Each encoder's (B, L, D) of texts: recomputed if it is being fine-tuned."""
        which = self.rows(which)
        return [
            encode(encoder, [reviews[k] for k in which]) if self.fine_tuning and encoder.tuning else means[which]
            for encoder, reviews, means in zip(self.encoders, self.reviews, self.means, strict=True)
        ]

    def rows(self, which: np.ndarray) -> np.ndarray:
        """The numbers of the texts; of pairs those of the second texts behind them."""
        return np.concatenate([which, which + len(self.means[0]) // 2]) if self.pairs else which

    def reset(self, train: np.ndarray, seed: int) -> None:
        """A new head over the encoders' first means, standardised over the training part."""
        paddle.seed(seed)
        self.head, self.fine_tuning = self._new_head(), False
        for part, means in zip(self.head.inputs, self.means, strict=True):
            part.measure(means[self.rows(train)])

    def arrays(self) -> dict[str, np.ndarray]:
        """A copy of what training changes: the head and, in fine-tuning, the trainable encoders."""
        return self._arrays("head.") | (self._arrays("encoders.") if self.fine_tuning else {})

    def _arrays(self, prefix: str) -> dict[str, np.ndarray]:
        frozen = tuple(f"encoders.{k}." for k, encoder in enumerate(self.encoders) if not encoder.tuning)
        weights = self.state_dict().items()
        return {name: w.numpy() for name, w in weights if name.startswith(prefix) and not name.startswith(frozen)}

    def set_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        weights = self.state_dict()
        for name, array in arrays.items():
            weights[name].set_value(array)


# Training


@dataclass
class Training:
    """Settings of a head's training. The dev part chooses among several values."""

    lr: Sequence[float] = (0.001, 0.003)
    weight_decay: Sequence[float] = (0.1, 1.0)
    dropout: Sequence[float] = (0.5,)
    sent_embedding_dim: int = 64  # of the hidden layer; 0: none
    epochs: int = 15
    tune_epochs: int = 5  # of fine-tuning
    batch_size: int = 64
    seed: int = 2020
    logging_step: int | None = None  # steps from line to line; None: a line for each fold


@dataclass
class Fold:
    """The numbers of the texts to train on, to choose by, and to score."""

    name: str
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray


@dataclass
class Best:
    """The epoch of the highest dev AUC so far: its weights, and the settings that led to them."""

    auc: float = -1.0
    accuracy: float = 0.0
    settings: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class FoldResult:
    """A fold's outcome: probabilities (n, classes) of its test texts, and what was chosen on its dev part."""

    part: str
    test: np.ndarray
    probabilities: np.ndarray
    accuracy: float
    first_accuracy: float  # before fine-tuning
    dev_accuracy: float
    settings: dict[str, float]
    mixes: list[list[float]]
    seconds: float

    def __str__(self) -> str:
        scored = f"accuracy {self.accuracy:.2%}  " if len(self.test) else ""
        taken = messages.duration(self.seconds)
        return f"{self.part}  {scored}(dev {self.dev_accuracy:.2%})  {format_settings(self.settings)}  {taken}"


class Trainer:
    """Trains a model on folds of the labelled texts. A fold's result depends on it, its number and the seed alone.

    n_folds: how many will be trained, for the time left. class_weights: (classes,), of the loss.
    """

    def __init__(
        self,
        model: Model,
        labels: np.ndarray,
        settings: Training,
        n_folds: int,
        class_weights: np.ndarray | None = None,
    ):
        self.model, self.labels, self.settings = model, labels, settings
        self.class_weights = None if class_weights is None else paddle.to_tensor(class_weights.astype(np.float32))
        self.n_folds, self.done, self.began = n_folds, 0, time.perf_counter()

    def train(self, fold: Fold, number: int) -> FoldResult:
        """Choose on the dev part, score the test part, and leave the model with the weights that were chosen."""
        began, labels = time.perf_counter(), self.labels[fold.test]
        seed = int(np.random.SeedSequence([self.settings.seed, number]).generate_state(1)[0])
        best = self._train_head(fold, seed)
        first = probabilities = self.model.probabilities(fold.test)
        if self.model.trainable:
            self._fine_tune(fold, seed, best)
            probabilities = self.model.probabilities(fold.test)
        self.done += 1
        result = FoldResult(
            part=fold.name,
            test=fold.test,
            probabilities=probabilities,
            accuracy=accuracy(probabilities, labels),
            first_accuracy=accuracy(first, labels),
            dev_accuracy=best.accuracy,
            settings=best.settings,
            mixes=self.model.head.mixes(),
            seconds=time.perf_counter() - began,
        )
        left = f"  {messages.duration(self._seconds_left(0))} left" if self.done < self.n_folds else ""
        log.info(f"{result}{left}")
        return result

    def _train_head(self, fold: Fold, seed: int) -> Best:
        """The best head over the encoders' first means."""
        best, choices = Best(), {name: getattr(self.settings, name) for name in ("lr", "weight_decay", "dropout")}
        for values in itertools.product(*choices.values()):
            self.model.reset(fold.train, seed)
            settings = dict(zip(choices, values, strict=True))
            for epoch in self._epochs(fold, settings, self.settings.epochs, seed):
                self._evaluate(fold, {**settings, "epoch": epoch}, best)
        self.model.set_arrays(best.arrays)
        return best

    def _fine_tune(self, fold: Fold, seed: int, best: Best) -> None:
        """The best head and encoders that come from the best head and the first encoders."""
        model, epochs = self.model, self.settings.tune_epochs
        begin, settings = {**model.first, **best.arrays}, {k: v for k, v in best.settings.items() if k != "epoch"}
        choices = list(itertools.product(*(encoder.tuning.rates for encoder in model.trainable)))
        model.fine_tuning = True
        for k, rates in enumerate(choices):
            model.set_arrays(begin)
            settings |= {f"{encoder.name}_lr": rate for encoder, rate in zip(model.trainable, rates, strict=True)}
            for epoch in self._epochs(fold, settings, epochs, seed):
                dev_auc, right = self._evaluate(fold, {**settings, "tune_epoch": epoch}, best)
                left = self._seconds_left((k + epoch / epochs) / len(choices))
                log.info(
                    f"{fold.name}  fine-tuning {k + 1}/{len(choices)}, epoch {epoch}/{epochs}  dev AUC {dev_auc:.4f} "
                    f"accuracy {right:.2%}  {messages.duration(left)} left"
                )
        model.set_arrays({**begin, **best.arrays})

    def _evaluate(self, fold: Fold, settings: dict[str, float], best: Best) -> tuple[float, float]:
        """Score the model on the dev part and keep it if it is the best so far. Returns its AUC and accuracy."""
        probabilities, labels = self.model.probabilities(fold.dev), self.labels[fold.dev]
        if not np.isfinite(probabilities).all():
            with_these = f"with {format_settings(settings)}"
            raise UserError(f"{fold.name}: the model is not finite {with_these}. Lower the learning rates.")
        dev_auc, right = auc(probabilities, labels), accuracy(probabilities, labels)
        if dev_auc > best.auc:
            best.auc, best.accuracy, best.settings, best.arrays = dev_auc, right, settings, self.model.arrays()
        return dev_auc, right

    def _epochs(self, fold: Fold, settings: Mapping[str, float], epochs: int, seed: int) -> Iterator[int]:
        """Train the model, going on from its weights. Yields the number of each epoch at its end."""
        model, step, random = self.model, 0, np.random.default_rng(seed)
        paddle.seed(seed)
        model.head.dropout = settings["dropout"]
        optimizers = [(_head_optimizer(model.head, settings["weight_decay"]), settings["lr"])]
        for encoder in model.trainable if model.fine_tuning else ():
            optimizers.append((_encoder_optimizer(encoder), settings[f"{encoder.name}_lr"]))
        for epoch in range(epochs):
            model.train()
            for encoder in model.trainable:
                _unfreeze(encoder, epoch)
            batches = self._batches(fold.train, random)
            for k, which in enumerate(batches):
                labels = paddle.to_tensor(self.labels[which])
                loss = nn.functional.cross_entropy(model(which), labels, weight=self.class_weights)
                loss.backward()
                share = (epoch + k / len(batches)) / epochs
                factor = max(share, 0.01) / WARMUP if share < WARMUP else (1 - share) / (1 - WARMUP)
                for optimizer, lr in optimizers:
                    optimizer.set_lr(lr * factor)
                    optimizer.step()
                    optimizer.clear_grad()
                step += 1
                if self.settings.logging_step and step % self.settings.logging_step == 0:
                    log.info(f"{fold.name}  epoch {epoch + 1}/{epochs}  step {step:,}  loss {loss.item():.4f}")
            yield epoch + 1

    def _batches(self, train: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
        """The texts, shuffled; in fine-tuning in batches of similar length, which are faster to encode."""
        size = self.settings.batch_size
        if not self.model.fine_tuning:
            return np.array_split(random.permutation(train), math.ceil(len(train) / size))
        reviews = self.model.reviews[0]
        lengths = [sum(len(reviews[row]) for row in self.model.rows(train[k : k + 1])) for k in range(len(train))]
        return [train[places] for places in shuffled_batches(list(map(range, lengths)), size, random)]

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
    groups = encoder.groups()
    factors = [encoder.tuning.decay**below for below in reversed(range(len(groups)))]
    return paddle.optimizer.Adam(
        parameters=[{"params": g, "learning_rate": factor} for g, factor in zip(groups, factors, strict=True)],
        grad_clip=nn.ClipGradByGlobalNorm(MAX_GRAD_NORM),
        lazy_mode=True,  # of a table, only the rows that the batch has read
    )


def _unfreeze(encoder: Encoder, epoch: int) -> None:
    """Gradual unfreezing: train the groups that are due in this epoch, counted from 0."""
    every, groups = encoder.tuning.unfreeze_epochs, encoder.groups()
    frozen = max(0, len(groups) - 1 - epoch // every) if every else 0
    for k, group in enumerate(groups):
        for weight in group:
            weight.stop_gradient = k < frozen


def format_settings(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())
