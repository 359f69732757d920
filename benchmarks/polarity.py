"""Ten folds of the sentence polarity dataset, as in the tables of docs/polarity.md, with the flags of run_finetune.py.

    python benchmarks/polarity.py --data_dir=DIR --init_from_ckpt=none --word_vectors=word2vec.bin --results=word2vec.json
    python benchmarks/polarity.py --data_dir=DIR --init_from_ckpt=en --results=elmo.json --against word2vec.json
    python benchmarks/polarity.py --runs b-1.json b-2.json --against word2vec-1.json word2vec-2.json

A tenth of each training part selects the epoch and, of several, the learning rate and the weight decay of the head, before
fine-tuning. Finished folds are kept in --results: the same command continues. --runs and --against, a pair of results per
pretraining, give the difference with its interval over pretrainings and reviews.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

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
    arguments.add_settings(
        parser, replace(ClassifierSettings(), elmo="en", head="mean"), omit=[*SEARCHED]
    )
    return parser.parse_args()


def main() -> None:
    args = parse()
    if not args.runs and not (args.data_dir and args.results):
        raise UserError("give --data_dir and --results, or --runs.")
    if args.against and len(args.against) != len(args.runs or [args.results]):
        raise UserError(
            "--against needs as many results as there are others, which are compared in pairs."
        )
    if not args.runs:
        args.runs = [args.results]
        searched = {name: getattr(args, name) for name in SEARCHED}
        vars(args).update({name: values[0] for name, values in searched.items()})
        args.elmo = None if args.elmo == "none" else args.elmo
        run(
            args,
            ClassifierSettings(**arguments.options(ClassifierSettings.__init__, args)),
            searched,
        )
    print("\n".join(report(args.runs, args.against)))


def run(
    args: argparse.Namespace, settings: ClassifierSettings, searched: dict[str, list[float]]
) -> None:
    """Train and score on each fold that is not in the file of results."""
    reviews, labels = read_polarity(args.data_dir)
    identity = {**settings.to_dict(), **searched, "data_dir": str(args.data_dir.resolve())}
    results = (
        disk.read_json(args.results, "results")
        if args.results.exists()
        else {"settings": identity, "folds": []}
    )
    if results["settings"] != identity:
        raise UserError(f"{args.results} has results of other settings or data. Name another file.")
    tokeniser = make_tokeniser(settings.lang, reviews)
    reviews, settings = (
        [" ".join(tokeniser(review)) for review in reviews],
        replace(settings, lang="none"),
    )
    frozen = replace(settings, **{name: getattr(ClassifierSettings, name) for name in OF_TUNING})
    if settings.elmo:  # whose vectors are computed once for all folds
        pool = "mean" if settings.head == "mean" else None
        frozen = replace(
            frozen, elmo=ELMo(settings.elmo, 0, layers=settings.layers, pool=pool, dropout=0.0)
        )
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=settings.seed).split(reviews, labels)
    for number, (train, test) in list(enumerate(splits, 1))[len(results["folds"]) :]:
        parts = hold_out([Text((reviews[k],), labels[k]) for k in train], settings.seed)
        (texts, classes), dev = (
            ([x.texts[0] for x in part], [x.label for x in part]) for part in parts
        )
        seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])

        def trained(base: ClassifierSettings, **values: float) -> Classifier:
            chosen = replace(base, seed=seed, **values)  # noqa: B023
            return Classifier.train(texts, classes, dev=dev, settings=chosen, progress=False)  # noqa: B023

        grid = [
            dict(zip(searched, values, strict=True))
            for values in itertools.product(*searched.values())
        ]
        first = best = max(
            (trained(frozen, **values) for values in grid), key=lambda x: x.scores["dev"].value
        )
        chosen = {name: getattr(best.settings, name) for name in searched}
        if settings.elmo_trainable or settings.word_vectors_trainable:
            best = trained(settings, **chosen)
        scores = [
            x.evaluated(x.read(([reviews[k] for k in test], [labels[k] for k in test])))
            for x in (first, best)
        ]
        correct = (scores[-1].predicted == scores[-1].labels).astype(int).tolist()
        results["folds"].append(
            {"accuracy": scores[-1].accuracy, "frozen": scores[0].accuracy, "settings": chosen}
            | {"reviews": test.tolist(), "correct": correct}
        )
        log.info(f"fold {number}/{FOLDS}: accuracy {scores[-1].accuracy:.2%}, {chosen}")
        disk.write_json(args.results, results)


def correct_of(path: Path) -> np.ndarray:
    """Whether each review was classified correctly, as 0 or 1."""
    pairs = [
        zip(fold["reviews"], fold["correct"], strict=True)
        for fold in disk.read_json(path, "results")["folds"]
    ]
    return np.array([correct for _, correct in sorted(itertools.chain.from_iterable(pairs))])


def report(runs: Sequence[Path], against: Sequence[Path]) -> Iterator[str]:
    """Yield lines of the accuracies, and of their difference from those of other runs."""
    for path in runs:
        folds = disk.read_json(path, "results")["folds"]
        for name, column in (("before fine-tuning", "frozen"), ("accuracy", "accuracy")):
            yield f"{path}: {name} {mean_and_std([fold[column] for fold in folds], '%')}"
    mine, others = ([correct_of(path) for path in paths] for paths in (runs, against))
    if len(runs) == len(against) == 1:
        (one,), (other,) = mine, others
        gained, lost = int((one > other).sum()), int((other > one).sum())
        test = f"McNemar's exact test: p = {mcnemar(gained, lost):.2g}"
        yield f"only {runs[0]} is right: {gained:,}; only {against[0]} is: {lost:,}; {test}"
        yield f"bootstrap: {paired_bootstrap(one > 0, other > 0, 'reviews')}"
    elif against:
        yield f"means {mean_and_std([x.mean() for x in mine])} and {mean_and_std([x.mean() for x in others])}"
        yield str(crossed_difference(np.array(mine) - np.array(others), "pretrainings", "reviews"))


if __name__ == "__main__":
    script.run(main)
