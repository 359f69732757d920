"""The protocol by which encoders are compared on labelled texts, the same for each of them:

- folds over all texts, or a single split, or a test file; of each training part a tenth is held out as dev part, unless
  there is a dev file;
- a head is trained over the encoders' first vectors for every combination of `lr`, `weight_decay` and `dropout`. The dev
  part chooses the combination and the epoch;
- trainable encoders are fine-tuned from there, together with that head, for every combination of their own rates. The dev
  part chooses again, and the start is among the candidates: fine-tuning that only harms is not taken;
- what was chosen scores the test part, once. It is never used to choose.

The dev part chooses by the area under the ROC curve (`scores.auc`). Over a thousand reviews that is steadier than the
accuracy, and unlike the loss it is not affected by fine-tuning making a classifier overconfident.
"""

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from elmo_core.config import differences
from elmo_core.files.checkpoint import fingerprint
from elmo_core.machine import disk, messages
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.ranks import Ranks
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import Encoder
from elmo_tasks.classification.network import Fold, FoldResult, Model, Trainer, Training
from elmo_tasks.classification.polarity import read_reviews
from elmo_tasks.classification.scores import (
    Results,
    compare,
    confusion,
    macro_f1,
    mean_and_deviation,
    mistakes,
    of_each_class,
)
from elmo_tasks.classification.texts import STDIN, Texts, read_files, read_lines

HELD_OUT = 0.1  # share of the single split's test part, and of a training part's dev part


@dataclass
class Settings(Training):
    """Settings of a run.

    data_dir: of the polarity dataset; or the texts of train_file, with a dev_file and a test_file if there are any.
    columns: of these files, see `texts.read_file`. class_weights: "balanced", or CLASS=WEIGHT of some of the classes.
    protocol: cv, or split. compare_with: results of other runs. predict: a text to classify line by line at the end.
    encoders: what the encoders were made from, which is recorded, and compared when a run is resumed.
    """

    data_dir: Path = Path("sentence-polarity-dataset-v1")
    train_file: Path | None = None
    dev_file: Path | None = None
    test_file: Path | None = None
    columns: Sequence[str] | None = None
    class_weights: Sequence[str] | None = None
    tokenise: str = "en"
    max_seq_len: int = 256
    protocol: str = "cv"
    folds: int = 10
    results: Path | None = None
    compare_with: Sequence[Path] = ()
    confusion: bool = False
    mistakes: int = 0
    save_head: Path | None = None
    predict: Path | None = None
    output_format: str = "tsv"
    encoders: Mapping[str, Any] = field(default_factory=dict)

    OUTPUT = (
        "results",
        "compare_with",
        "confusion",
        "mistakes",
        "save_head",
        "predict",
        "output_format",
        "logging_step",
    )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Settings":
        """Values that are not fields describe the encoders."""
        names = {each.name for each in dataclasses.fields(cls)}
        encoders = {name: value for name, value in values.items() if name not in names}
        return cls(**{name: value for name, value in values.items() if name in names}, encoders=encoders)

    def to_dict(self) -> dict[str, str]:
        values = {name: value for name, value in vars(self).items() if name != "encoders"}
        return {name: str(value) for name, value in {**self.encoders, **values}.items()}


# Folds


def make_folds(labels: np.ndarray, settings: Settings, n_dev: int = 0, n_test: int = 0) -> list[Fold]:
    """n_dev, n_test: how many of the last texts are those of a dev file and of a test file, see `Texts`."""
    seed, n_train = settings.seed, len(labels) - n_dev - n_test
    every, dev = np.arange(n_train), np.arange(n_train, n_train + n_dev)
    if n_dev and len(set(labels[dev])) < 2:
        raise UserError("--dev_file: all its texts have the same label, so that it cannot choose.")
    if n_test:
        return [Fold("test", *_with_dev(every, dev, labels, seed), np.arange(n_train + n_dev, len(labels)))]
    if settings.protocol == "split":  # the published scripts': a tenth, drawn without regard to the class
        train, test = train_test_split(every, test_size=HELD_OUT, random_state=seed)
        return [Fold("split", *_with_dev(train, dev, labels, seed), test)]
    fewest, n = int(np.bincount(labels[every]).min()), settings.folds
    if not 2 <= n <= fewest // 2:
        enough = f"enough for 2 to {fewest // 2:,} folds"
        what = enough if fewest >= 4 else "too few: leave it out, or give a --test_file"
        raise UserError(f"--folds {n}: the rarest class has {fewest:,} texts, which is {what}.")
    pairs = StratifiedKFold(n, shuffle=True, random_state=seed).split(every, labels[every])
    return [
        Fold(f"fold {k}/{n}", *_with_dev(train, dev, labels, seed), test) for k, (train, test) in enumerate(pairs, 1)
    ]


def _with_dev(train: np.ndarray, dev: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training part and the dev part, which without a dev file is a stratified tenth of it."""
    if len(dev):
        return train, dev
    counts = np.bincount(labels[train], minlength=labels.max() + 1)
    if counts.min() >= 2 and len(train) * HELD_OUT > len(counts) - 1:
        parts = train_test_split(train, test_size=HELD_OUT, stratify=labels[train], random_state=seed)
        if len(set(labels[parts[1]])) > 1:
            return tuple(parts)
    raise UserError(
        f"{len(train):,} texts, {counts.min():,} of the rarest class, are too few: a tenth of a training part must hold "
        "several classes. Give a --dev_file, or leave out rare classes."
    )


def weights_of(given: Sequence[str] | None, data: Texts) -> np.ndarray | None:
    """The weight of each class in the loss; None if nothing is given."""
    if not given:
        return None
    if list(given) == ["balanced"]:
        counts = np.bincount(data.labels[: len(data) - data.n_dev - data.n_test])
        return counts.sum() / (len(counts) * counts)
    weights = np.ones(len(data.classes))
    for pair in given:
        name, _, number = pair.rpartition("=")
        try:
            weights[list(data.classes).index(name)] = weight = float(number)
        except ValueError:
            weight = 0
        if not 0 < weight < np.inf:
            raise UserError(
                f"--class_weights {pair}: expected `balanced`, or CLASS=WEIGHT with a weight above 0 and one of the classes "
                f"{messages.listed(data.classes)}."
            )
    return weights


class FoldCache:
    """Results of folds, each in a file of the folder RESULTS.parts until all are done: a killed run resumes there."""

    def __init__(self, results: Path | None):
        self.folder = Path(f"{results}.parts") if results else None
        self.vectors = self.folder and self.folder / "vectors.bin"  # word2vec's that the run itself has trained
        self.resumed = bool(self.folder) and any(self.folder.glob("[0-9]*.json"))

    def check(self, settings: dict[str, str]) -> None:
        """Refuse folds of a run with other settings or other weights. Called before the first fold is saved."""
        if not self.folder:
            return
        path = self.folder / "settings.json"
        if not self.resumed:
            with disk.atomic_write(path) as file:
                file.write(json.dumps(settings))
        elif changes := differences(self._read(path), settings):
            raise UserError(
                f"{self.folder} holds folds of a run that was interrupted, with other settings: "
                f"{'; '.join(changes.values())}. Give the same to continue, or delete the folder."
            )

    def _read(self, path: Path) -> dict:
        return disk.read_json(path, "what an interrupted run has written; delete the folder to start over")

    def has(self, number: int) -> bool:
        return bool(self.folder) and (self.folder / f"{number}.json").exists()

    def load(self, number: int) -> FoldResult:
        path = self.folder / f"{number}.json"
        values = self._read(path)
        try:
            arrays = {"test": np.array(values["test"]), "probabilities": np.array(values["probabilities"], np.float32)}
            result = FoldResult(**{**values, **arrays})
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged ({error}). Delete the folder to start over.") from error
        log.info(f"{result.part}  was done before")
        return result

    def save(self, number: int, result: FoldResult) -> None:
        if self.folder:
            arrays = {"test": result.test.tolist(), "probabilities": result.probabilities.tolist()}
            with disk.atomic_write(self.folder / f"{number}.json") as file:
                file.write(json.dumps({**vars(result), **arrays}))

    def close(self) -> None:
        if self.folder:
            for path in (*self.folder.glob("*.json"), self.vectors):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files
                self.folder.rmdir()


# A run


class Run:
    """One run of the protocol. Mistakes in the settings are found at once, before encoders are built."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.ranks = Ranks(advice="With --results, run the same command again: finished folds are kept.")
        if not self.ranks.first:
            log.setLevel("WARNING")
        if settings.predict and settings.predict != STDIN:
            read_lines(settings.predict)
        if settings.results:
            disk.check_output("--results", settings.results)
        if folder := settings.save_head:
            disk.check_output("--save_head", folder / "head.pdparams")
            if folder.exists() and any(folder.iterdir()):
                raise UserError(f"--save_head {folder}: the folder is not empty. Name another one.")
        how = settings.tokenise, settings.max_seq_len
        if settings.train_file:
            files = settings.train_file, settings.dev_file, settings.test_file
            self.texts = read_files(*files, settings.columns, *how)
        else:
            self.texts = read_reviews(settings.data_dir, *how)
        self.folds = make_folds(self.texts.labels, settings, self.texts.n_dev, self.texts.n_test)
        self.class_weights = weights_of(settings.class_weights, self.texts)
        self.others = [(path, Results.load(path)) for path in settings.compare_with or ()]
        data, scored = self.texts.identity, np.sort(np.concatenate([fold.test for fold in self.folds]))
        for path, other in self.others:
            if data != other.data or not np.array_equal(scored, other.number):
                raise UserError(
                    f"--compare_with {path}: it scored {len(other.number):,} of {other.data}, this run scores "
                    f"{len(scored):,} of {data}. Compare runs with the same data and --protocol (and for split, the "
                    "same --seed)."
                )
        self.cache = FoldCache(settings.results)

    def execute(self, encoders: Sequence[Encoder]) -> Iterator[str]:
        """Train and score, each rank its share of the folds; then save or predict if wanted. Yields texts to print."""
        settings, ranks, began = self.settings, self.ranks, time.perf_counter()
        for encoder in encoders:
            encoder.describe(self.texts.sentences)
        data = self.texts
        model = Model(encoders, settings.sent_embedding_dim, len(data.classes), data.are_pairs)
        model.read(self.texts.sentences, ranks)
        weights = {name: weight.numpy() for name, weight in model.encoders.state_dict().items()}
        depends_on = {k: v for k, v in settings.to_dict().items() if k not in settings.OUTPUT}
        depends_on |= {"data": self.texts.identity, "weights": fingerprint(weights)[:12]}
        ranks.on_first(lambda: self.cache.check(depends_on))
        shapes = " and ".join(f"{encoder.name} {' x '.join(map(str, encoder.shape))}" for encoder in encoders)
        taken = messages.duration(time.perf_counter() - began)
        log.info(f"{data.unit:13} {self.texts.identity}, means of layers x dimensions: {shapes}; in {taken}")
        if ranks.size > len(self.folds):
            log.info(f"processes     {len(self.folds)} of {ranks.size} have work: each takes whole folds")
        mine = range(ranks.rank, len(self.folds), ranks.size)
        n_left = sum(not self.cache.has(k + 1) for k in mine)
        trainer = Trainer(model, data.labels, settings, n_left, self.class_weights)
        shares = ranks.on_each(lambda: [self._result(trainer, k) for k in mine])
        found = [shares[k % ranks.size][k // ranks.size] for k in range(len(self.folds))]
        if ranks.first:
            yield self._report(found, time.perf_counter() - began)
        if settings.save_head or settings.predict:
            classifier = Classifier(model.head, encoders, settings.tokenise, settings.max_seq_len, data.classes)
            ranks.on_first(lambda: self._finish(trainer, classifier))
            if ranks.first and settings.predict:
                yield from classifier.predict(settings.predict, settings.output_format == "json")
        if ranks.first:
            self.cache.close()

    def _result(self, trainer: Trainer, k: int) -> FoldResult:
        if self.cache.has(k + 1):
            return self.cache.load(k + 1)
        result = trainer.train(self.folds[k], k + 1)
        self.cache.save(k + 1, result)
        return result

    def _report(self, found: Sequence[FoldResult], seconds: float) -> str:
        """Write the results to --results. Returns the scores as text."""
        settings, data = self.settings, self.texts
        number = np.concatenate([one.test for one in found])
        order = np.argsort(number)
        number, probabilities = number[order], np.concatenate([one.probabilities for one in found])[order]
        scores = np.array([one.accuracy for one in found])
        first = np.array([one.first_accuracy for one in found])
        f1 = np.array([macro_f1(one.probabilities, data.labels[one.test]) for one in found])
        label, prediction = data.labels[number], probabilities.argmax(axis=1)
        probability = probabilities[:, 1] if len(data.classes) == 2 else probabilities
        results = Results(data.identity, float(scores.mean()), number, label, prediction, probability, data.classes)
        if settings.results:
            parts = [
                {"name": one.part, "accuracy": one.accuracy, "settings": one.settings, "mixes": one.mixes}
                for one in found
            ]
            more = {"first_accuracy": first.mean(), "seconds": seconds, "parts": parts, "settings": settings.to_dict()}
            if settings.train_file:
                more |= {"macro_f1": f1.mean(), "classes": data.classes}
            results.save(settings.results, **more)
        lines = []
        if len(found) > 1:
            lines.append("accuracy of each fold  " + " ".join(f"{score:.2%}" for score in scores))
        if (scores != first).any():
            lines.append(f"before fine-tuning     {mean_and_deviation(first)}")
        taken = messages.duration(seconds)
        lines.append(f"accuracy               {mean_and_deviation(scores)}, {len(number):,} {data.unit}, in {taken}")
        if settings.train_file:
            lines.append(f"macro F1               {mean_and_deviation(f1)}")
        for mix in np.mean([one.mixes for one in found], axis=0):
            lines.append(f"layers                 s {' '.join(f'{s:.3f}' for s in mix[:-1])}  gamma {mix[-1]:.3f}")
        if settings.train_file:
            lines.append(of_each_class(results))
        if settings.confusion:
            lines.append(confusion(results))
        if settings.mistakes:
            lines.append(mistakes(results, data.texts, settings.mistakes))
        lines += [compare(results, other, path, settings.seed, data.unit) for path, other in self.others]
        return "\n".join(lines)

    def _finish(self, trainer: Trainer, classifier: Classifier) -> None:
        """Train the head to use, that of the only fold or else one over all texts, and save it if wanted."""
        data, seed = self.texts, self.settings.seed
        if len(self.folds) > 1:
            every, dev = np.split(np.arange(len(data)), [len(data) - data.n_dev])
            whole = Fold(f"all {data.unit}", *_with_dev(every, dev, data.labels, seed), test=np.arange(0))
            trainer.n_folds = trainer.done + 1
            trainer.train(whole, len(self.folds) + 1)
        elif not trainer.done:  # its result was in the cache
            trainer.n_folds = 1
            trainer.train(self.folds[0], 1)
        classifier.head = trainer.model.head
        if self.settings.save_head:
            classifier.save(self.settings.save_head)
