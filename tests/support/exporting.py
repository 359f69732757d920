"""Exported folders and their programs; models with random weights to export."""

import importlib
import random
import sys
from pathlib import Path

import numpy as np
import tiny

from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.tagger import Tagger

RUNTIMES = ["run_paddle", "run_onnx"]


class Exported:
    """An exported folder and its programs."""

    def __init__(self, folder: Path, runtime: str):
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)
        sys.path.insert(0, str(folder))
        try:
            self.program = importlib.import_module(runtime)
            self.arrays = importlib.import_module("model_io").arrays
            self.predictor = importlib.import_module("predict")
            self.predict = self.predictor.predict
        finally:
            sys.path.remove(str(folder))
        self.run = self.program.load()

    def __call__(self, sentences) -> np.ndarray:
        return self.run(self.arrays(sentences))[0]

    def label_ids(self, sentences) -> list[list[int]]:
        lines = [self.predictor.Line.from_tokens(tokens) for tokens in sentences]
        return self.predictor.label_ids(self.run, lines)


def assert_close(output: np.ndarray, expected: np.ndarray, tolerance: float = 3e-6) -> None:
    """tolerance: relative to the largest value."""
    largest = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(output, expected, atol=tolerance * largest, rtol=0)


def random_tagger(
    folder: Path, elmo: bool = True, vectors: bool = False, bilm=(), pieces=None, **settings
) -> Tagger:
    """A tagger with random weights, so that every part affects the labels."""
    settings = {
        "scheme": "bioes",
        "hidden_dim": 5,
        "word_dim": 4,
        "n_layers": 2,
        "lang": "en",
        "elmo": None,
        **settings,
    }
    labels = ["B-x", "I-x", "E-x", "S-x", "O"]
    if settings["scheme"] == "lac":
        labels = ["n", "n-B", "n-I", "v", "v-B", "v-I", "O"]
    if elmo:
        settings |= {"elmo": tiny.save(tiny.random_bilm(**dict(bilm)), folder / "elmo")}
        settings.setdefault("layers", "mix")
    if vectors:
        (folder / "vectors.txt").write_text(
            "3 2\nthe 1 2\nbank 3 -1\nBank -2 2\n", encoding="utf-8"
        )
        settings["word_vectors"] = folder / "vectors.txt"
    parts = {
        "labels": labels,
        "words": ["the", "river", "bank", "很"],
        "known": None,
        "pieces": pieces,
    }
    settings = TaggerSettings(**settings)
    tagger = Tagger.create(settings, parts, "cpu")
    random_weights(tagger.network, "inputs.elmo.bilm")
    # So that the labels vary.
    tagger.network.emission.weight.set_value(4 * tagger.network.emission.weight)
    tagger.save(folder / "tagger")
    return tagger


def random_weights(layer, but: str = "nothing") -> None:
    generator = np.random.default_rng(5)
    for name, weight in layer.state_dict().items():
        if not name.startswith(but) and "deviation" not in name:
            spread = 0.3 if "bias" in name else 1.0
            weight.set_value((generator.standard_normal(weight.shape) * spread).astype(np.float32))


MARKS = [
    ". ",
    "!",
    "... ",
    ", ",
    "’s ",
    "—",
    " &amp; ",
    "<br />",
    " Mr. ",
    " $2,900 ",
    "。",
    "，“",
]


def raw_lines(n: int, words: list[str], space: str = " ") -> list[str]:
    """Lines with marks, entities, tags and abbreviations, some of many sentences.

    space: between words.
    """
    generator = random.Random(11)
    ends = [space] * 9 + MARKS
    sizes = [generator.randint(1, 40) for _ in range(n)]
    lines = []
    for size in sizes:
        parts = [generator.choice(words) + generator.choice(ends) for _ in range(size)]
        lines.append("".join(parts).strip())
    return lines
