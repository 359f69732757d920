"""Training one tagger on labelled sentences."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.text.tokens import UNK_ID, shuffled_batches
from elmo_tasks.tagging.data import Batch, Sentence, make_batch
from elmo_tasks.tagging.pieces import joined_words
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.training import BestEpoch, TrainingSettings, fit


def train(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    dev: Sequence[Sentence],
    schedule: TrainingSettings,
    folder: Path | None = None,
) -> BestEpoch:
    """Train the tagger and leave it with the weights of its best epoch: that of the highest F1 on the dev sentences, for
    plain tags the accuracy. folder: where it is saved.
    """
    known, random = known_words(sentences, tagger.labels.scheme), np.random.default_rng(schedule.seed)
    return fit(
        tagger,
        lambda: _batches(tagger, sentences, schedule.batch_size, random),
        tagger.network.loss,
        lambda: tagger.score(dev, known),
        schedule,
        folder,
    )


def known_words(sentences: Sequence[Sentence], scheme: str) -> set[str]:
    """The words of training sentences, in LAC's scheme put together from their tokens."""
    if scheme != "lac":
        return {token for sentence in sentences for token in sentence.tokens}
    return {word for sentence in sentences for word, _ in joined_words(sentence.tokens, sentence.labels)}


def _batches(
    tagger: Tagger, sentences: Sequence[Sentence], batch_size: int, random: np.random.Generator
) -> list[Batch]:
    """The batches of an epoch. A word seen n times becomes <UNK> with probability 1 / (n + 1), so that <UNK> is learnt."""
    counts = Counter(token for sentence in sentences for token in sentence.tokens)
    chance = np.array([1 / (1 + counts[word]) for word in tagger.words.tokens])
    batches = []
    for numbers in shuffled_batches([sentence.tokens for sentence in sentences], batch_size, random):
        chosen = [sentences[k] for k in numbers]
        labels = [[tagger.labels.index[label] for label in sentence.labels] for sentence in chosen]
        batch = make_batch([sentence.tokens for sentence in chosen], tagger.words, labels)
        unknown = (random.random(batch.ids.shape) < chance[batch.ids]) & (batch.ids > UNK_ID)
        batch.ids[unknown] = UNK_ID
        batches.append(batch)
    return batches
