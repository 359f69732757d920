"""Training and scoring on parts of labelled texts: files of their own, the folds of a cross-validation, or a single split.

The dev part selects by ROC AUC (`scores.auc`): on a thousand reviews it is less noisy than accuracy and, unlike
the loss, insensitive to overconfidence caused by fine-tuning.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core import messages
from elmo_core.checks import check_option
from elmo_core.config import differences
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.machine.ranks import Ranks
from elmo_core.messages import UserError, format_count, log
from elmo_core.settings import check_effects, make
from elmo_core.weights import model_files
from elmo_tasks.classification.folds import Fold, make_folds, only_fold
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.classification.polarity import read_reviews
from elmo_tasks.classification.scores import Results, comparison, confusion_table, per_class_table
from elmo_tasks.classification.texts import Texts, load_texts, read_texts
from elmo_tasks.classification.training import ClassifierTraining, Trainer
from elmo_tasks.saved import LOCK, STATE, TrainedModel
from elmo_tasks.significance import mean_and_std
from elmo_tasks.training import BestEpoch, conclude, format_settings, training_folder

NOT_COMPARED = "texts", "labels", "dev", "test", "save_dir", "overwrite", "resume", "progress", "logging_step", "device"


def load(options: Mapping[str, Any]) -> Texts:
    """Read and tokenise the texts of a call. A folder is that of the polarity dataset."""
    texts = options["texts"]
    source = load_texts(texts if options["labels"] is None else (texts, options["labels"]), "texts")
    words = model_files.vocabulary_words(options["elmo"])
    tokenisation = options["lang"], options["max_seq_len"], words, options["user_dict"]
    if isinstance(source, Path) and (source.is_dir() or (not source.suffix and not source.exists())):
        return read_reviews(source, *tokenisation)
    parts = [None if options[name] is None else load_texts(options[name], name) for name in ("dev", "test")]
    return read_texts(source, *parts, options["columns"], *tokenisation)


def cross_validate(
    kind: type[TrainedModel],
    options: Mapping[str, Any],
    protocol: str = "cv",
    folds: int = 10,
    results: Path | None = None,
    compare_with: Sequence[Path] = (),
) -> "CrossValidation":
    """Train and score on the parts of labelled texts. The other ranks than the first get no results.

    options: the arguments of `Classifier.train`. protocol, results, compare_with: see `Classifier.cross_validate`.
    """
    check_option("protocol", protocol, ("cv", "split", "train"))
    own = {} if protocol == "train" else {"results": results}  # what `train` has not
    check_effects({**options, **own}, ClassifierSettings, ClassifierTraining)
    ranks = Ranks(advice="With `results` or `save_dir` finished folds are kept: repeat this with `resume=True`.")
    if not ranks.is_main:
        log.setLevel("WARNING")
    save_dir, resume, began = options["save_dir"] and Path(options["save_dir"]), options["resume"], time.perf_counter()
    is_single, cache = protocol != "cv", FoldCache((results or save_dir) if protocol == "cv" else None)
    is_saved = save_dir is not None and (save_dir / STATE).exists()
    if not save_dir and resume and not cache.is_interrupted:
        raise UserError("`resume`: there is no interrupted run to continue. Leave it out.")
    with runtime.on_device(runtime.device_name(options["device"])), ExitStack() as stack:
        folder = training_folder(kind.kind, options, cache.is_interrupted or is_saved)
        ranks.run_on_main(lambda: stack.enter_context(folder))
        run = prepare(options, protocol, folds)
        if results:
            run.check_file(results)
        run.compared = [(path, run.comparable(path)) for path in compare_with]
        trainer = Trainer(kind, run.data, options)
        inputs = trainer.pretrained, trainer.vectors, run.data.tokeniser.segment
        inputs = [source.fingerprint[:12] for source in inputs if source]
        done = ranks.run_on_main(lambda: cache.open(stack, {**run.settings, "weights": " ".join(inputs)}))
        for number in done:
            log.info(f"{run.folds[number - 1].name}  restored")
        if ranks.size > len(run.folds):
            log.info(f"processes     only {len(run.folds)} of {ranks.size} are used: a fold is not divided")
        numbers = range(ranks.rank + 1, len(run.folds) + 1, ranks.size)

        def train(fold: Fold, number: int) -> tuple[BestEpoch, BestEpoch | None]:
            """Train the classifier that is kept."""
            best, first = trainer.train(fold, number, save_dir, resume and is_saved)
            run.conclude(best, fold, save_dir)
            return best, first

        def train_folds() -> list[FoldResult]:
            for k, number in enumerate(left := [number for number in numbers if number not in done]):
                began, fold = time.perf_counter(), run.folds[number - 1]
                best, first = (train if is_single else trainer.train)(fold, number)
                done[number] = result = FoldResult.of(run.data, fold, best, first)
                cache.save(number, result)
                if is_single:
                    continue
                seconds = time.perf_counter() - began
                times = messages.format_duration(seconds)
                times += f"  {messages.format_duration(seconds * (len(left) - k - 1))} left" if left[k + 1 :] else ""
                dev = f"(dev {best.score.accuracy:.2%})  {format_settings(result.settings)}"
                log.info(f"{fold.name}  accuracy {result.accuracy:.2%}  {dev}  {times}")
            return [done[number] for number in numbers]

        def train_on_all() -> None:
            train(only_fold(run.data, run.seed, f"all {run.data.unit}"), len(run.folds) + 1)

        try:
            trainer.encode()
            shares = ranks.run_on_all(train_folds)
            if ranks.is_main:
                run.results = [shares[k % ranks.size][k // ranks.size] for k in range(len(run.folds))]
                run.seconds = time.perf_counter() - began
                if results:
                    run.save(results)
            if save_dir and not is_single:
                ranks.run_on_main(train_on_all)
        except UserError:
            raise
        except BaseException:  # Ctrl-C, a signal, or an error that is not the user's
            if ranks.is_main and (n_kept := len(cache.files())):
                kept = format_count(n_kept, "finished folds")
                log.warning(f"stopped after {kept}. Continue with the same settings and `resume=True`.")
            raise
    if ranks.is_main:
        cache.close()
    return run


def prepare(options: Mapping[str, Any], protocol: str, folds: int) -> "CrossValidation":
    """Load the texts, and divide them."""
    make(ClassifierTraining, {"seed": options["seed"]})
    data, seed = load(options), options["seed"]
    parts = [only_fold(data, seed)] if protocol == "train" else make_folds(data, folds, protocol, seed)
    options = {**options, "lang": data.tokeniser.lang}
    settings = {name: str(value) for name, value in options.items() if name not in NOT_COMPARED}
    return CrossValidation(
        data, parts, seed, {**settings, "folds": str(folds), "protocol": protocol, "data": data.identity}
    )


@dataclass
class FoldResult:
    """Probabilities (n, classes) and scores on a fold's test texts, and the selected settings.

    first_accuracy: before fine-tuning.
    """

    probabilities: np.ndarray
    accuracy: float
    first_accuracy: float
    macro_f1: float
    settings: dict[str, float]
    mixes: list[list[float]]

    @classmethod
    def of(cls, data: Texts, fold: Fold, best: BestEpoch, first: BestEpoch | None) -> "FoldResult":
        score = best.model.score(data, fold.scored)
        first_score = first.model.score(data, fold.scored) if first and first is not best else score
        settings = {**(first.settings if first else {}), **best.settings}
        settings["epoch" if best is first else "tune_epoch"] = best.epoch
        accuracies, mixes = (score.accuracy, first_score.accuracy), best.model.network.mixes()
        return cls(score.probabilities, *accuracies, score.macro_f1, settings, mixes)


class FoldCache:
    """Results of finished folds, in PATH.parts until the run is done, so that an interrupted run can resume."""

    def __init__(self, path: Path | str | None):
        self.folder = Path(f"{path}.parts") if path else None

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.json")) if self.folder else []

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupted run has left the folder."""
        return self.folder is not None and (self.folder / "settings.json").exists()

    def open(self, stack: ExitStack, identity: Mapping[str, str]) -> dict[int, FoldResult]:
        """Lock the folder until the stack is closed, and load the finished folds by number.

        Raise if they are from a run with other settings or weights.
        """
        if not self.folder:
            return {}
        self.folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(disk.locked(self.folder / LOCK))
        files = self.files()
        if files and (changes := differences(self._read(self.folder / "settings.json"), identity)):
            raise UserError(
                f"{self.folder} holds folds of an interrupted run with other settings: "
                f"{'; '.join(changes.values())}. Use the same to resume, or delete the folder."
            )
        if not files:
            disk.write_json(self.folder / "settings.json", identity)
        results = {int(path.stem): FoldResult(**self._read(path)) for path in files}
        for result in results.values():
            result.probabilities = np.array(result.probabilities, np.float32)
        return results

    def _read(self, path: Path) -> dict:
        return disk.read_json(path, "a file of an interrupted run; delete the folder to start over")

    def save(self, number: int, result: FoldResult) -> None:
        if self.folder:
            values = {**vars(result), "probabilities": result.probabilities.tolist()}
            disk.write_json(self.folder / f"{number}.json", values)

    def close(self) -> None:
        if self.folder:
            for path in self.folder.glob("*.json"):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files
                self.folder.rmdir()


@dataclass
class CrossValidation:
    """Results on the test parts of folds; on the dev part if the test part is empty.

    settings: that the results depend on. classifier: the one that was saved, or trained on the only fold.
    compared: results of other runs, by their files.
    """

    data: Texts
    folds: list[Fold]
    seed: int
    settings: Mapping[str, str]
    results: list[FoldResult] = field(default_factory=list)
    seconds: float = 0.0
    classifier: TrainedModel | None = None
    compared: Sequence[tuple[Path, Results]] = ()

    @property
    def accuracies(self) -> list[float]:
        return [result.accuracy for result in self.results]

    @property
    def predictions(self) -> Results:
        """The predictions for all test texts, in the order of the texts."""
        indices, data = np.concatenate([fold.scored for fold in self.folds]), self.data
        order = np.argsort(indices)
        probabilities = np.concatenate([result.probabilities for result in self.results])[order]
        return Results(data.identity, indices[order], data.labels[indices[order]], probabilities, data.classes)

    def report(self, classes: bool = True, confusion: bool = False) -> str:
        """The scores as text. classes: include those of each class. confusion: include the confusion matrix."""
        unit, scores, lines = self.data.unit, self.accuracies, []
        first, results = [result.first_accuracy for result in self.results], self.predictions
        if len(scores) > 1:
            lines.append("accuracy of each fold  " + " ".join(f"{score:.2%}" for score in scores))
        if scores != first:
            lines.append(f"before fine-tuning     {mean_and_std(first, '%')}")
        of_texts = f"{format_count(len(results.number), unit)}, in {messages.format_duration(self.seconds)}"
        lines.append(f"accuracy               {mean_and_std(scores, '%')}, {of_texts}")
        if classes:
            lines.append(f"macro F1               {mean_and_std([result.macro_f1 for result in self.results], '%')}")
        for mix in np.mean([result.mixes for result in self.results], axis=0):
            lines.append(f"layers                 s {' '.join(f'{s:.3f}' for s in mix[:-1])}  gamma {mix[-1]:.3f}")
        lines += [per_class_table(results)] * classes + [confusion_table(results)] * confusion
        return "\n".join(lines + [comparison(results, other, path, unit) for path, other in self.compared])

    def comparable(self, path: Path) -> Results:
        """The results of another run. Raise unless it has scored the same texts."""
        other, scored = Results.load(path), np.sort(np.concatenate([fold.scored for fold in self.folds]))
        if self.data.identity != other.data or not np.array_equal(scored, other.number):
            raise UserError(
                f"`compare_with` {path}: it scored {len(other.number):,} of {other.data}, this run {len(scored):,} of "
                f"{self.data.identity}. Compare runs with the same data and `protocol` (and for split, the same `seed`)."
            )
        return other

    def check_file(self, path: Path) -> None:
        """Raise if the file holds the results of other data or settings, which would be lost."""
        if path.exists():
            values = disk.read_json(path, "a file of results")
            if changes := differences(values.get("settings", {}), self.settings):
                raise UserError(
                    f"`results` {path} holds the results of other data or settings: {'; '.join(changes.values())}. Name "
                    "another file, or delete this one."
                )

    def save(self, path: Path) -> None:
        """Write scores and predictions as JSON."""
        names = "accuracy", "first_accuracy", "macro_f1"
        values: dict[str, Any] = {name: np.mean([getattr(result, name) for result in self.results]) for name in names}
        values |= {"classes": list(self.data.classes), "seconds": self.seconds, "settings": self.settings}
        values["parts"] = [
            {"name": fold.name, "accuracy": result.accuracy, "settings": result.settings, "mixes": result.mixes}
            for fold, result in zip(self.folds, self.results, strict=True)
        ]
        self.predictions.save(path, **values)

    def conclude(self, best: BestEpoch, fold: Fold, folder: Path | None) -> None:
        """Score the test part, if there is one, and record the result of the training in the classifier."""
        parts = {"training": fold.train, "dev": fold.dev, "test": fold.test}
        sizes = {name: len(indices) for name, indices in parts.items() if len(indices)}
        self.classifier = best.model
        test = best.model.score(self.data, fold.test) if len(fold.test) else None
        conclude(best, test, replace(best.training, seed=self.seed), sizes, folder)
