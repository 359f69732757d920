"""Training a tagger on labelled sentences."""

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
    settings: TrainingSettings,
    folder: Path | None = None,
    resume: bool = False,
) -> BestEpoch:
    """Train the tagger and load the weights of the epoch with the highest F1 (plain tags: accuracy) on the dev sentences.

    folder: where the best epoch so far is saved. resume: continue an interrupted run.
    """
    known = known_words(sentences, tagger.settings.scheme)

    def batches(random: np.random.Generator) -> list[Batch]:
        return _batches(tagger, sentences, settings.batch_size, random)

    return fit(tagger, batches, tagger.network.loss, lambda: tagger.score(dev, known), settings, folder, resume)


def known_words(sentences: Sequence[Sentence], scheme: str) -> set[str]:
    """The words of training sentences; in LAC's scheme, joined from their tokens."""
    if scheme != "lac":
        return {token for sentence in sentences for token in sentence.tokens}
    return {word for sentence in sentences for word, _ in joined_words(sentence.tokens, sentence.labels)}


def _batches(
    tagger: Tagger, sentences: Sequence[Sentence], batch_size: int, random: np.random.Generator
) -> list[Batch]:
    """The batches of one epoch. A word seen n times becomes <UNK> with probability 1 / (n + 1), to train <UNK>."""
    counts = Counter(token for sentence in sentences for token in sentence.tokens)
    unk_probability = np.array([1 / (1 + counts[word]) for word in tagger.words.tokens])
    batches = []
    for indices in shuffled_batches([sentence.tokens for sentence in sentences], batch_size, random):
        chosen = [sentences[k] for k in indices]
        labels = [[tagger.labels.index[label] for label in sentence.labels] for sentence in chosen]
        batch = make_batch([sentence.tokens for sentence in chosen], tagger.words, labels)
        unknown = (random.random(batch.ids.shape) < unk_probability[batch.ids]) & (batch.ids > UNK_ID)
        batch.ids[unknown] = UNK_ID
        batches.append(batch)
    return batches
