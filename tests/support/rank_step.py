"""Two training steps of every kind of model on N ranks that share 8 rows of text.

Rank 0 saves losses, gradients, and weights and optimizer after the updates, to the file argv[1].
"""

import sys

import numpy as np
import tiny

from elmo_core.machine.runtime import paddle
from elmo_core.network.softmax import draw_candidates
from elmo_core.text.lexicon import LMBatch
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining.run import OPTIMIZERS

WORDS = [*tiny.WORDS, *(f"w{k}" for k in range(60))]
KINDS = {"char": {}, "word": {"input": "word"}, "char+word": {"input": "char+word", "word_dim": 3}}


def step(ranks: Ranks, kind: str, optimizer_name: str, n_candidates: int) -> dict[str, np.ndarray]:
    random = np.random.RandomState(3)
    vocabulary = Vocabulary(WORDS)
    sentences = [[WORDS[k] for k in random.randint(3, len(WORDS), size=5)] for _ in range(8)]
    bilm = tiny.random_bilm(vocab_size=len(WORDS), **KINDS[kind])
    ranks.broadcast_weights(bilm.parameters())
    optimizer = OPTIMIZERS[optimizer_name](bilm.named_parameters(), 0.1, max_grad_norm=0.5)
    values = {}
    for number in range(2):  # the second with moments of the first
        candidates = draw_candidates(len(WORDS), n_candidates, np.random.default_rng(number))
        batch: LMBatch = tiny.lm_batch(
            sentences[ranks.rank :: ranks.size], vocabulary, bilm.config.input
        )
        losses, _ = bilm(batch, bilm.zero_state(len(batch.lengths)), candidates)
        (sum(losses) / 2 * 20).backward()
        ranks.average_gradients(bilm.parameters())
        losses = ranks.sum([float(loss) / ranks.size for loss in losses])
        values[f"losses {number}"] = np.array(losses)
        for name, weight in bilm.named_parameters():
            values[f"gradient {number} {name}"] = tiny.dense_gradient(weight)
        optimizer.step()
        optimizer.clear_grad()
    for name, weight in bilm.named_parameters():
        values[f"weight {name}"] = weight.numpy()
    for name, value in optimizer.state_dict().items():
        values[f"optimizer {name}"] = value
    return values


paddle.set_device("cpu")
all_ranks = Ranks()
everything = {}
for kind_name in KINDS:
    for optimizer, n in (("adagrad", 20), ("adam", 20), ("adagrad", 0)):
        for key, array in step(all_ranks, kind_name, optimizer, n).items():
            everything[f"{kind_name} {optimizer} {n} {key}"] = array
if all_ranks.is_main:
    np.savez(sys.argv[1], **everything)
