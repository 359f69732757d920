"""Texts of known and unknown words, and the probability of their words by the reference."""

import random
from pathlib import Path

import numpy as np
import reference
import tiny

from elmo_core.text.characters import BOS, EOS
from elmo_core.text.vocabulary import UNK_ID

KINDS = {
    "char": {},
    "word": {
        "input": "word",
        "n_layers": 3,
        "use_skip_connections": False,
        "cell_clip": 0.0,
        "proj_clip": 0.0,
    },
}
UNKNOWN = ("unknown", "😀", "x" * 60)


def write_text(path: Path, n: int, seed: int) -> list[list[str]]:
    """Write sentences of known and unknown words with blank lines between them.

    Returns the words of each line.
    """
    generator = random.Random(seed)
    words = (*tiny.WORDS[3:], *UNKNOWN)
    lines = [generator.choices(words, k=generator.randrange(1, 9)) for _ in range(n)]
    lines.insert(2, [])
    lines[7:7] = [[], []]
    path.write_text("\n".join(" ".join(line) for line in lines) + "\n", encoding="utf-8")
    return lines


def steps(sentences: list[list[str]], direction: str) -> list[tuple[str, int]]:
    """The inputs of a direction and the ids of their targets, sentence after sentence."""
    begin, end = (BOS, EOS) if direction == "forward" else (EOS, BOS)
    ids = {word: number for number, word in enumerate(tiny.WORDS)}
    pairs = []
    for sentence in sentences:
        words = sentence if direction == "forward" else sentence[::-1]
        targets = [ids.get(word, UNK_ID) for word in [*words, end]]
        pairs += zip([begin, *words], targets, strict=True)
    return pairs


def log_probabilities(
    weights: reference.Parameters, direction: str, row: list[tuple[str, int]]
) -> np.ndarray:
    """Of each step of a row that begins in the zero state."""
    vectors = [reference.token_vectors(weights, [word for word, _ in row])]
    zero_state = reference.start_state(weights, 1)[direction]
    outputs, _ = reference.run_layers(weights, direction, vectors, zero_state)
    losses = []
    for h, (_, target) in zip(outputs[-1][0], row, strict=True):
        losses.append(reference.full_softmax_loss(h, weights.softmax, target))
    return -np.array(losses)


def log_probability(
    weights: reference.Parameters, direction: str, sentences: list[list[str]]
) -> float:
    """Sum over all predictions in a stream of sentences that begins in the zero state."""
    return log_probabilities(weights, direction, steps(sentences, direction)).sum()
