"""Training one tagger: epochs over the training sentences, keeping the best on the dev sentences."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.runtime import UserError, log, paddle
from elmo_core.tokens import MARKERS, UNK_ID, Vocabulary, shuffled_batches
from tasks.tagging.data import Batch, Sentence, batch_of
from tasks.tagging.score import Score, words_of
from tasks.tagging.tagger import Tagger


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


def known_words(sentences: Sequence[Sentence]) -> set[str]:
    """The words, put together from their tokens."""
    return {word for sentence in sentences for word, _ in words_of(sentence.tokens, sentence.labels)}


def train(tagger: Tagger, sentences: Sequence[Sentence], dev: Sequence[Sentence], schedule: Schedule) -> Best:
    """Train the tagger and leave it with the weights of its best epoch: that of the highest F1 on the dev sentences."""
    known, random = known_words(sentences), np.random.default_rng(schedule.seed)
    optimizer = paddle.optimizer.Adam(
        schedule.base_learning_rate,
        parameters=[weight for weight in tagger.network.parameters() if not weight.stop_gradient],
        grad_clip=paddle.nn.ClipGradByGlobalNorm(schedule.max_grad_norm),
    )
    best, weights, start = None, {}, time.perf_counter()
    for epoch in range(1, schedule.epochs + 1):
        optimizer.set_lr(schedule.base_learning_rate * (1 - 0.9 * (epoch - 1) / schedule.epochs))
        loss = _epoch(tagger, optimizer, _batches(tagger, sentences, schedule.batch_size, random))
        score, seconds = tagger.score(dev, known), time.perf_counter() - start
        better = best is None or score.total.f1 > best.score.total.f1
        log.info(
            f"epoch {epoch:>2}/{schedule.epochs}  loss {loss:7.3f}  dev F1 {score.total.f1:6.2%}{' *' if better else '  '}  "
            f"{seconds:4.0f} s"
        )
        if better:
            best, weights = Best(epoch, score, seconds), tagger.weights()
        elif schedule.patience and epoch - best.epoch >= schedule.patience:
            break
    tagger.set_weights(weights, "the best epoch")
    best.seconds = time.perf_counter() - start
    return best


def _epoch(tagger: Tagger, optimizer: paddle.optimizer.Optimizer, batches: Iterator[Batch]) -> float:
    """The mean loss of an epoch of training."""
    tagger.network.train()
    losses = []
    for batch in batches:
        loss = tagger.network.loss(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.detach())  # read once at the end: a GPU would wait each time
    mean = float(paddle.stack(losses).mean())
    if not math.isfinite(mean):
        raise UserError(f"the loss became {mean}: give a lower --base_learning_rate.")
    return mean


def _batches(
    tagger: Tagger, sentences: Sequence[Sentence], batch_size: int, random: np.random.Generator
) -> Iterator[Batch]:
    """The batches of an epoch. A word seen n times becomes <UNK> with probability 1 / (n + 1), so that <UNK> is learnt."""
    counts = _token_counts(sentences)
    chance = np.array([1 / (1 + counts[word]) for word in tagger.words.tokens])
    for numbers in shuffled_batches([sentence.tokens for sentence in sentences], batch_size, random):
        chosen = [sentences[k] for k in numbers]
        labels = [[tagger.labels.index[label] for label in sentence.labels] for sentence in chosen]
        batch = batch_of([sentence.tokens for sentence in chosen], tagger.words, labels)
        unknown = (random.random(batch.ids.shape) < chance[batch.ids]) & (batch.ids > UNK_ID)
        batch.ids[unknown] = UNK_ID
        yield batch
