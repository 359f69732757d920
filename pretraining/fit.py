"""Initialise the character network by fitting it to word vectors, so that similar words start similar."""

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import log
from elmo_core.network.optimizer import Adam
from elmo_core.text.tokens import Lexicon, Vocabulary
from pretraining.optimizer import learning_rate

STEPS, WARMUP_STEPS = 4000, 100
WORDS_PER_STEP = 512
LEARNING_RATE = 0.003


def fit_characters(encoder: paddle.nn.Layer, vocabulary: Vocabulary, words: np.ndarray, vectors: np.ndarray) -> None:
    """Train a `CharCNN` to output `vectors` (n, P) for the vocabulary's `words` (n,), mostly the frequent ones."""
    lexicon = Lexicon(vocabulary, "char")
    random = np.random.default_rng(0)
    probabilities = (words + 200.0) ** -0.75  # the vocabulary is sorted by frequency
    probabilities /= probabilities.sum()
    optimizer = Adam(encoder.named_parameters(), LEARNING_RATE, max_grad_norm=1.0)
    log.info(f"initialising  fitting the character CNN to these vectors, {STEPS:,} steps")
    for step in range(1, STEPS + 1):
        chosen = random.choice(len(words), min(WORDS_PER_STEP, len(words)), replace=False, p=probabilities)
        targets = to_tensor(vectors[chosen])
        tokens, index = lexicon.unique(words[chosen])
        outputs = paddle.gather(encoder(tokens), to_tensor(index))
        loss = (outputs - targets).square().sum(axis=1).mean()
        optimizer.lr = learning_rate("adam", LEARNING_RATE, step, STEPS, WARMUP_STEPS)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % (STEPS // 4) == 0:
            residual = float(loss) / float(targets.square().sum(axis=1).mean())
            log.info(f"              step {step:,}: {1 - residual:.0%} of the vectors' squares explained")
