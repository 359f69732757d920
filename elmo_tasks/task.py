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
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

import elmo
from elmo_core.checks import describe
from elmo_core.files import disk
from elmo_core.files.tensors import digest, read_tensors, write_tensors
from elmo_core.machine import products, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, join_names, log
from elmo_core.network.matmul import chosen_precision
from elmo_core.text.language import make_tokeniser
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary, restore_order, sentence_batches
from elmo_core.weights import checkpoint, published
from elmo_tasks.inputs import BILM, FileVectors, PretrainedELMo, Rows, TokenInputs
from elmo_tasks.ready import ready_made
from elmo_tasks.records import is_table
from elmo_tasks.settings import Settings
from elmo_tasks.trainer import ELMO_DIGEST, STATE, Progress, check_identity, fit, hold_out, training_identity

if TYPE_CHECKING:
    from typing_extensions import Self

FORMAT = 1
CONFIG, WEIGHTS, CARD, LOCK, ELMO = "config.json", "model.safetensors", "README.md", ".lock", "elmo"
VECTORS, WORDS = "word_vectors", "words of "  # names in model.safetensors
LONGEST = 1000  # list of words in config.json
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
S = TypeVar("S", bound=Settings)


class Task(Generic[S]):
    """A network with its settings and parts. Thread-safe: one thread at a time computes.

    parts: what else its network and its predictions depend on, as plain values for JSON, such as labels and words.

    A subclass names itself, reads data with `read_training` and `read`, and defines `build`, `collate`, `decode`, `measure`.
    Examples are of any type; in training their `repr` tells data sets apart.
    """

    name: ClassVar[str]  # such as "tagger"
    settings_type: ClassVar[type[Settings]]
    example: ClassVar[str]  # the call in the model card, with {text!r}
    batch_size: ClassVar[int] = 64  # in prediction
    batch_tokens: ClassVar[int] = 8192  # with padding
    random_vectors: ClassVar[bool] = False  # for words without one in the file
    settings: S
    parts: dict[str, Any]
    network: paddle.nn.Layer  # with `inputs`, which are TokenInputs
    scores: dict[str, Any]  # of `train`
    results: Mapping[str, Any] = MappingProxyType({})  # scores of `train`, by part of the data
    folder: Path | None = None
    identity: dict[str, Any] | None = None  # of the training

    def __init__(self, folder: str | Path = "", device: str = "auto", precision: str = "float32"):
        """Load a folder or, by its name, a ready-made model. A folder of that name with a trained model takes precedence.

        device: auto, cpu, gpu or gpu:N. precision: of ELMo's products: float32, bfloat16 or auto.
        """
        if not str(folder):
            cls = type(self).__name__
            raise TypeError(f"{cls}() lacks the folder, or the name, of a trained model. {cls}.train(...) trains one.")
        chosen_precision(precision, runtime.device_name(device))  # raises unless this machine has them
        name, folder, ready = str(folder), disk.user_path(folder), {path.name: path for path in ready_made(self.name)}
        values = read_config(folder)
        if values is None and name in ready:
            values = read_config(folder := ready[name])
        if values is None or values["task"] != self.name:
            found = f"a trained {values['task']}" if values else "no trained model"
            names = f" or a name: {join_names(list(ready))}" if ready else ""
            raise UserError(f"{folder} holds {found}, expected a trained {self.name}{names}.")
        (tensors, _), source = read_tensors(folder / WEIGHTS), values.get(ELMO)
        if source not in (None, f"{ELMO}/", *published.table()):
            raise UserError(f"{folder / CONFIG}: {ELMO} is {source!r:.60}, expected a model's name or {ELMO}/.")
        source = folder / ELMO if source == f"{ELMO}/" else source and published.install(source)
        try:
            pretrained = PretrainedELMo.load(source) if source else None
            self._restore(values, tensors, pretrained, device, precision)
            if self.identity and self.identity[ELMO_DIGEST] != self.elmo_digest():
                raise UserError(f"{ELMO}, {source}, has other weights than the ELMo of its training.")
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = error if isinstance(error, UserError | TypeError) else f"{type(error).__name__} {error}"
            raise UserError(f"{folder / CONFIG}: {reason} Copy the folder again, or train again.") from error
        self.folder = folder

    # What a subclass defines

    @classmethod
    def read_training(
        cls, given: dict[str, Any], settings: Any, pretrained: PretrainedELMo | None
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Read the data of a training. Returns the settings with what the data tell, the parts, and the examples by name.

        given: by name, train and, if given, dev and test; the examples have all of these but, perhaps, test.
        """
        raise NotImplementedError

    def build(self) -> paddle.nn.Layer:
        """Build the network from `settings`, `parts`, `vectors` and `pretrained`."""
        raise NotImplementedError

    def make_inputs(self, **options: Any) -> TokenInputs:
        """Build the inputs of the network, with the words of the training data. options: of `TokenInputs`."""
        words = self.parts["words"]
        vocabulary = Vocabulary([*SPECIAL_TOKENS, *words]) if words is not None else None
        return TokenInputs(self.settings, vocabulary, self.vectors, self.pretrained, **options)

    def length(self, example: Any) -> int:
        """The number of an example's tokens."""
        return len(example.tokens)

    def rows(self, examples: Sequence[Any]) -> Rows:
        """Tell what the inputs read of examples."""
        return Rows([example.tokens for example in examples])

    def prepare(self, train: Sequence[Any]) -> None:
        """Set what the network takes from the training data, whose ELMo vectors are cached."""
        if self.network.inputs.words:
            self.network.inputs.words.count(chain.from_iterable(self.rows(train).tokens))

    def collate(self, examples: Sequence[Any]) -> Any:
        """Make a batch of examples, with what they should be predicted as if the network is in training."""
        raise NotImplementedError

    def decode(self, batch: Any) -> Sequence[Any]:
        """Predict each example of a batch."""
        raise NotImplementedError

    def measure(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Any:
        """Score the predictions of examples.

        The score has a `value`, which selects the best epoch, a `summary` for the log, `to_dict()` for JSON, and `table()`.
        """
        raise NotImplementedError

    def phases(self) -> Iterator[Any]:
        """Yield the settings of each training, one after the other."""
        yield self.settings

    # Training

    @classmethod
    def train(
        cls,
        data: Any,
        labels: Iterable[Any] | None = None,
        *,
        dev: Any = None,
        test: Any = None,
        settings: S | None = None,
        save_dir: str | Path | None = None,
        overwrite: bool = False,
        resume: bool = False,
        progress: Progress | bool = True,
        device: str = "auto",
    ) -> "Self":
        """Train a model. It has the weights of the epoch that scores best on the dev set; its `scores` tell more.

        data: a file, a DataFrame, a `datasets.Dataset` or a list of dictionaries; or lists of tokens, or texts, whose labels
        are given separately. dev, test: the same, or such a pair. Without dev, a tenth of the data is held out.
        save_dir: a new or empty folder for the model; overwrite: or that of such a model, which is replaced at the end.
        resume: continue an interrupted training, start if there is none, return the model if it is finished.
        progress: called with the scores of each epoch; False: no bar.
        """
        if save_dir is not None:
            check_folder(disk.user_path(save_dir), cls.name, overwrite, resume)
        elif overwrite or resume:
            raise UserError("`overwrite=True` and `resume=True` have no effect without `save_dir`.")
        settings = settings or cls.settings_type()
        if not isinstance(settings, cls.settings_type):
            raise TypeError(f"settings: found {describe(settings)}, expected {cls.settings_type.__name__}.")
        pretrained = PretrainedELMo.load(settings.elmo)
        given = {name: part for name, part in (("dev", dev), ("test", test)) if part is not None}
        given = {"train": data if labels is None else (data, labels), **given}
        settings, parts, examples = cls.read_training(given, settings, pretrained)
        task = cls.create(settings, parts, device, pretrained)
        with training_folder(cls, save_dir, overwrite, resume) if save_dir else nullcontext() as folder:
            return task._learn(examples, folder, resume, progress)

    @classmethod
    def create(
        cls, settings: S, parts: dict[str, Any], device: str = "auto", pretrained: PretrainedELMo | None = None
    ) -> "Self":
        """Build an untrained instance. pretrained: if `settings.elmo` has been loaded."""
        task, pretrained = cls.__new__(cls), pretrained or PretrainedELMo.load(settings.elmo)
        paddle.seed(settings.seed)
        task._set(settings, parts, pretrained, FileVectors.from_settings(settings, cls.random_vectors), device)
        return task

    def _learn(
        self, data: Mapping[str, Sequence[Any]], folder: Path | None, resume: bool, progress: Progress | bool
    ) -> "Self":
        """Train on data["train"], select on data["dev"], score data["test"], if there is one, and save in the locked folder.

        If `resume` finds the finished model there, that is returned.
        """
        train, dev, inputs = data["train"], data["dev"], self.network.inputs
        if self.pretrained is None:
            log.info("training without ELMo")
        with runtime.on_device(self.device):
            self.identity = training_identity(self, data)
            if resume and folder and (folder / CONFIG).exists() and not list(folder.glob(STATE.format("*"))):
                finished = type(self)(folder, self.device, self.precision)
                check_identity(folder, finished.identity or {}, self.identity)
                log.info(f"{folder} is complete.")
                return finished
            inputs.cache(map(self.rows, data.values()), progress is not False)
            self.prepare(train)
            for number, settings in enumerate(self.phases(), 1):
                state = fit(self, train, dev, settings, folder, resume, progress, number)
            tests = {"test": self.evaluated(data["test"])} if "test" in data else {}
            self.results = {"dev": state.best_score, **tests}
        if inputs.elmo and not self.pretrained.layer:
            inputs.elmo.clear_cache()  # of the training texts: it may hold gigabytes
        sizes = {name: len(part) for name, part in data.items()}
        values = {"epoch": state.best_epoch, "seconds": state.seconds, "sizes": sizes}
        values |= {part: score.to_dict() for part, score in self.results.items()}
        self.scores = values | {"summary": {part: score.summary for part, score in self.results.items()}}
        if folder:
            self._write(folder)
        return self

    def read(self, data: Any) -> list[Any]:
        """Read labelled data as in training."""
        raise NotImplementedError

    def evaluate(self, data: Any, labels: Iterable[Any] | None = None) -> dict[str, Any]:
        """Score the model on data, given as to `train`."""
        return self.evaluated(self.read(data if labels is None else (data, labels))).to_dict()

    def evaluated(self, examples: Sequence[Any]) -> Any:
        return self.measure(examples, list(self.predictions(examples)))

    def predictions(self, examples: Iterable[Any], window: float | None = math.inf) -> Iterator[Any]:
        """Yield the prediction of each example, in order. window: examples that are sorted together; None: some."""
        batches = sentence_batches(examples, self.batch_size, self.batch_tokens, window, self.length)
        return restore_order((positions, self._decoded(batch)) for positions, batch in batches)

    def _decoded(self, examples: Sequence[Any]) -> Sequence[Any]:
        with self._lock, products.inference(self.device):
            self.network.eval()
            return self.decode(self.collate(examples))

    # Parts

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """Splits raw text as in training."""
        user_dict = self.settings.user_dict
        return Tokeniser(self.settings.lang, Segmenter.from_file(user_dict) if user_dict else None)

    def trained_weights(self) -> dict[str, paddle.Tensor]:
        """The network's weights, without those of a frozen ELMo."""
        is_tuned, state = self.settings.elmo_trainable, self.network.state_dict()
        weights = {id(weight): (name, weight) for name, weight in state.items()}  # Paddle's LSTMs name theirs twice
        return {name: weight for name, weight in weights.values() if is_tuned or not name.startswith(BILM)}

    def elmo_digest(self) -> str:
        """A digest of the weights of a frozen ELMo; of nothing, if there is none."""
        layer = None if self.settings.elmo_trainable else self.network.inputs.elmo
        weights = layer.bilm.named_parameters() if layer else ()
        return digest(w.astype("float32").numpy() for name, w in weights if not name.startswith("softmax."))

    def _set(self, settings: Any, parts: dict[str, Any], pretrained, vectors, device: str, precision="float32") -> None:
        self.scores, self._lock, self.device = {}, threading.RLock(), runtime.device_name(device)
        self.precision = chosen_precision(precision, self.device)
        self.settings, self.parts, self.pretrained, self.vectors = settings, parts, pretrained, vectors
        with elmo.BUILDING, runtime.on_device(self.device):
            self.network = self.build()
        if pretrained and not pretrained.layer:
            self.network.inputs.elmo.precision = self.precision

    def __repr__(self) -> str:
        return f"{type(self).__name__}({repr(str(self.folder)) if self.folder else ''})"

    # Copies and folders

    def _content(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what config.json and model.safetensors hold."""
        lists, parts = {}, {}
        for name, value in self.parts.items():
            is_long = isinstance(value, list) and len(value) > LONGEST and all(isinstance(x, str) for x in value)
            (lists if is_long else parts)[name] = value
        tensors = {name: weight.numpy() for name, weight in self.trained_weights().items()}
        if self.vectors:
            tensors[VECTORS], lists[VECTORS] = self.vectors.table, self.vectors.words
        for name, words in lists.items():
            tensors[f"{WORDS}{name}"] = np.frombuffer("\n".join(words).encode(), np.uint8)
        source = self.pretrained and (self.pretrained.name or f"{ELMO}/")
        values = {"format_version": FORMAT, "task": self.name, "settings": self.settings.to_dict(), ELMO: source}
        return {**values, "parts": parts, "scores": self.scores, "training": self.identity}, tensors

    def _restore(self, values: dict[str, Any], tensors: dict[str, np.ndarray], pretrained, device, precision) -> None:
        words = {name: bytes(tensors.pop(name)).decode() for name in [*tensors] if name.startswith(WORDS)}
        lists = {name.removeprefix(WORDS): text.split("\n") for name, text in words.items()}
        settings, vectors = self.settings_type(**values["settings"]), None
        check_sizes(settings, tensors)
        if isinstance(settings.user_dict, str):
            raise UserError(f"user_dict is {settings.user_dict!r:.60}, expected a list of words.")
        if VECTORS in lists:
            vectors = FileVectors(lists.pop(VECTORS), tensors.pop(VECTORS), self.random_vectors, settings.seed)
        self._set(settings, {**values["parts"], **lists}, pretrained, vectors, device, precision)
        elmo.set_weights(self.trained_weights(), tensors, f"{WEIGHTS} of a {self.name}")
        self.scores, self.identity = values.get("scores") or {}, values.get("training")

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy's state, without caches and the lock: a published ELMo's name, the weights of any other."""
        source, how = self.pretrained and self.pretrained.name, (runtime.portable_device(self.device), self.precision)
        if self.pretrained and not source:
            bilm, words = self.pretrained.bilm, list(self.pretrained.words)
            source = bilm.config, elmo.weights_of(bilm), self.pretrained.vocabulary, words
        return {"content": self._content(), ELMO: source, "how": how, "folder": self.folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        source = state[ELMO]
        if isinstance(source, tuple):
            config, weights, *vocabulary = source
            pretrained = PretrainedELMo(elmo.make_bilm(config, weights), *vocabulary)
        else:
            pretrained = PretrainedELMo.load(source)
        self._restore(*state["content"], pretrained, *state["how"])
        self.folder = state["folder"]

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Save the model in a new folder, an empty one, or, with `overwrite`, that of a model of this kind."""
        with training_folder(type(self), folder, overwrite) as path:
            self._write(path)

    def _write(self, folder: Path) -> None:
        """Write a folder that is complete before it replaces the one that is there, whose other files it keeps."""
        folder, (values, tensors) = folder.resolve(), self._content()
        self.folder, old = folder, disk.temporary_name(folder)
        try:
            with disk.atomic_folder(folder) as new:
                if values[ELMO] == f"{ELMO}/":
                    bilm, vocabulary = self.pretrained.bilm, self.pretrained.vocabulary
                    if words := self.pretrained.words:  # also of a model that reads characters only
                        vocabulary = vocabulary or Vocabulary([*SPECIAL_TOKENS, *words])
                    checkpoint.save_model(new / ELMO, bilm.config, elmo.weights_of(bilm), vocabulary)
                write_tensors(new / WEIGHTS, tensors)
                card, before = self.card().encode("utf-8"), (read_config(folder) or {}).get("card")
                if (folder / CARD).exists() and digest([(folder / CARD).read_bytes()]) != before:
                    shutil.copyfile(folder / CARD, new / CARD)  # a user's own
                else:
                    (new / CARD).write_bytes(card)
                files = sorted(path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file())
                values |= {"card": digest([card]), "files": [*files, CONFIG]}
                disk.write_json(new / CONFIG, values, indent=1, ensure_ascii=False)
                for file in {*foreign_files(folder, self.name)} - {*files, CONFIG}:
                    (new / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(folder / file, new / file, follow_symlinks=False)
                if folder.exists():
                    disk.rename(folder, old)
        except BaseException:
            if old.exists() and not folder.exists():
                disk.rename(old, folder)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def card(self) -> str:
        """The model card: what the model was trained on and how, its scores, how to use it."""
        name, scores = self.folder.name if self.folder else self.name, self.scores
        lines = [f"- settings other than the defaults: {json.dumps(self.settings.changed(), ensure_ascii=False):.2000}"]
        lines += [f"- labels: {join_names(list(map(str, self.parts['labels'])), 50)}"] if "labels" in self.parts else []
        lines += [f"- ELMo: {self.pretrained.name or f'in {ELMO}/'}"] if self.pretrained else []
        lines += [f"- examples: {', '.join(f'{n:,} {part}' for part, n in scores['sizes'].items())}"] if scores else []
        rows = [f"| {part} | {summary.strip()} |" for part, summary in scores.get("summary", {}).items()]
        call = self.example.format(text=EXAMPLES.get(self.settings.lang, "A short text."))
        values = {"name": name, "task": self.name, "cls": type(self).__name__, "call": call}
        return CARD_TEXT.format(**values, lines="\n".join(lines), rows="\n".join(rows))


def resolve_language(settings: S, texts: Iterable[str], pretrained: PretrainedELMo | None) -> tuple[S, Tokeniser]:
    """The settings with the language of the texts, and with the lines of the user's dictionary; and the tokeniser."""
    known = pretrained.words if pretrained else ()
    tokeniser = make_tokeniser(settings.lang, texts, known, settings.user_dict)
    user_dict = tokeniser.segment.entries if tokeniser.segment else None
    return replace(settings, lang=tokeniser.lang, user_dict=user_dict), tokeniser


def with_dev(data: dict[str, Any], settings: Any, split: Any = hold_out) -> dict[str, Any]:
    """The data with a dev set: by default, a part of the training data is held out."""
    train, dev = (data["train"], data["dev"]) if "dev" in data else split(data["train"], settings.seed)
    return {**data, "train": train, "dev": dev}


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
    if (found := values.get("format_version")) != FORMAT:
        raise UserError(f"{folder / CONFIG}: format_version is {found!r:.20}, expected {FORMAT}. Use another version.")
    return values


@contextmanager
def training_folder(
    cls: type[Task], save_dir: str | Path, overwrite: bool = False, resume: bool = False
) -> Iterator[Path]:
    """Check, make and lock the folder of a model that is about to be trained."""
    folder = disk.user_path(save_dir)
    check_folder(folder, cls.name, overwrite, resume)
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / LOCK):
        check_folder(folder, cls.name, overwrite, resume)  # another training may have ended since
        for file in folder.glob(STATE.format("*")) if not resume else ():
            file.unlink()
        yield folder


def foreign_files(folder: Path, name: str) -> list[str]:
    """The files in a folder that are not those of a model of this kind, nor of its training."""
    values, own = read_config(folder), {LOCK, *(path.name for path in folder.glob(STATE.format("*")))}
    if values and values["task"] == name:
        own |= {str(file) for file in values.get("files", [])} | {CARD}
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted({path.relative_to(folder).as_posix() for path in files} - own)


def check_folder(folder: Path, name: str, overwrite: bool, resume: bool = False) -> None:
    """Raise unless the folder is new, empty, or a model of this kind that may be replaced; or a training to continue."""
    advice = "Name a new folder, or an empty one."
    if folder.exists() and (not folder.is_dir() or folder.samefile(".") or os.path.ismount(folder)):
        raise UserError(f"`save_dir` {folder} is a file, the current folder, or a mount point. {advice}")
    disk.check_output("`save_dir`", folder / CONFIG)
    states, is_model = any(folder.glob(STATE.format("*"))), (folder / CONFIG).exists()
    others = [file for file in foreign_files(folder, name) if not file.startswith(".")]
    if others and not (resume and (states or is_model)):
        raise UserError(f"`save_dir` {folder} holds {join_names(others, 3)}, of no {name}. {advice}")
    if (states or is_model) and not overwrite and not resume:
        what = "an interrupted training: continue it with `resume=True`" if states else f"a {name}"
        raise UserError(f"`save_dir` {folder} already holds {what}. Name another, or add `overwrite=True`.")


def as_given(values: Any, name: str, predict: Any) -> Any:
    """Return what predict(values, window) yields: as an iterator if the values are one, perhaps endless, else as a list.

    name: of the argument. window: how many values are sorted together, see `Task.predictions`.
    """
    if isinstance(values, str | Mapping) or is_table(values) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: found {describe(values)}, expected a list or a column of {name}.")
    is_lazy = isinstance(values, Iterator)
    results = predict(values, None if is_lazy else math.inf)
    return results if is_lazy else list(results)
