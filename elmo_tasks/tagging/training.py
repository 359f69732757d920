"""Training one tagger: epochs over the training sentences, keeping the best on the dev sentences."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.machine import messages
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import MARKERS, UNK_ID, Vocabulary, shuffled_batches
from elmo_tasks.tagging.data import Batch, Sentence, batch_of
from elmo_tasks.tagging.score import Score, words_of
from elmo_tasks.tagging.tagger import Tagger

PROGRESS_SECONDS = 20  # between two lines within an epoch


@dataclass(frozen=True)
class Schedule:
    """Settings of training."""

    epochs: int = 15
    batch_size: int = 32
    base_learning_rate: float = 2e-3
    max_grad_norm: float = 5.0
    patience: int = 0  # epochs without a better one after which training ends; 0: never
    seed: int = 1


@dataclass
class Best:
    """The best epoch, its score on the dev sentences, and the seconds that training took."""

    epoch: int
    score: Score
    seconds: float


def training_words(sentences: Sequence[Sentence]) -> Vocabulary:
    """The tokens of the sentences as a vocabulary, by falling frequency."""
    counts = _token_counts(sentences)
    order = sorted(counts.keys() - set(MARKERS), key=lambda token: (-counts[token], token))
    return Vocabulary([*MARKERS, *order], "training words")


def _token_counts(sentences: Sequence[Sentence]) -> Counter[str]:
    return Counter(token for sentence in sentences for token in sentence.tokens)


def known_words(sentences: Sequence[Sentence], scheme: str = "lac") -> set[str]:
    """The words, in LAC's scheme put together from their tokens."""
    if scheme != "lac":
        return {token for sentence in sentences for token in sentence.tokens}
    return {word for sentence in sentences for word, _ in words_of(sentence.tokens, sentence.labels)}


def train(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    dev: Sequence[Sentence],
    schedule: Schedule,
    folder: Path | None = None,
) -> Best:
    """Train the tagger and leave it with the weights of its best epoch: that of the highest F1 on the dev sentences, for
    plain tags the accuracy.

    folder: where it is saved after each epoch that is better than all before.
    """
    known, random = known_words(sentences, tagger.labels.scheme), np.random.default_rng(schedule.seed)
    measure = "accuracy" if tagger.labels.scheme == "plain" else "F1"
    optimizer = adam(tagger.network, schedule.base_learning_rate, schedule.max_grad_norm)
    best, weights, start = None, {}, time.perf_counter()
    for epoch in range(1, schedule.epochs + 1):
        optimizer.set_lr(schedule.base_learning_rate * (1 - 0.9 * (epoch - 1) / schedule.epochs))
        batches = _batches(tagger, sentences, schedule.batch_size, random)
        loss = run_epoch(tagger.network, optimizer, batches, tagger.network.loss, epoch)
        score, seconds = tagger.score(dev, known), time.perf_counter() - start
        better = best is None or score.total.f1 > best.score.total.f1
        log.info(
            f"epoch {epoch:>2}/{schedule.epochs}  loss {loss:7.3f}  dev {measure} {score.total.f1:6.2%}"
            f"{' *' if better else '  '}  {messages.duration(seconds)}, at most "
            f"{messages.duration(seconds / epoch * (schedule.epochs - epoch))} left"
        )
        if better:
            if folder:
                tagger.save_weights(folder) if best else tagger.save(folder)
            best, weights = Best(epoch, score, seconds), tagger.weights()
        elif schedule.patience and epoch - best.epoch >= schedule.patience:
            break
    tagger.set_weights(weights, "the best epoch")
    best.seconds = time.perf_counter() - start
    return best


def adam(network: paddle.nn.Layer, learning_rate: float, max_grad_norm: float) -> paddle.optimizer.Optimizer:
    """Adam for those of its weights that are trained."""
    weights = [weight for weight in network.parameters() if not weight.stop_gradient]
    return paddle.optimizer.Adam(
        learning_rate, parameters=weights, grad_clip=paddle.nn.ClipGradByGlobalNorm(max_grad_norm)
    )


def run_epoch(
    network: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    batches: Sequence,
    loss_of: Callable[..., paddle.Tensor],
    epoch: int,
    after_step: Callable[[], None] = lambda: None,
) -> float:
    """The mean loss of an epoch of training. loss_of: a batch's."""
    network.train()
    losses, start, shown = [], time.perf_counter(), time.perf_counter()
    for step, batch in enumerate(batches):
        now = time.perf_counter()
        if now - shown > PROGRESS_SECONDS:
            left = messages.duration((now - start) / step * (len(batches) - step))
            log.info(f"epoch {epoch:>2}  step {step:,}/{len(batches):,}  {left} left in this epoch")
            shown = now
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        after_step()
        losses.append(loss.detach())  # read once at the end: a GPU would wait each time
    mean = float(paddle.stack(losses).mean())
    if not math.isfinite(mean):
        raise UserError(f"the loss became {mean}: give a lower --base_learning_rate.")
    return mean


def _batches(
    tagger: Tagger, sentences: Sequence[Sentence], batch_size: int, random: np.random.Generator
) -> list[Batch]:
    """The batches of an epoch. A word seen n times becomes <UNK> with probability 1 / (n + 1), so that <UNK> is learnt."""
    counts = _token_counts(sentences)
    chance = np.array([1 / (1 + counts[word]) for word in tagger.words.tokens])
    batches = []
    for numbers in shuffled_batches([sentence.tokens for sentence in sentences], batch_size, random):
        chosen = [sentences[k] for k in numbers]
        labels = [[tagger.labels.index[label] for label in sentence.labels] for sentence in chosen]
        batch = batch_of([sentence.tokens for sentence in chosen], tagger.words, labels)
        unknown = (random.random(batch.ids.shape) < chance[batch.ids]) & (batch.ids > UNK_ID)
        batch.ids[unknown] = UNK_ID
        batches.append(batch)
    return batches
