"""The inputs of the tasks' networks."""

import numpy as np

from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.inputs import LearntWords, Rows


def test_rare_words_become_unknown_in_training():
    """One that was seen n times, with the probability 1 / (n + 1)."""
    paddle.seed(3)
    words = LearntWords(Vocabulary([*SPECIAL_TOKENS, "often", "once"]), 3)
    words.count(["often"] * 50 + ["once"])
    rows = Rows([["often"] * 2000, ["once"] * 2000, ["new"] * 2000])
    unknown = words.embedding.weight[2].numpy()
    words.train()
    is_unknown = np.isclose(words(rows).numpy(), unknown).all(axis=-1).mean(axis=1)
    assert abs(is_unknown[0] - 1 / 51) < 0.015 and abs(is_unknown[1] - 1 / 2) < 0.06 and is_unknown[2] == 1
    words.eval()
    is_unknown = np.isclose(words(rows).numpy(), unknown).all(axis=-1).mean(axis=1)
    assert is_unknown.tolist() == [0, 0, 1]
