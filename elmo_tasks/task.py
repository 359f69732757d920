"""The base of all tasks: a network with everything it was trained with, in memory and as a folder.

FOLDER/
  config.json         the task, its settings, and its parts: labels, how text was tokenised, ...
  model.safetensors   the weights, of ELMo only if it was tuned; word vectors; long lists of words
  elmo/               a copy of its ELMo, unless that is a bundled or published model, which config.json names
  README.md           the model card
  training-1.safetensors, .lock    of a training that is not complete

A folder is complete and can be moved to any machine where the library is installed.
"""

import json
import math
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

import elmo
from elmo_core.files import disk
from elmo_core.files.tensors import read_tensors, write_tensors
from elmo_core.machine import products, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.network.matmul import chosen_precision
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import restore_order, sentence_batches
from elmo_core.weights import checkpoint, published
from elmo_tasks.inputs import BILM, FileVectors, PretrainedELMo, Rows, TokenInputs
from elmo_tasks.settings import Settings
from elmo_tasks.trainer import STATE, Best, Progress, Score, check_identity, fit, training_identity

FORMAT = 1
CONFIG, WEIGHTS, CARD, LOCK, ELMO = "config.json", "model.safetensors", "README.md", ".lock", "elmo"
VECTORS, WORDS = "word_vectors", "words of "  # names in model.safetensors
LONGEST = 1000  # list of words in config.json
REMEDY = "Copy the folder again, or train again."
EXAMPLES = {"zh": "我爱北京。", "characters": "我爱北京。"}  # in the model card
CARD_TEXT = """# {name}

A {task} trained with ELMo in PaddlePaddle.

{lines}

| | |
|---|---|
{rows}

```python
from elmo_tasks import {cls}

print({cls}("{name}").{call})
```
"""
AnyTask = TypeVar("AnyTask", bound="Task")


class Task:
    """A network with its settings and parts. Thread-safe: one thread at a time computes.

    parts: what else its network and its predictions depend on, as plain values for JSON, such as labels and words.

    A subclass names itself (`name`, `settings_type`, `example`), and defines `build`, `length`, `collate`, `loss`, `decode`
    and `measure`. Its `train` reads data, builds an instance with `create`, and calls `learn`. Examples are of any type; in
    training their `repr` tells data sets apart.
    """

    name: ClassVar[str]  # such as "tagger"
    settings_type: ClassVar[type[Settings]]
    example: ClassVar[str]  # the call in the model card, with {text!r}
    batch_size: ClassVar[int] = 64  # in prediction
    batch_tokens: ClassVar[int] = 8192  # with padding
    settings: Any
    parts: dict[str, Any]
    network: paddle.nn.Layer  # with `inputs`, which are TokenInputs
    scores: dict[str, Any]  # of `train`
    results: Mapping[str, Score] = MappingProxyType({})  # of `train`, by part of the data
    folder: Path | None = None
    _identity: dict[str, Any] | None = None  # of the training

    def __init__(self, folder: str | Path, device: str = "auto", precision: str = "float32"):
        """Load a folder. device: auto, cpu, gpu or gpu:N. precision: of ELMo's products: float32, bfloat16 or auto."""
        self._load(Path(folder), device, precision)

    # What a subclass defines

    def build(self) -> paddle.nn.Layer:
        """Build the network from `settings`, `parts`, `vectors` and `pretrained`."""
        raise NotImplementedError

    def length(self, example: Any) -> int:
        """The number of an example's tokens."""
        raise NotImplementedError

    def rows(self, example: Any) -> Rows:
        """Tell what ELMo reads of an example, to compute it once for all epochs."""
        return Rows([example.tokens])

    def prepare(self, train: Sequence[Any]) -> None:
        """Set what the network takes from the training data, whose ELMo vectors are cached."""

    def collate(self, examples: Sequence[Any]) -> Any:
        """Make a batch of examples, with what they should be predicted as if that is known."""
        raise NotImplementedError

    def loss(self, batch: Any) -> paddle.Tensor:
        """The loss of a batch."""
        raise NotImplementedError

    def decode(self, batch: Any) -> Sequence[Any]:
        """Predict each example of a batch."""
        raise NotImplementedError

    def measure(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Score:
        """Score the predictions of examples."""
        raise NotImplementedError

    def phases(self) -> Iterator[Any]:
        """Yield the settings of each training, one after the other."""
        yield self.settings

    # Training

    @classmethod
    def create(
        cls: type[AnyTask],
        settings: Any,
        parts: dict[str, Any],
        device: str = "auto",
        pretrained: PretrainedELMo | None = None,
        vectors: FileVectors | None = None,
    ) -> AnyTask:
        """Build an untrained instance. pretrained, vectors: of `settings.elmo` and `settings.word_vectors`."""
        task = cls.__new__(cls)
        task._set(settings, parts, pretrained, vectors, device)
        return task

    def learn(
        self: AnyTask,
        data: Mapping[str, Sequence[Any]],
        save_dir: Path | None,
        resume: bool = False,
        progress: Progress | bool = True,
    ) -> AnyTask:
        """Train on data["train"], select on data["dev"], score data["test"], if there is one, and save.

        save_dir: locked and checked by `training_folder`. If `resume` finds the finished model there, that is returned.
        """
        train, dev = data["train"], data["dev"]
        if self.pretrained is None:
            log.info("training without ELMo: `elmo` is not set")
        with runtime.on_device(self.device):
            self._identity = training_identity(self, train, dev)
            if resume and save_dir and (save_dir / CONFIG).exists() and not list(save_dir.glob(STATE.format("*"))):
                finished = type(self)(save_dir, self.device, self.precision)
                check_identity(save_dir, finished._identity or {}, self._identity)
                log.info(f"{save_dir} is complete.")
                return finished
            self.network.inputs.cache(self.rows(example) for part in data.values() for example in part)
            self.prepare(train)
            for number, settings in enumerate(self.phases(), 1):
                best = fit(self, train, dev, settings, save_dir, resume, progress, number)
            test = self.evaluated(data["test"]) if "test" in data else None
            self._record(best, test, {name: len(part) for name, part in data.items()})
        if save_dir:
            self._write(save_dir)
        return self

    def _record(self, best: Best, test: Score | None, sizes: Mapping[str, int]) -> None:
        inputs: TokenInputs = self.network.inputs
        if inputs.elmo and not (self.pretrained and self.pretrained.layer):
            inputs.elmo.clear_cache()  # of the training texts: it may hold gigabytes
        self.results = {"dev": best.score, **({"test": test} if test else {})}
        values = {"epoch": best.epoch, "seconds": best.seconds, "sizes": dict(sizes), "mixes": inputs.mix_weights()}
        values |= {part: score.to_dict() for part, score in self.results.items()}
        self.scores = values | {"summary": {part: score.summary for part, score in self.results.items()}}

    def evaluated(self, examples: Sequence[Any]) -> Score:
        return self.measure(examples, list(self.predictions(examples)))

    def predictions(self, examples: Iterable[Any], window: float | None = math.inf) -> Iterator[Any]:
        """Yield the prediction of each example, in order. window: examples that are sorted together; None: some."""
        size, tokens = self.batch_size, self.batch_tokens
        batches = sentence_batches(examples, size, tokens, window, self.length)
        return restore_order((positions, self._decoded(batch)) for positions, batch in batches)

    def _decoded(self, examples: Sequence[Any]) -> Sequence[Any]:
        with self._lock, products.inference(self.device):
            self.network.eval()
            return self.decode(self.collate(examples))

    # Parts

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """Splits raw text as in training."""
        settings = self.settings
        segment = Segmenter.from_file(settings.user_dict) if settings.user_dict else None
        return Tokeniser(settings.lang, segment, self.pretrained.words if self.pretrained else ())

    def trained_weights(self) -> dict[str, paddle.Tensor]:
        """The network's weights, without those of a frozen ELMo."""
        is_tuned = self.settings.elmo_trainable
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if is_tuned or not name.startswith(BILM)}

    def _set(self, settings: Any, parts: dict[str, Any], pretrained, vectors, device: str, precision="float32") -> None:
        self.scores, self._lock, self.device = {}, threading.RLock(), runtime.device_name(device)
        self.precision = chosen_precision(precision, self.device)
        self.settings, self.parts, self.pretrained, self.vectors = settings, parts, pretrained, vectors
        with runtime.on_device(self.device):
            paddle.seed(settings.seed)
            self.network = self.build()
        if pretrained and not pretrained.layer:
            self.network.inputs.elmo.precision = self.precision

    def __repr__(self) -> str:
        source = "no ELMo" if not self.pretrained else self.pretrained.name or "its own ELMo"
        counts = [format_count(len(self.parts[name]), name) for name in ("labels",) if name in self.parts]
        return f"{type(self).__name__}({', '.join([repr(str(self.folder))] * bool(self.folder) + [*counts, source])})"

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy's state, without caches and the lock: a published ELMo's name, the weights of any other."""
        bilm, source = self.pretrained and self.pretrained.bilm, self.pretrained and self.pretrained.name
        if bilm and not source:
            source = bilm.config, elmo.weights_of(bilm), self.pretrained.vocabulary, list(self.pretrained.words)
        weights = {name: weight.numpy() for name, weight in self.trained_weights().items()}
        settings = self.settings_type(**self.settings.to_dict())
        vectors = self.vectors and (self.vectors.words, self.vectors.table)
        how = runtime.portable_device(self.device), self.precision
        rest = {"scores": self.scores, "folder": self.folder, "_identity": self._identity}
        return {"built": (settings, self.parts, source, vectors, *how), "weights": weights, "rest": rest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        settings, parts, source, vectors, *how = state["built"]
        if isinstance(source, tuple):
            config, weights, *vocabulary = source
            source = PretrainedELMo(elmo.make_bilm(config, weights), *vocabulary)
        else:
            source = PretrainedELMo.load(source)
        self._set(settings, parts, source, vectors and self.make_vectors(settings, *vectors), *how)
        elmo.set_weights(self.trained_weights(), state["weights"], f"the copy of a {self.name}")
        vars(self).update(state["rest"])

    @staticmethod
    def make_vectors(settings: Any, words: Sequence[str], table: np.ndarray) -> FileVectors:
        """The vectors of a file, from what was read of it."""
        return FileVectors(words, table)

    # Folders

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Save the model in a new folder, an empty one, or, with `overwrite`, that of a model of this kind."""
        with training_folder(type(self), folder, overwrite) as path:
            self._write(path)

    def _write(self, folder: Path) -> None:
        """Write a folder that is complete before it replaces the one that is there, of which it keeps the README.md."""
        folder, lists, parts = folder.resolve(), {}, {}
        for name, value in self.parts.items():
            is_long = isinstance(value, list) and len(value) > LONGEST and all(isinstance(x, str) for x in value)
            (lists if is_long else parts)[name] = value
        tensors = {name: weight.numpy() for name, weight in self.trained_weights().items()}
        if names := [name for name, array in tensors.items() if not np.isfinite(array).all()]:
            raise UserError(
                f"{folder} is not written: weights are not finite: {join_names(names, 3)}. Use a lower `lr`."
            )
        if self.vectors:
            tensors[VECTORS], lists[VECTORS] = self.vectors.table, self.vectors.words
        tensors |= {
            f"{WORDS}{name}": np.frombuffer("\n".join(words).encode(), np.uint8) for name, words in lists.items()
        }
        source = self.pretrained and (self.pretrained.name or f"{ELMO}/")
        old = disk.temporary_name(folder)
        self.folder = folder
        try:
            with disk.atomic_folder(folder) as new:
                if source == f"{ELMO}/":
                    bilm = self.pretrained.bilm
                    checkpoint.save_model(new / ELMO, bilm.config, elmo.weights_of(bilm), self.pretrained.vocabulary)
                write_tensors(new / WEIGHTS, tensors)
                if (folder / CARD).exists():
                    shutil.copyfile(folder / CARD, new / CARD)
                else:
                    (new / CARD).write_text(self.card(), encoding="utf-8")
                files = sorted(path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file())
                values = {
                    "format_version": FORMAT,
                    "task": self.name,
                    "settings": self.settings.to_dict(),
                    ELMO: source,
                }
                values |= {"parts": parts, "scores": self.scores, "training": self._identity, "files": [*files, CONFIG]}
                disk.write_json(new / CONFIG, values, indent=1, ensure_ascii=False)
                read_tensors(new / WEIGHTS)
                if folder.exists():
                    disk.rename(folder, old)
        except BaseException:
            if old.exists() and not folder.exists():
                disk.rename(old, folder)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def _load(self, folder: Path, device: str, precision: str) -> None:
        file, values = folder / CONFIG, read_config(folder)
        if values is None or values["task"] != self.name:
            raise UserError(f"{folder} holds {_describe_content(folder)}, expected a trained {self.name}.")
        tensors = read_tensors(folder / WEIGHTS)
        try:
            words = {name: bytes(tensors.pop(name)).decode() for name in [*tensors] if name.startswith(WORDS)}
            lists = {name.removeprefix(WORDS): text.split("\n") for name, text in words.items()}
            settings, source = self.settings_type(**values["settings"]), values[ELMO]
            check_sizes(settings, tensors)
            if isinstance(getattr(settings, "user_dict", None), str):
                raise UserError(f"user_dict is {settings.user_dict!r:.60}, expected a list of words.")
            pretrained = None
            if source is not None:
                if source != f"{ELMO}/" and source not in published.table():
                    raise UserError(f"{ELMO} is {source!r:.60}, expected a model's name or {ELMO}/.")
                pretrained = PretrainedELMo.load(folder / ELMO if source == f"{ELMO}/" else published.install(source))
            vectors = (
                self.make_vectors(settings, lists.pop(VECTORS), tensors.pop(VECTORS)) if VECTORS in lists else None
            )
            self._set(settings, {**values["parts"], **lists}, pretrained, vectors, device, precision)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = error if isinstance(error, UserError | TypeError) else f"{type(error).__name__} {error}"
            raise UserError(f"{file}: {reason} {REMEDY}") from error
        elmo.set_weights(self.trained_weights(), tensors, f"{folder / WEIGHTS} and {CONFIG}")
        self.folder, self.scores, self._identity = folder, values.get("scores") or {}, values.get("training")

    def card(self) -> str:
        """The model card: what the model was trained on and how, its scores, how to use it."""
        name, scores = self.folder.name if self.folder else self.name, self.scores
        lines = [f"- labels: {join_names(list(map(str, self.parts['labels'])), 50)}"] if "labels" in self.parts else []
        if self.pretrained:
            lines.append(f"- ELMo: {self.pretrained.name or f'in {ELMO}/'}")
        lines += [f"- examples: {', '.join(f'{n:,} {part}' for part, n in scores['sizes'].items())}"] if scores else []
        settings = json.dumps(self.settings.changed(), ensure_ascii=False)
        lines.append(f"- settings other than the defaults: {settings}")
        rows = [f"| {part} | {summary.strip()} |" for part, summary in scores.get("summary", {}).items()]
        call = self.example.format(text=EXAMPLES.get(getattr(self.settings, "lang", ""), "A short text."))
        return CARD_TEXT.format(
            name=name, task=self.name, cls=type(self).__name__, call=call, lines="\n".join(lines), rows="\n".join(rows)
        )


def check_sizes(settings: Settings, tensors: Mapping[str, np.ndarray]) -> None:
    """Raise if the settings describe a network that is far larger than the weights."""
    total = 10_000 + sum(array.size for array in tensors.values())
    for name, value in settings.to_dict().items():
        if name.endswith("_dim") and value > total:
            raise UserError(f"`{name}` is {value}, but the weights are far fewer.")


def read_config(folder: Path) -> dict[str, Any] | None:
    """The config.json of a task's folder; None if it is not that of a task."""
    if not (folder / CONFIG).is_file():
        return None
    values = disk.read_json(folder / CONFIG, "the settings of a trained model")
    if not isinstance(values.get("task"), str):
        return None
    if values.get("format_version") != FORMAT:
        found = values.get("format_version")
        raise UserError(f"{folder / CONFIG}: format_version is {found!r:.20}, expected {FORMAT}. Use another version.")
    return values


def _describe_content(folder: Path) -> str:
    """Describe what a folder holds, in an error message."""
    if not folder.is_dir():
        return "nothing" if not folder.exists() else "no folder"
    values = read_config(folder)
    if values:
        return f"a trained {values['task']}"
    if list(folder.glob(STATE.format("*"))):
        return "an interrupted training"
    return "an ELMo" if (folder / CONFIG).is_file() else "no trained model"


@contextmanager
def training_folder(
    cls: type[Task], save_dir: str | Path | None, overwrite: bool = False, resume: bool = False
) -> Iterator[Path | None]:
    """Check, make and lock the folder of a model that is about to be trained. None: nothing is written."""
    if save_dir is None:
        if overwrite or resume:
            raise UserError(f"`{'overwrite' if overwrite else 'resume'}` has no effect without `save_dir`.")
        yield None
        return
    folder = Path(save_dir)
    check_folder(folder, cls.name, overwrite, resume)
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / LOCK):
        check_folder(folder, cls.name, overwrite, resume)  # another training may have ended since
        for file in folder.glob(STATE.format("*")) if not resume else ():
            file.unlink()
        yield folder


def check_folder(folder: Path, name: str, overwrite: bool, resume: bool = False) -> None:
    """Raise unless the folder is new, empty, or a model of this kind that may be replaced; or a training to continue."""
    advice = "Name a new folder, or an empty one."
    if folder.exists() and not folder.is_dir():
        raise UserError(f"`save_dir` {folder} is a file. {advice}")
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()} - {LOCK}
    disk.check_output("`save_dir`", folder / CONFIG)
    if folder.exists() and (folder.samefile(".") or folder.is_mount()):
        raise UserError(
            f"`save_dir` {folder} is the current folder, or a mount point, which cannot be replaced. {advice}"
        )
    if not paths:
        return
    values, states = read_config(folder), set(folder.glob(STATE.format("*")))
    own = {path.name for path in states}
    if values and values["task"] == name:
        own |= {str(file) for file in values.get("files", [])} | {CARD}
    if others := sorted(paths - own):
        raise UserError(f"`save_dir` {folder} holds {_describe_content(folder)} and {join_names(others, 3)}. {advice}")
    if not overwrite and not resume:
        what = "an interrupted training: continue it with `resume=True`" if states else f"a {name}"
        raise UserError(f"`save_dir` {folder} already holds {what}. Name another, or add `overwrite=True`.")


def iterable(values: Any, name: str) -> Iterable[Any]:
    """The values. Raise unless they are several. name: of the argument."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: found {values!r:.60}, expected a list of them.")
    return values


def window_of(values: Any) -> float | None:
    """How many values are sorted together: all, or some of those of an iterator, which may be endless."""
    return None if isinstance(values, Iterator) else math.inf


def as_given(values: Any, results: Iterator[Any]) -> Any:
    """The results as an iterator, if the values are one, else as a list."""
    return results if isinstance(values, Iterator) else list(results)
