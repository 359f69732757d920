"""Runs of run_eval.py on pairs and regions, and the surprisal that they sum."""

import numpy as np

import run_eval
from elmo import ELMoEmbedder


def run(model, *flags) -> None:
    run_eval.main([f"--init_from_ckpt={model}", "--device=cpu", *map(str, flags)])


def bits(model, sentence: str) -> np.ndarray:
    """Surprisal of the words and the end (n + 1, 2)."""
    (records,) = ELMoEmbedder(model, device="cpu").surprisal([sentence.split()])
    return np.array([record[1:3] for record in records])
