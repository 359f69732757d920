"""Ten folds of the sentence polarity dataset, as in the tables of docs/polarity.md.

    python benchmarks/polarity.py --data_dir=DIR --init_from_ckpt=none \\
        --word_vectors=word2vec.bin --results=word2vec.json
    python benchmarks/polarity.py --data_dir=DIR --init_from_ckpt=en --results=elmo.json \\
        --against word2vec.json
    python benchmarks/polarity.py --runs b-1.json b-2.json \\
        --against word2vec-1.json word2vec-2.json

It has the flags of run_finetune.py. A tenth of each training part selects the epoch and, of
several, the learning rate and the weight decay of the head, before fine-tuning. Finished folds are
kept in --results: the same command continues. --runs and --against, a pair of results per
pretraining, give the difference with its interval over pretrainings and reviews.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from significance import crossed_difference, mcnemar, mean_and_std, paired_bootstrap
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo import ELMo
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.text.language import make_tokeniser
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.data import hold_out, read_polarity
from elmo_tasks.classification.settings import ClassifierSettings
from elmo_tasks.texts import Text

FOLDS = 10
OF_TUNING = (
    "elmo_trainable",
    "word_vectors_trainable",
    "elmo_lr",
    "lstm_dropout",
    "word_dropout",
    "tune_epochs",
)
SEARCHED = {"lr": [0.001, 0.003], "weight_decay": [0.1, 1.0]}


def parse() -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data_dir", **arguments.DIR, help="the sentence polarity dataset v1")
    parser.add_argument("--results", **arguments.FILE, help="write the predictions of each fold")
    parser.add_argument("--runs", type=Path, nargs="+", help="only compare these results")
    parser.add_argument("--against", type=Path, nargs="+", default=[], help="with these")
    for name, values in SEARCHED.items():
        parser.add_argument(f"--{name}", type=float, nargs="+", default=values)
    defaults = replace(ClassifierSettings(), elmo="en", head="mean")
    arguments.add_settings(parser, defaults, omit=list(SEARCHED))
    return parser.parse_args()


def main() -> None:
    args = parse()
    if not args.runs and not (args.data_dir and args.results):
        raise UserError("give --data_dir and --results, or --runs.")
    runs = args.runs or [args.results]
    if args.against and len(args.against) != len(runs):
        raise UserError(
            "--against needs as many results as there are others, which are compared in pairs."
        )
    if not args.runs:
        searched = {name: getattr(args, name) for name in SEARCHED}
        values = arguments.options(ClassifierSettings.__init__, args)
        for name, candidates in searched.items():
            values[name] = candidates[0]
        if values["elmo"] == "none":
            values["elmo"] = None
        run(args.data_dir, args.results, ClassifierSettings(**values), searched)
    print("\n".join(report(runs, args.against)))


def run(
    data_dir: Path, path: Path, settings: ClassifierSettings, searched: dict[str, list[float]]
) -> None:
    """Train and score on each fold that is not in the file of results."""
    reviews, labels = read_polarity(data_dir)
    identity = {**settings.to_dict(), **searched, "data_dir": str(data_dir.resolve())}
    results = {"settings": identity, "folds": []}
    if path.exists():
        results = disk.read_json(path, "results")
    if results["settings"] != identity:
        raise UserError(f"{path} has results of other settings or data. Name another file.")
    tokeniser = make_tokeniser(settings.lang, reviews)
    texts = [
        Text((" ".join(tokeniser(x)),), label) for x, label in zip(reviews, labels, strict=True)
    ]
    settings = replace(settings, lang="none")
    frozen = frozen_settings(settings)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=settings.seed)
    for number, (train, test) in enumerate(folds.split(reviews, labels), 1):
        if number <= len(results["folds"]):
            continue
        seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
        fold = Fold(
            train=[texts[k] for k in train],
            test=[texts[k] for k in test],
            frozen=replace(frozen, seed=seed),
            tuned=replace(settings, seed=seed),
            held_out_seed=settings.seed,
        )
        scored = fold.run(searched)
        results["folds"].append({**scored, "reviews": test.tolist()})
        log.info(f"fold {number}/{FOLDS}: accuracy {scored['accuracy']:.2%}, {scored['settings']}")
        disk.write_json(path, results)


def frozen_settings(settings: ClassifierSettings) -> ClassifierSettings:
    """The same without fine-tuning, with an ELMo whose vectors are computed once for all folds."""
    usual = {name: getattr(ClassifierSettings, name) for name in OF_TUNING}
    frozen = replace(settings, **usual)
    if not settings.elmo:
        return frozen
    pool = "mean" if settings.head == "mean" else None
    elmo = ELMo(settings.elmo, 0, layers=settings.layers, pool=pool, dropout=0.0)
    return replace(frozen, elmo=elmo)


@dataclass
class Fold:
    """The texts of a fold, and the settings of its trainings before and with fine-tuning."""

    train: list[Text]
    test: list[Text]
    frozen: ClassifierSettings
    tuned: ClassifierSettings
    held_out_seed: int

    def run(self, searched: dict[str, list[float]]) -> dict[str, Any]:
        """Train with all values searched, fine-tune with the best, and score both."""
        train, dev = hold_out(self.train, self.held_out_seed)

        def trained(settings: ClassifierSettings) -> Classifier:
            return Classifier.train(
                *columns(train), dev=columns(dev), settings=settings, progress=False
            )

        candidates = []
        for values in itertools.product(*searched.values()):
            chosen = dict(zip(searched, values, strict=True))
            candidates.append(trained(replace(self.frozen, **chosen)))
        first = max(candidates, key=lambda model: model.scores["dev"].value)
        chosen = {name: getattr(first.settings, name) for name in searched}
        best = first
        if self.tuned.elmo_trainable or self.tuned.word_vectors_trainable:
            best = trained(replace(self.tuned, **chosen))
        score = best.evaluate(columns(self.test))
        correct = (score.predicted == score.labels).astype(int).tolist()
        return {
            "accuracy": score.accuracy,
            "frozen": first.evaluate(columns(self.test)).accuracy,
            "settings": chosen,
            "correct": correct,
        }


def columns(texts: Sequence[Text]) -> tuple[list[str], list[Any]]:
    """Texts, and their labels."""
    return [text.texts[0] for text in texts], [text.label for text in texts]


def correct_of(path: Path) -> np.ndarray:
    """Whether each review was classified correctly, as 0 or 1."""
    correct: dict[int, int] = {}
    for fold in disk.read_json(path, "results")["folds"]:
        correct.update(zip(fold["reviews"], fold["correct"], strict=True))
    return np.array([correct[review] for review in sorted(correct)])


def report(runs: Sequence[Path], against: Sequence[Path]) -> Iterator[str]:
    """Yield lines of the accuracies, and of their difference from those of other runs."""
    for path in runs:
        folds = disk.read_json(path, "results")["folds"]
        for name, column in (("before fine-tuning", "frozen"), ("accuracy", "accuracy")):
            yield f"{path}: {name} {mean_and_std([fold[column] for fold in folds], '%')}"
    mine = [correct_of(path) for path in runs]
    others = [correct_of(path) for path in against]
    if len(mine) == 1 and len(others) == 1:
        (one,) = mine
        (other,) = others
        gained = int((one > other).sum())
        lost = int((other > one).sum())
        test = f"McNemar's exact test: p = {mcnemar(gained, lost):.2g}"
        yield f"only {runs[0]} is right: {gained:,}; only {against[0]} is: {lost:,}; {test}"
        yield f"bootstrap: {paired_bootstrap(one > 0, other > 0, 'reviews')}"
    elif others:
        my_mean = mean_and_std([correct.mean() for correct in mine])
        other_mean = mean_and_std([correct.mean() for correct in others])
        yield f"means {my_mean} and {other_mean}"
        yield str(crossed_difference(np.array(mine) - np.array(others), "pretrainings", "reviews"))


if __name__ == "__main__":
    script.run(main)
