"""Fits the constants of the forecast of perplexities to the runs of forecast_runs.tsv.

    python benchmarks/forecast_fit.py

The least squares are those of the logarithm of the perplexity. The table also tells what is
expected of each run by the constants that are fitted to the runs on all other texts.
"""

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import args as arguments
import script
from elmo_tools.pretraining.expectation import Training, features

RUNS = Path(__file__).with_name("forecast_runs.tsv")


class Run:
    """A run, its unigrams' and bigrams' perplexity, and its own. row: of forecast_runs.tsv."""

    def __init__(self, row: dict[str, str]):
        self.text = row["text"]
        self.training = Training(
            steps=int(row["steps"]),
            tokens=int(row["tokens"]),
            projection_dim=int(row["projection_dim"]),
        )
        self.unigrams = float(row["unigrams"])
        self.features = features(self.training, self.unigrams)
        self.distance = math.log(self.unigrams / float(row["bigrams"]))
        self.perplexity = float(row["perplexity"])

    def expected(self, coefficients: np.ndarray) -> float:
        """The perplexity to expect."""
        share = max(0.0, float(self.features @ coefficients))
        return self.unigrams * math.exp(-share * self.distance)


def read_runs() -> list[Run]:
    """The runs of forecast_runs.tsv."""
    with RUNS.open(encoding="utf-8", newline="") as file:
        return [Run(row) for row in csv.DictReader(file, delimiter="\t")]


def fit(runs: Sequence[Run]) -> np.ndarray:
    """The coefficients (4,) with the least squared errors of the logarithm of the perplexity."""
    inputs = np.array([run.features * run.distance for run in runs])
    outputs = np.array([math.log(run.unigrams / run.perplexity) for run in runs])
    coefficients, *_ = np.linalg.lstsq(inputs, outputs, rcond=None)
    return coefficients


def main(argv: Sequence[str] | None = None) -> None:
    arguments.parser(__doc__).parse_args(argv)
    runs = read_runs()
    coefficients = fit(runs)
    numbers = ", ".join(f"{number:.3f}" for number in coefficients)
    print(f"coefficients  {numbers}")
    print(f"{'text':<20}{'steps':>12}{'perplexity':>12}{'fitted':>9}{'by others':>11}")
    for run in runs:
        others = [other for other in runs if other.text != run.text]
        print(
            f"{run.text:<20}{run.training.steps:>12,}{run.perplexity:>12.1f}"
            f"{run.expected(coefficients):>9.1f}{run.expected(fit(others)):>11.1f}"
        )


if __name__ == "__main__":
    script.run(main)
