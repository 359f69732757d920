"""A start for the character network: fitted to word vectors, so that words alike in meaning begin alike."""

import numpy as np

from elmo_core.machine.messages import log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import Lexicon, Vocabulary
from pretraining.optimizer import learning_rate, make_optimizer

STEPS, WARMUP = 4000, 100
WORDS = 512  # of a step
RATE = 0.003


def fit_characters(encoder: paddle.nn.Layer, vocabulary: Vocabulary, words: np.ndarray, vectors: np.ndarray) -> None:
    """Train a `CharCNN` to give `vectors` (n, P) for the vocabulary's `words` (n,), frequent ones above all."""
    lexicon = Lexicon(vocabulary, "char")
    draw = np.random.default_rng(0)
    often = (words + 200.0) ** -0.75  # the vocabulary is sorted by frequency
    often /= often.sum()
    optimizer = make_optimizer("adam", RATE, encoder.parameters(), max_grad_norm=1.0)
    log.info(f"characters    are fitted to these vectors first, in {STEPS:,} steps")
    for step in range(1, STEPS + 1):
        chosen = draw.choice(len(words), min(WORDS, len(words)), replace=False, p=often)
        wanted = paddle.to_tensor(vectors[chosen])
        tokens, places = lexicon.unique(words[chosen])
        found = paddle.gather(encoder(tokens), paddle.to_tensor(places))
        loss = (found - wanted).square().sum(axis=1).mean()
        optimizer.set_lr(learning_rate("adam", RATE, step, STEPS, WARMUP))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % (STEPS // 4) == 0:
            left = float(loss) / float(wanted.square().sum(axis=1).mean())
            log.info(f"              step {step:,}: {1 - left:.0%} of the vectors' squares explained")
