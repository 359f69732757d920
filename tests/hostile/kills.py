"""Trainings that are killed at random moments: resumed, they have the weights of an uninterrupted one.

    python tests/hostile/kills.py FOLDER 20

Prints a line per task. Each training runs in a process of its own.
"""

import random
import shutil
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1] / "support")]

import numpy as np
import tiny

from elmo_core.files.tensors import read_tensors
from elmo_tasks import Classifier, ClassifierSettings, Tagger, TaggerSettings

SENTENCES = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
LABELS = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9


def tag(folder: Path, elmo: str) -> None:
    settings = TaggerSettings(elmo=elmo, epochs=9, hidden_dim=8, word_dim=8, n_layers=1, patience=0, ema=0.9)
    Tagger.train(SENTENCES, LABELS, settings=settings, save_dir=folder, resume=True, device="cpu")


def classify(folder: Path, elmo: str) -> None:
    texts, labels = [" ".join(tokens) for tokens in SENTENCES], ["a", "b"] * 9
    settings = ClassifierSettings(
        elmo=elmo, epochs=5, elmo_trainable=True, tune_epochs=4, head="attention", lang="none"
    )
    Classifier.train(texts, labels, settings=settings, save_dir=folder, resume=True, device="cpu")


def run(work: Callable, folder: Path, elmo: str, seconds: float | None = None) -> float:
    """Run to the end or, with seconds, kill that long after the first epoch. Returns the seconds after the first epoch."""
    process = get_context("spawn").Process(target=work, args=(folder, elmo))
    process.start()
    while process.is_alive() and not any(folder.glob("training-*")):
        time.sleep(0.01)
    began = time.monotonic()
    process.join(seconds)
    process.kill()
    process.join()
    return time.monotonic() - began


def main(folder: Path, times: int) -> None:
    elmo = tiny.save(tiny.random_bilm(scale=1.0), folder / "elmo")
    for work in (tag, classify):
        whole, killed, left = folder / f"{work.__name__}-whole", folder / work.__name__, 0
        duration = run(work, whole, elmo)
        expected = read_tensors(whole / "model.safetensors")[0]
        for _ in range(times):
            run(work, killed, elmo, random.uniform(0, duration))
            left += any(killed.glob("training-*"))
            run(work, killed, elmo)
            found = read_tensors(killed / "model.safetensors")[0]
            assert found.keys() == expected.keys() and all(
                np.array_equal(found[name], expected[name]) for name in found
            )
            assert not list(killed.glob("training-*")), list(killed.iterdir())
            shutil.rmtree(killed)
        print(f"{work.__name__}: {times} kills, {left} of them before the end; the same weights", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
