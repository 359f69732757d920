"""The evaluation protocol, identical for all encoders:

- the test parts are folds, a single split, or a test file; a tenth of each training part is held out as the dev part if
  there is no dev file;
- a head is trained on the encoders' initial vectors for every combination of `lr`, `weight_decay` and `dropout`. The dev
  part selects the combination and the epoch;
- trainable encoders are fine-tuned together with this head for every combination of their learning rates. The dev part
  selects again; the starting point is a candidate, so harmful fine-tuning is discarded;
- the test part is scored once, and never used for selection.

The dev part selects by ROC AUC (`scores.auc`). On a thousand reviews it is less noisy than accuracy and, unlike the loss,
insensitive to overconfidence caused by fine-tuning.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import differences
from elmo_core.files.checkpoint import fingerprint
from elmo_core.machine import disk, messages
from elmo_core.machine.messages import UserError, format_count, log
from elmo_core.machine.optional import import_optional
from elmo_core.machine.ranks import Ranks
from elmo_core.text.language import AUTO
from elmo_core.text.text_files import write_table
from elmo_core.weights import model_files
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import Encoder
from elmo_tasks.classification.network import ClassifierModel
from elmo_tasks.classification.polarity import read_reviews
from elmo_tasks.classification.scores import Results, comparison, mistakes, tables
from elmo_tasks.classification.texts import Texts, read_texts
from elmo_tasks.classification.training import Fold, FoldResult, SearchSettings, Trainer
from elmo_tasks.saved import LOCK, check_model_folder
from elmo_tasks.significance import mean_and_std
from elmo_tasks.training import HELD_OUT

model_selection = import_optional("sklearn.model_selection", "training a classifier")


@dataclass
class ProtocolSettings(SearchSettings):
    """Settings of a run. Its results depend on all but OUTPUT_FIELDS.

    data_dir: folder of the polarity dataset, used without a train_file.
    columns: of train_file, dev_file and test_file, see `texts.read_file`.
    class_weights: "balanced", or CLASS=WEIGHT for some classes.
    protocol: cv, or split. compare_with: results of other runs. mistakes: a table of the misclassified texts.
    save_dir: for the classifier. resume: continue an interrupted run.
    """

    data_dir: Path | None = None
    train_file: Path | None = None
    dev_file: Path | None = None
    test_file: Path | None = None
    columns: Sequence[str] | None = None
    class_weights: Sequence[str] | None = None
    lang: str = AUTO
    max_seq_len: int = 256
    protocol: str = "cv"
    folds: int = 10
    results: Path | None = None
    compare_with: Sequence[Path] = ()
    confusion: bool = False
    mistakes: Path | None = None
    save_dir: Path | None = None
    overwrite: bool = False
    resume: bool = False


PREDICT = "python run_finetune.py predict --model_dir="
OUTPUT_FIELDS = ("results", "compare_with", "confusion", "mistakes", "save_dir", "overwrite", "resume", "logging_step")


# Folds


def make_folds(labels: np.ndarray, settings: ProtocolSettings, n_dev: int = 0, n_test: int = 0) -> list[Fold]:
    """n_dev, n_test: how many texts at the end come from the dev and test files, see `Texts`."""
    seed, n_train = settings.seed, len(labels) - n_dev - n_test
    indices, dev = np.arange(n_train), np.arange(n_train, n_train + n_dev)
    if n_dev and len(set(labels[dev])) < 2:
        raise UserError("--dev_file: all texts have the same label, so it cannot select a model.")
    if n_test:
        parts = [("test", indices, np.arange(n_train + n_dev, len(labels)))]
    elif settings.protocol == "split":  # as in the published scripts: not stratified
        parts = [("split", *model_selection.train_test_split(indices, test_size=HELD_OUT, random_state=seed))]
    else:
        smallest_class, n = int(np.bincount(labels[indices]).min()), settings.folds
        if not 2 <= n <= smallest_class // 2:
            enough = f"enough for 2 to {smallest_class // 2:,} folds"
            what = enough if smallest_class >= 4 else "too few: remove it, or give a --test_file"
            raise UserError(
                f"--folds {n}: the rarest class has {format_count(smallest_class, 'texts')}, which is {what}."
            )
        pairs = model_selection.StratifiedKFold(n, shuffle=True, random_state=seed).split(indices, labels[indices])
        parts = [(f"fold {k}/{n}", *pair) for k, pair in enumerate(pairs, 1)]
    return [Fold(name, *_hold_out_dev(train, dev, labels, seed), test) for name, train, test in parts]


def _hold_out_dev(train: np.ndarray, dev: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training and dev parts; without a dev file, the dev part is a stratified tenth of the training part."""
    if len(dev):
        return train, dev
    counts = np.bincount(labels[train], minlength=labels.max() + 1)
    if counts.min() >= 2 and len(train) * HELD_OUT > len(counts) - 1:
        parts = model_selection.train_test_split(train, test_size=HELD_OUT, stratify=labels[train], random_state=seed)
        if len(set(labels[parts[1]])) > 1:
            return tuple(parts)
    raise UserError(
        f"{format_count(len(train), 'texts')}, {counts.min():,} of the rarest class, are too few: a tenth of a training "
        "part must hold several classes. Give a --dev_file, or remove rare classes."
    )


def parse_class_weights(values: Sequence[str] | None, data: Texts) -> np.ndarray | None:
    """Weights (classes,) in the loss from --class_weights; None without it."""
    if not values:
        return None
    if list(values) == ["balanced"]:
        counts = np.bincount(data.labels[: len(data) - data.n_dev - data.n_test])
        return counts.sum() / (len(counts) * counts)
    weights = np.ones(len(data.classes))
    for pair in values:
        name, _, number = pair.rpartition("=")
        try:
            weights[list(data.classes).index(name)] = weight = float(number)
        except ValueError:
            weight = 0
        if not 0 < weight < np.inf:
            raise UserError(
                f"--class_weights {pair}: expected `balanced`, or CLASS=WEIGHT with a weight above 0 and one of the classes "
                f"{messages.join_names(data.classes)}."
            )
    return weights


class FoldCache:
    """Results of finished folds, in PATH.parts until the run is done, so that an interrupted run can resume."""

    def __init__(self, path: Path | None):
        self.folder = Path(f"{path}.parts") if path else None

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.json")) if self.folder else []

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupted run has left the folder."""
        return self.folder is not None and (self.folder / "settings.json").exists()

    def open(self, identity: dict[str, str]) -> dict[int, FoldResult]:
        """Load the finished folds by number. Raise if they are from a run with other settings or weights."""
        files = self.files()
        if files and (changes := differences(self._read(self.folder / "settings.json"), identity)):
            raise UserError(
                f"{self.folder} holds folds of an interrupted run with other settings: "
                f"{'; '.join(changes.values())}. Use the same to resume, or delete the folder."
            )
        if self.folder and not files:
            with disk.atomic_write(self.folder / "settings.json") as file:
                file.write(json.dumps(identity))
        results = {int(path.stem): FoldResult(**self._read(path)) for path in files}
        for result in results.values():
            result.probabilities = np.array(result.probabilities, np.float32)
        return results

    def _read(self, path: Path) -> dict:
        return disk.read_json(path, "a file of an interrupted run; delete the folder to start over")

    def save(self, number: int, result: FoldResult) -> None:
        if self.folder:
            with disk.atomic_write(self.folder / f"{number}.json") as file:
                file.write(json.dumps({**vars(result), "probabilities": result.probabilities.tolist()}))

    def close(self) -> None:
        if self.folder:
            for path in self.folder.glob("*.json"):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files
                self.folder.rmdir()


# A run


def run_identity(flags: Mapping[str, str], data: str) -> dict[str, str]:
    """Everything that a run's results depend on, besides its weights. data: the identity of the texts."""
    return {**{name: value for name, value in flags.items() if name not in OUTPUT_FIELDS}, "data": data}


def check_results(path: Path | None, identity: Mapping[str, str]) -> None:
    """Raise if the file holds the results of other data or settings, which would be lost."""
    if path and path.exists():
        values = disk.read_json(path, "a file of --results")
        if changes := differences(run_identity(values.get("settings", {}), values.get("data")), identity):
            raise UserError(
                f"--results {path} holds the results of other data or settings: {'; '.join(changes.values())}. Name another "
                "file, or delete this one."
            )


def load_texts(settings: ProtocolSettings, elmo: str | None) -> Texts:
    tokenisation = settings.lang, settings.max_seq_len, model_files.vocabulary_words(elmo)
    if not settings.train_file:
        return read_reviews(settings.data_dir, *tokenisation)
    files = settings.train_file, settings.dev_file, settings.test_file
    return read_texts(*files, settings.columns, *tokenisation)


class Experiment:
    """One run of the protocol. Validates the settings before encoders are built.

    flags: all of the script's, which are recorded, and compared when a run is resumed.
    """

    def __init__(self, settings: ProtocolSettings, flags: Mapping[str, Any]):
        self.settings = settings
        self.flags = {name: str(value) for name, value in flags.items()}
        self.ranks = Ranks(
            advice="With --results or --save_dir finished folds are kept: repeat the command with --resume."
        )
        if not self.ranks.is_main:
            log.setLevel("WARNING")
        inputs = settings.train_file, settings.dev_file, settings.test_file
        disk.check_output("--results", settings.results, *inputs)
        disk.check_output("--mistakes", settings.mistakes, *inputs)
        self.cache, self.trainer = FoldCache(settings.results or settings.save_dir), None
        self._check_folder()
        self.data = load_texts(settings, flags.get("init_from_ckpt"))
        self.flags["lang"] = self.data.lang
        self.identity = run_identity(self.flags, self.data.identity)
        check_results(settings.results, self.identity)
        self.folds = make_folds(self.data.labels, settings, self.data.n_dev, self.data.n_test)
        self.class_weights = parse_class_weights(settings.class_weights, self.data)
        self.compared = [(path, Results.load(path)) for path in settings.compare_with or ()]
        data, scored = self.data.identity, np.sort(np.concatenate([fold.test for fold in self.folds]))
        for path, other in self.compared:
            if data != other.data or not np.array_equal(scored, other.number):
                raise UserError(
                    f"--compare_with {path}: it scored {len(other.number):,} of {other.data}, this run scores "
                    f"{len(scored):,} of {data}. Compare runs with the same data and --protocol (and for split, the "
                    "same --seed)."
                )

    def _check_folder(self) -> None:
        settings, interrupted = self.settings, self.cache.is_interrupted
        if settings.save_dir:
            check_model_folder(settings.save_dir, "classifier", settings.overwrite, settings.resume, interrupted)
        elif settings.resume and not interrupted:
            raise UserError("--resume: there is no interrupted run to continue. Leave it out.")

    def run(self, encoders: Sequence[Encoder]) -> None:
        """Train and score each fold, print and write the scores, then save the classifier if requested."""
        with ExitStack() as stack:
            self.ranks.run_on_main(lambda: self._lock(stack))
            self._run(encoders)
        if self.ranks.is_main:
            self.cache.close()

    def _lock(self, stack: ExitStack) -> None:
        """Lock the folders in which this run writes until the stack is closed."""
        for folder in filter(None, (self.settings.save_dir, self.cache.folder)):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(disk.locked(folder / LOCK, remove=True))
        self._check_folder()  # another run may have ended since

    def _run(self, encoders: Sequence[Encoder]) -> None:
        began = time.perf_counter()
        try:
            fold_results = self._train_folds(encoders)
            if self.ranks.is_main:
                self._write(fold_results, time.perf_counter() - began)
            if self.settings.save_dir:
                self.ranks.run_on_main(lambda: self._save_classifier(encoders))
        except UserError:
            raise
        except BaseException:  # Ctrl-C, a signal, or an error that is not the user's
            if self.ranks.is_main:
                self._keep_best(encoders)
            raise

    def _train_folds(self, encoders: Sequence[Encoder]) -> list[FoldResult]:
        """Encode all texts and train on the folds that are not in the cache, each rank on its share."""
        ranks, data, began = self.ranks, self.data, time.perf_counter()
        for encoder in encoders:
            encoder.log_unknown_words(data.sentences)
        dims = self.settings.hidden_dim, len(data.classes)
        model = ClassifierModel(encoders, data.sentences, ranks, *dims, data.are_pairs)
        weights = {name: weight.numpy() for name, weight in model.encoders.state_dict().items()}
        identity = {**self.identity, "weights": fingerprint(weights)[:12]}
        done = ranks.run_on_main(lambda: self.cache.open(identity))
        for number in done:
            log.info(f"{self.folds[number - 1].name}  was done before")
        shapes = " and ".join(f"{encoder.name} {' x '.join(map(str, encoder.shape))}" for encoder in encoders)
        time_taken = messages.format_duration(time.perf_counter() - began)
        log.info(f"{data.unit:13} {data.identity}, means of layers x dimensions: {shapes}; in {time_taken}")
        if ranks.size > len(self.folds):
            log.info(f"processes     {len(self.folds)} of {ranks.size} have work: each takes whole folds")
        numbers = range(ranks.rank + 1, len(self.folds) + 1, ranks.size)
        n_left = sum(number not in done for number in numbers)
        self.trainer = Trainer(model, data.labels, self.settings, n_left, self.class_weights)
        shares = ranks.run_on_all(lambda: [done.get(number) or self._fold_result(number) for number in numbers])
        return [shares[k % ranks.size][k // ranks.size] for k in range(len(self.folds))]

    def _fold_result(self, number: int) -> FoldResult:
        result = self.trainer.train(self.folds[number - 1], number)
        self.cache.save(number, result)
        return result

    def _write(self, fold_results: Sequence[FoldResult], seconds: float) -> None:
        """Write the requested files, and print the scores."""
        settings, data, results = self.settings, self.data, self._test_results(fold_results)
        if settings.results:
            self._write_results(results, fold_results, seconds)
        if settings.mistakes:
            write_table(settings.mistakes, mistakes(results, data.texts, data.are_pairs))
        print(self._report(results, fold_results, seconds), flush=True)

    def _test_results(self, fold_results: Sequence[FoldResult]) -> Results:
        """The predictions for all test texts, in the order of the texts."""
        indices, data = np.concatenate([fold.test for fold in self.folds]), self.data
        order = np.argsort(indices)
        indices, probabilities = (
            indices[order],
            np.concatenate([result.probabilities for result in fold_results])[order],
        )
        return Results.from_probabilities(data.identity, indices, data.labels[indices], probabilities, data.classes)

    def _write_results(self, results: Results, fold_results: Sequence[FoldResult], seconds: float) -> None:
        names = ["accuracy", "first_accuracy", *(["macro_f1"] if self.settings.train_file else [])]
        values = {name: np.mean([getattr(result, name) for result in fold_results]) for name in names}
        values |= {"classes": self.data.classes} if self.settings.train_file else {}
        values |= {"seconds": seconds, "settings": self.flags}
        values["parts"] = [
            {"name": fold.name, "accuracy": result.accuracy, "settings": result.settings, "mixes": result.mixes}
            for fold, result in zip(self.folds, fold_results, strict=True)
        ]
        results.save(self.settings.results, **values)

    def _report(self, results: Results, fold_results: Sequence[FoldResult], seconds: float) -> str:
        settings, unit, lines = self.settings, self.data.unit, []
        scores = [result.accuracy for result in fold_results]
        first = [result.first_accuracy for result in fold_results]
        if len(scores) > 1:
            lines.append("accuracy of each fold  " + " ".join(f"{score:.2%}" for score in scores))
        if scores != first:
            lines.append(f"before fine-tuning     {mean_and_std(first, '%')}")
        of_texts = f"{format_count(len(results.number), unit)}, in {messages.format_duration(seconds)}"
        lines.append(f"accuracy               {mean_and_std(scores, '%')}, {of_texts}")
        if settings.train_file:
            lines.append(f"macro F1               {mean_and_std([result.macro_f1 for result in fold_results], '%')}")
        for mix in np.mean([result.mixes for result in fold_results], axis=0):
            lines.append(f"layers                 s {' '.join(f'{s:.3f}' for s in mix[:-1])}  gamma {mix[-1]:.3f}")
        lines += tables(results, bool(settings.train_file), settings.confusion)
        lines += [comparison(results, other, path, settings.seed, unit) for path, other in self.compared]
        return "\n".join(lines)

    def _save_classifier(self, encoders: Sequence[Encoder]) -> None:
        """Train the final head, on the only fold or on all texts, and save it with its encoders."""
        data, settings, trainer = self.data, self.settings, self.trainer
        if len(self.folds) > 1:
            indices, dev = np.split(np.arange(len(data)), [len(data) - data.n_dev])
            parts = _hold_out_dev(indices, dev, data.labels, settings.seed)
            trainer.n_folds = trainer.done + 1
            trainer.train(Fold(f"all {data.unit}", *parts, test=np.arange(0)), len(self.folds) + 1)
        elif not trainer.done:  # its result was in the cache
            trainer.n_folds = 1
            trainer.train(self.folds[0], 1)
        self._save(encoders)
        log.info(f"saved         {settings.save_dir}; use it: {PREDICT}{settings.save_dir}")

    def _save(self, encoders: Sequence[Encoder]) -> None:
        data, settings = self.data, self.settings
        classifier = Classifier.create(
            self.trainer.model.head, encoders, data.classes, data.lang, settings.max_seq_len, settings.columns or ()
        )
        classifier.save(settings.save_dir)

    def _keep_best(self, encoders: Sequence[Encoder]) -> None:
        """Save the best epoch of the fold in training, and log what an interrupted run has saved."""
        trainer, folder, n_finished = self.trainer, self.settings.save_dir, len(self.cache.files())
        stopped = f"stopped in {trainer.fold.name}" if trainer and trainer.fold else "stopped before training"
        if folder and trainer and trainer.best.weights and self.ranks.size == 1:
            trainer.load_best()
            self._save(encoders)
            log.warning(
                f"{stopped}. The best epoch so far is {trainer.best}. Use it: {PREDICT}{folder}. To train this fold again "
                "and continue: the same command and --resume."
            )
        elif n_finished:
            finished = format_count(n_finished, "finished folds")
            log.warning(f"{stopped}, after {finished}. Continue with the same command and --resume.")
        else:
            log.warning(f"{stopped}. Nothing has been saved.")
