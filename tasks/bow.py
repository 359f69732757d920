"""A classifier over the bag of a text's words: encoders that give words their vectors, a head, and their training.

    text ─▶ encoder: a vector of each token ─▶ their mean ─▶ standardised, layers mixed ─▶ head ─▶ classes
            (word table | biLM, L layers)       (L, D)        (D)

A bag of words averages over tokens, a ScalarMix over layers, and the two commute: an encoder that does not learn is
asked once for the mean of each layer, and then a head is trained in seconds.

Letters: N texts, B of a batch, L layers, D dimensions.
"""

import argparse
import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import elmo
from elmo_core import checkpoint, runtime
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, log, paddle
from elmo_core.tokens import shuffled_batches
from tasks.scores import CLASSES, accuracy, area

nn = paddle.nn

WARMUP = 0.1  # share of the way on which the learning rates rise; on the rest they fall to 0
FIRST_STEPS = 10  # of fine-tuning, after which it is said how long it takes
MAX_GRAD_NORM = 1.0  # of a group of weights that are fine-tuned


# Encoders


@dataclass
class Learning:
    """How an encoder is fine-tuned.

    rates: one of them is chosen; it is that of the encoder's top weights.
    word_dropout: share of a batch's words whose vectors are dropped.
    dropout: between layers.
    decay: factor of the rate from each group of weights to the one below.
    unfreeze_epochs: epochs until the next lower group begins to learn; 0: all learn from the start.
    """

    rates: Sequence[float]
    word_dropout: float = 0.0
    dropout: float = 0.0
    decay: float = 1.0
    unfreeze_epochs: int = 0


class Encoder(nn.Layer):
    """What gives tokens their vectors: in L layers, of D dimensions.

    name: in messages. learning: None if its weights stay as they are.
    """

    name: str
    shape: tuple[int, int]  # (L, D)
    learning: Learning | None = None

    def read(self, sentences: Sequence[Sequence[str]]) -> list:
        """What `means` and `forward` need of each review."""
        raise NotImplementedError

    def means(self, reviews: list) -> np.ndarray:
        """(n, L, D) of reviews: means over their tokens, by the weights as they are. Zeros for a review without tokens."""
        raise NotImplementedError

    def forward(self, reviews: list) -> paddle.Tensor:
        """The same with gradients, and with dropout in training."""
        raise NotImplementedError

    def without_words(self, vectors: paddle.Tensor) -> paddle.Tensor:
        """The vectors (n, D) of a batch's distinct words; in training some are zero, and the others larger for it."""
        if not (self.training and self.learning and self.learning.word_dropout):
            return vectors
        return vectors * nn.functional.dropout(paddle.ones([len(vectors), 1]), self.learning.word_dropout)

    def groups(self) -> list[list[paddle.Tensor]]:
        """The weights, from the bottom of the network to its top."""
        raise NotImplementedError

    def save(self, folder: Path) -> dict:
        """Write into the folder what cannot be had elsewhere. Returns what it takes to build the encoder again."""
        raise NotImplementedError


class Bags(Encoder):
    """A table of word vectors: a file's, and for each unknown word a random one, the same every time.

    vectors: gensim's KeyedVectors. words, rows (n, D): a table learnt before, which goes first.
    """

    name = "vectors"

    def __init__(
        self,
        vectors,
        seed: int,
        learning: Learning | None = None,
        words: Sequence[str] = (),
        rows: np.ndarray | None = None,
        source: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        self.vectors, self.seed, self.learning = vectors, seed, learning
        self.source = dict(source or {})
        self.shape = (1, vectors.vector_size)
        self.bound = math.sqrt(3) * _deviation(vectors.vectors)  # of a uniform draw with the known vectors' variance
        self.index = {word: k for k, word in enumerate(words)}
        self._set_rows(np.zeros((0, vectors.vector_size), np.float32) if rows is None else rows)

    def _set_rows(self, rows: np.ndarray) -> None:
        self.table = self.create_parameter([max(1, len(rows)), rows.shape[1]])
        if len(rows):
            self.table.set_value(rows)

    def read(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The tokens' rows in the table, which gets one for each word that is new to it."""
        words = dict.fromkeys(chain.from_iterable(sentences))
        if unread := [word for word in words if word not in self.index]:
            rows = self.table.numpy()[: len(self.index)]
            self.index.update(zip(unread, range(len(rows), len(rows) + len(unread)), strict=True))
            self._set_rows(np.concatenate([rows, np.stack([self.vector(word) for word in unread])]))
        return [np.array([self.index[word] for word in sentence], np.int64) for sentence in sentences]

    def vector(self, word: str) -> np.ndarray:
        """The file's, or a random one, in which nothing but the word and the seed counts."""
        if word in self.vectors:
            return self.vectors[word]
        number = int.from_bytes(hashlib.sha1(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        draw = np.random.default_rng([self.seed, number])
        return draw.uniform(-self.bound, self.bound, self.shape[1]).astype(np.float32)

    def describe(self, sentences: Sequence[Sequence[str]]) -> None:
        """Say how many words are unknown."""
        unknown = {word for word in chain.from_iterable(sentences) if word not in self.vectors}
        times = sum(word in unknown for word in chain.from_iterable(sentences))
        share = times / max(1, sum(map(len, sentences)))
        words = len(set(chain.from_iterable(sentences)))
        log.info(
            f"word vectors  {len(self.vectors):,} of {self.shape[1]} dimensions; {len(unknown):,} of the reviews' {words:,} "
            f"words ({share:.2%} of the tokens) have none, and get a random one each"
        )

    def means(self, reviews: list[np.ndarray]) -> np.ndarray:
        table, nothing = self.table.numpy(), np.zeros(self.shape[1], np.float32)
        found = [table[rows].mean(axis=0) if len(rows) else nothing for rows in reviews]
        return np.array(found, np.float32).reshape(-1, *self.shape)

    def forward(self, reviews: list[np.ndarray]) -> paddle.Tensor:
        rows, place = np.unique(np.concatenate(reviews), return_inverse=True)
        shares = np.zeros((len(reviews), len(rows)), np.float32)
        lengths = np.array(list(map(len, reviews)))
        np.add.at(shares, (np.repeat(np.arange(len(reviews)), lengths), place), 1 / np.repeat(lengths, lengths))
        vectors = self.without_words(nn.functional.embedding(paddle.to_tensor(rows), self.table, sparse=True))
        return (paddle.to_tensor(shares) @ vectors).unsqueeze(1)

    def groups(self) -> list[list[paddle.Tensor]]:
        return [[self.table]]

    def save(self, folder: Path) -> dict:
        if self.learning:
            words = np.array(list(self.index))
            checkpoint.save(folder / "words", {"words": words, "rows": self.table.numpy()})
        return {"encoder": self.name, **self.source, "seed": self.seed, "learnt": bool(self.learning)}


# The network


class Standardised(nn.Layer):
    """An encoder's layers (B, L, D), each dimension of each with mean 0 and variance 1 in training, mixed: (B, D).

    So that a learning rate means the same whatever the encoder, and a layer's weight in the mix is not its scale's.
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
    """Any encoders' vectors side by side, a hidden layer of size `hidden` (0: none), dropout, the classes."""

    def __init__(self, shapes: Sequence[tuple[int, int]], hidden: int):
        super().__init__()
        dim = sum(dim for _, dim in shapes)
        self.inputs = nn.LayerList(Standardised(*shape) for shape in shapes)
        self.hidden = nn.Linear(dim, hidden) if hidden else None
        self.output = nn.Linear(hidden or dim, len(CLASSES))
        self.dropout = 0.0

    def forward(self, means: Sequence[paddle.Tensor]) -> paddle.Tensor:
        """Logits (B, classes) from each encoder's (B, L, D)."""
        x = paddle.concat([part(layers) for part, layers in zip(self.inputs, means, strict=True)], axis=1)
        x = paddle.tanh(self.hidden(x)) if self.hidden else x
        return self.output(nn.functional.dropout(x, self.dropout, training=self.training))

    def judge(self, means: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities (n, classes) from each encoder's (n, L, D)."""
        self.eval()
        with paddle.no_grad():
            return nn.functional.softmax(self([paddle.to_tensor(part) for part in means])).numpy()

    def mixes(self) -> list[list[float]]:
        """Of every encoder with several layers, their weights softmax(s) and gamma."""
        mixes = [part.mix for part in self.inputs if part.mix]
        return [[*nn.functional.softmax(mix.scalars, axis=0).tolist(), mix.gamma.item()] for mix in mixes]


class Model(nn.Layer):
    """Encoders, with the reviews they have read, and the head.

    asks: whether encoders that learn are asked anew for each batch. Until they begin to, their first means will do.
    """

    def __init__(self, encoders: Sequence[Encoder], hidden: int):
        super().__init__()
        self.encoders, self.hidden = nn.LayerList(encoders), hidden
        self.learners = [encoder for encoder in encoders if encoder.learning]
        self.head = self._new_head()
        self.asks = False

    def _new_head(self) -> Head:
        return Head([encoder.shape for encoder in self.encoders], self.hidden)

    def read(self, sentences: Sequence[Sequence[str]], ranks: Ranks) -> None:
        """Take in the reviews, which from here on go by their numbers. Every rank takes the means of a share of them."""
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
        """Logits (B, classes) of reviews."""
        means = []
        for encoder, reviews, first in zip(self.encoders, self.reviews, self.means, strict=True):
            asked = self.asks and encoder.learning
            means.append(encoder([reviews[k] for k in which]) if asked else paddle.to_tensor(first[which]))
        return self.head(means)

    def probabilities(self, which: np.ndarray) -> np.ndarray:
        """(n, classes) of reviews, with nothing dropped."""
        means = []
        for encoder, reviews, first in zip(self.encoders, self.reviews, self.means, strict=True):
            asked = self.asks and encoder.learning
            means.append(encoder.means([reviews[k] for k in which]) if asked else first[which])
        return self.head.judge(means)

    def renew(self, train: np.ndarray, seed: int) -> None:
        """A fresh head, whose inputs are standardised over the training part, over the first encoders."""
        paddle.seed(seed)
        self.head, self.asks = self._new_head(), False
        for part, means in zip(self.head.inputs, self.means, strict=True):
            part.measure(means[train])

    def arrays(self) -> dict[str, np.ndarray]:
        """A copy of what training changes: the head and, if they are asked, the encoders that learn."""
        return self._arrays("head.") | (self._arrays("encoders.") if self.asks else {})

    def _arrays(self, prefix: str) -> dict[str, np.ndarray]:
        idle = tuple(f"encoders.{k}." for k, encoder in enumerate(self.encoders) if not encoder.learning)
        weights = self.state_dict().items()
        return {
            name: weight.numpy() for name, weight in weights if name.startswith(prefix) and not name.startswith(idle)
        }

    def set_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        weights = self.state_dict()
        for name, array in arrays.items():
            weights[name].set_value(array)


# Training


@dataclass
class Part:
    """The numbers of the reviews to learn from, to choose by, and to score."""

    name: str
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray


@dataclass
class Best:
    """The epoch of the highest dev AUC so far: its weights, and what led to them."""

    auc: float = -1.0
    accuracy: float = 0.0
    settings: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Outcome:
    """What came of a part: probabilities (n, classes) of its test reviews, and what was chosen on its dev part."""

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
        return (
            f"{self.part}  {scored}(dev {self.dev_accuracy:.2%})  {spelt(self.settings)}  "
            f"{runtime.duration(self.seconds)}"
        )


class Trainer:
    """Trains a model on parts of the labelled reviews. What comes of a part depends on it, its number and the seed."""

    def __init__(self, model: Model, labels: np.ndarray, args: argparse.Namespace, parts: int):
        self.model, self.labels, self.args = model, labels, args
        self.parts, self.done, self.began = parts, 0, time.perf_counter()
        self.told = False  # how long fine-tuning takes

    def train(self, part: Part, number: int) -> Outcome:
        """Choose on the dev part, score the test part, and leave the model as it was chosen."""
        began, labels = time.perf_counter(), self.labels[part.test]
        seed = int(np.random.SeedSequence([self.args.seed, number]).generate_state(1)[0])
        best = self._train_head(part, seed)
        first = probabilities = self.model.probabilities(part.test)
        if self.model.learners:
            self._fine_tune(part, seed, best)
            probabilities = self.model.probabilities(part.test)
        self.done += 1
        outcome = Outcome(
            part=part.name,
            test=part.test,
            probabilities=probabilities,
            accuracy=accuracy(probabilities, labels),
            first_accuracy=accuracy(first, labels),
            dev_accuracy=best.accuracy,
            settings=best.settings,
            mixes=self.model.head.mixes(),
            seconds=time.perf_counter() - began,
        )
        left = f"  {runtime.duration(self._seconds_left(0))} left" if self.done < self.parts else ""
        log.info(f"{outcome}{left}")
        return outcome

    def _train_head(self, part: Part, seed: int) -> Best:
        """The best head over the encoders' first means."""
        args, best = self.args, Best()
        for lr, weight_decay, dropout in itertools.product(args.lr, args.weight_decay, args.dropout):
            self.model.renew(part.train, seed)
            settings = {"lr": lr, "weight_decay": weight_decay, "dropout": dropout}
            for epoch in self._epochs(part, settings, args.epochs, seed):
                self._offer(part, {**settings, "epoch": epoch}, best)
        self.model.set_arrays(best.arrays)
        return best

    def _fine_tune(self, part: Part, seed: int, best: Best) -> None:
        """The best head and encoders that come from the best head and the first encoders."""
        model, epochs = self.model, self.args.tune_epochs
        begin, settings = {**model.first, **best.arrays}, {k: v for k, v in best.settings.items() if k != "epoch"}
        choices = list(itertools.product(*(encoder.learning.rates for encoder in model.learners)))
        model.asks = True
        for k, rates in enumerate(choices):
            model.set_arrays(begin)
            settings |= {f"{encoder.name}_lr": rate for encoder, rate in zip(model.learners, rates, strict=True)}
            for epoch in self._epochs(part, settings, epochs, seed):
                auc, right = self._offer(part, {**settings, "tune_epoch": epoch}, best)
                left = self._seconds_left((k + epoch / epochs) / len(choices))
                log.info(
                    f"{part.name}  fine-tuning {k + 1}/{len(choices)}, epoch {epoch}/{epochs}  dev AUC {auc:.4f} accuracy "
                    f"{right:.2%}  {runtime.duration(left)} left"
                )
        model.set_arrays({**begin, **best.arrays})

    def _offer(self, part: Part, settings: dict[str, float], best: Best) -> tuple[float, float]:
        """Take the model if it is the best so far. Returns its dev AUC and accuracy."""
        probabilities, labels = self.model.probabilities(part.dev), self.labels[part.dev]
        if not np.isfinite(probabilities).all():
            raise UserError(f"{part.name}: the model is not finite with {spelt(settings)}. Lower the learning rates.")
        auc, right = area(probabilities, labels), accuracy(probabilities, labels)
        if auc > best.auc:
            best.auc, best.accuracy, best.settings, best.arrays = auc, right, settings, self.model.arrays()
        return auc, right

    def _epochs(self, part: Part, settings: Mapping[str, float], epochs: int, seed: int) -> Iterator[int]:
        """Train the model as it is, epoch after epoch."""
        model, step, random, began = self.model, 0, np.random.default_rng(seed), time.perf_counter()
        paddle.seed(seed)
        model.head.dropout = settings["dropout"]
        updates = [_head_update(model.head, settings["lr"], settings["weight_decay"])]
        for encoder in model.learners if model.asks else ():
            updates.append(_encoder_update(encoder, settings[f"{encoder.name}_lr"]))
        for epoch in range(epochs):
            model.train()
            for encoder in model.learners:
                _unfreeze(encoder, epoch)
            batches = self._batches(part.train, random)
            for k, which in enumerate(batches):
                loss = nn.functional.cross_entropy(model(which), paddle.to_tensor(self.labels[which]))
                loss.backward()
                for update in updates:
                    update((epoch + k / len(batches)) / epochs)
                step += 1
                if step == FIRST_STEPS and model.asks and not self.told:
                    self._foretell((time.perf_counter() - began) / step * len(batches) * epochs)
                if self.args.logging_step and step % self.args.logging_step == 0:
                    log.info(f"{part.name}  epoch {epoch + 1}/{epochs}  step {step:,}  loss {loss.item():.4f}")
            yield epoch + 1

    def _foretell(self, seconds: float) -> None:
        """Say, once, how long all will take if one fine-tuning takes so long."""
        self.told = True
        tunings = math.prod(len(encoder.learning.rates) for encoder in self.model.learners)
        total = runtime.duration(seconds * tunings * self.parts)
        log.info(
            f"fine-tuning   about {total} for {self.parts} part{'s' * (self.parts > 1)} of the data, {tunings} for each"
        )

    def _batches(self, train: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
        """The reviews, shuffled; where encoders are asked, batches of like length, which cost them less."""
        size = self.args.batch_size
        if not self.model.asks:
            return np.array_split(random.permutation(train), math.ceil(len(train) / size))
        reviews = [self.model.reviews[0][k] for k in train]
        return [train[places] for places in shuffled_batches(reviews, size, random)]

    def _seconds_left(self, share: float) -> float:
        """Until all parts are done, from the part that is at its `share`."""
        done = self.done + share
        return (time.perf_counter() - self.began) / done * (self.parts - done)


Update = Callable[[float], None]  # a step of an optimizer, told the share of the way that training has come


def _head_update(head: Head, lr: float, weight_decay: float) -> Update:
    """Weights of products decay; biases and the mix do not."""
    decayed = {weight.name for name, weight in head.named_parameters() if name.endswith(".weight")}
    optimizer = paddle.optimizer.AdamW(
        lr, parameters=head.parameters(), weight_decay=weight_decay, apply_decay_param_fun=decayed.__contains__
    )
    return lambda share: _step(optimizer, lr * slant(share))


def _encoder_update(encoder: Encoder, lr: float) -> Update:
    how, groups = encoder.learning, encoder.groups()
    factors = [how.decay**below for below in reversed(range(len(groups)))]
    optimizer = paddle.optimizer.Adam(
        lr,
        parameters=[{"params": g, "learning_rate": factor} for g, factor in zip(groups, factors, strict=True)],
        grad_clip=nn.ClipGradByGlobalNorm(MAX_GRAD_NORM),
        lazy_mode=True,  # of a table, only the rows that the batch has read
    )
    return lambda share: _step(optimizer, lr * slant(share))


def _step(optimizer, lr: float) -> None:
    optimizer.set_lr(lr)
    optimizer.step()
    optimizer.clear_grad()


def slant(share: float) -> float:
    """The factor of a learning rate: it rises to 1 over the warm-up, then falls to 0 at the end."""
    return max(share, 0.01) / WARMUP if share < WARMUP else (1 - share) / (1 - WARMUP)


def _unfreeze(encoder: Encoder, epoch: int) -> None:
    """Let learn what is to learn in this epoch, the first being 0."""
    every, groups = encoder.learning.unfreeze_epochs, encoder.groups()
    frozen = max(0, len(groups) - 1 - epoch // every) if every else 0
    for k, group in enumerate(groups):
        for weight in group:
            weight.stop_gradient = k < frozen


def _deviation(rows: np.ndarray) -> float:
    """The standard deviation of all numbers, without a copy of them: GoogleNews has 900 million."""
    sums = np.zeros(2)
    for k in range(0, len(rows), 1 << 14):
        part = rows[k : k + (1 << 14)].astype(np.float64)
        sums += part.sum(), np.square(part).sum()
    mean, square = sums / max(1, rows.size)
    return math.sqrt(max(0.0, square - mean**2))


def spelt(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())
