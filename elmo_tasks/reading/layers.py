"""ELMo's layers of passages and questions: those of their sentences, one after another."""

from collections.abc import Sequence

import numpy as np

from elmo import ELMo
from elmo_core.machine.runtime import paddle
from elmo_tasks.reading.text import Window


def window_layers(elmo: ELMo, windows: Sequence[Window]) -> tuple[list[paddle.Tensor], paddle.Tensor]:
    """The chosen layers of a frozen biLM, each (B, T, 2P), T the longest window, and the mask (B, T)."""
    parts = [list(window.parts()) for window in windows]
    sentences = list(dict.fromkeys(sentence for row in parts for sentence, _ in row))
    of_sentence = dict(zip(sentences, elmo.arrays(sentences), strict=True))
    return elmo.padded([np.concatenate([of_sentence[s][:, tokens] for s, tokens in row], axis=1) for row in parts])
