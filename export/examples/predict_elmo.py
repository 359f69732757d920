"""ELMo's vectors of lines of tokens, separated by white space."""

from collections.abc import Iterator

import numpy as np
from model_io import SETTINGS, Run, arrays

from elmo_core.text.tokenise import TOKENISERS


def predict(run: Run, lines: list[str], lang: str) -> Iterator[dict]:
    """The tokens of each line and their vectors, or the mean of these."""
    sentences = [TOKENISERS[lang](line) for line in lines]
    output = run(arrays(sentences))
    for row, tokens in enumerate(sentences):
        vectors = output[..., row, :] if SETTINGS["pool"] else output[..., row, : len(tokens), :]
        yield {"tokens": tokens, "vectors": vectors.tolist()}


def as_text(answer: dict) -> str:
    return f"vectors {np.shape(answer['vectors'])}"
