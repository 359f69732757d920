"""Training one reader: epochs over the training passages, keeping the best on the dev passages."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.machine import messages
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import MARKERS, Vocabulary, shuffled_batches
from elmo_tasks.reading.batch import Asked, Group, batch_of
from elmo_tasks.reading.reader import Prepared, Reader, Reading
from elmo_tasks.reading.score import Scores
from elmo_tasks.reading.text import windows
from elmo_tasks.tagging.training import adam, run_epoch


@dataclass(frozen=True)
class Schedule:
    """Settings of training. batch_size: windows of passages, with all their questions. ema: decay of the weights' mean."""

    epochs: int = 20
    patience: int = 4  # epochs without a better one after which training ends; 0: never
    batch_size: int = 8
    base_learning_rate: float = 2e-3
    max_grad_norm: float = 5.0
    ema: float = 0.999
    seed: int = 1


@dataclass
class Best:
    """The best epoch, its scores on the dev passages, and the seconds that training took."""

    epoch: int
    scores: Scores
    seconds: float


def training_words(passages: Sequence[Prepared], min_count: int) -> Vocabulary:
    """The tokens that occur so often, by falling frequency. The others are <UNK>, which is learnt from them."""
    counts = Counter(token for one in passages for text in one.texts() for token in text.tokens)
    frequent = [token for token, n in counts.items() if n >= min_count and token not in MARKERS]
    return Vocabulary([*MARKERS, *sorted(frequent, key=lambda token: (-counts[token], token))], "training words")


def training_groups(passages: Sequence[Prepared], reading: Reading) -> list[Group]:
    """The windows that hold answers, each with the questions that they answer. What cannot be learnt from is counted."""
    groups, cut, absent, too_long = [], 0, 0, 0
    for one in passages:
        spans = list(one.spans())
        absent += sum(place is None for *_, place in spans)
        cut += sum(place is not None and not place.whole for *_, place in spans)
        unread = {id for id, _, place in spans if place}
        for window in windows(one.text, reading.window, reading.stride):
            asked = [
                Asked(id, text, (place.first - window.begin, place.last - window.begin))
                for id, text, place in spans
                if place and window.begin <= place.first and place.last < window.end
            ]
            unread -= {one.id for one in asked}
            groups += Group(window, asked).split()
        too_long += len(unread)
    if not groups:
        raise UserError("No question to train on: no answer stands in its passage.")
    log.info(
        f"{len({asked.id for group in groups for asked in group.asked}):,} questions to train on; answers: "
        f"{cut:,} begin or end within a word, {absent:,} are not in their passage, {too_long:,} are in no window"
    )
    return groups


def train(
    reader: Reader,
    passages: Sequence[Prepared],
    dev: Sequence[Prepared],
    schedule: Schedule,
    folder: Path | None = None,
) -> Best:
    """Train the reader and leave it with the weights of its best epoch: that of the highest F1 on the dev passages.

    The weights that are scored and kept are means over the steps. folder: where the reader is saved after each epoch
    that is better than all before.
    """
    groups, random = training_groups(passages, reader.reading), np.random.default_rng(schedule.seed)
    optimizer = adam(reader.network, schedule.base_learning_rate, schedule.max_grad_norm)
    means = MeanWeights(reader.own().values(), schedule.ema)
    best, weights, start = None, {}, time.perf_counter()

    def loss_of(numbers: Sequence[int]) -> paddle.Tensor:
        return reader.network.loss(batch_of([groups[k] for k in numbers], reader.words))

    for epoch in range(1, schedule.epochs + 1):
        optimizer.set_lr(schedule.base_learning_rate * (1 - 0.9 * (epoch - 1) / schedule.epochs))
        batches = shuffled_batches([group.window.tokens for group in groups], schedule.batch_size, random)
        loss = run_epoch(reader.network, optimizer, batches, loss_of, epoch, means.update)
        with means.in_place():
            scores, seconds = reader.score(dev), time.perf_counter() - start
            better = best is None or scores.f1.mean() > best.scores.f1.mean()
            log.info(
                f"epoch {epoch:>2}/{schedule.epochs}  loss {loss:6.3f}  dev EM {scores.exact.mean():6.2%}  "
                f"F1 {scores.f1.mean():6.2%}{' *' if better else '  '}  {messages.duration(seconds)}, at most "
                f"{messages.duration(seconds / epoch * (schedule.epochs - epoch))} left"
            )
            if better:
                if folder:
                    reader.save_weights(folder) if best else reader.save(folder)
                best, weights = Best(epoch, scores, seconds), reader.weights()
        if schedule.patience and epoch - best.epoch >= schedule.patience:
            break
    reader.set_weights(weights, "the best epoch")
    best.seconds = time.perf_counter() - start
    return best


class MeanWeights:
    """Exponential means of weights over the steps, which score better than the weights of any one step.

    decay: of the mean; in the first steps less, so that it does not dwell on where training began. 0: no mean.
    """

    def __init__(self, weights: Iterable[paddle.Tensor], decay: float):
        self.weights, self.decay, self.steps = list(weights), decay, 0
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
