"""The base of all tasks: a network with all it was trained with, in memory and as a folder."""

import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from elmo_core.checks import as_list, describe
from elmo_core.display.curve import CURVE, CurveFile
from elmo_core.files import disk
from elmo_core.files.tensors import digest, read_tensors
from elmo_core.kernels import precision
from elmo_core.kernels.matmul import chosen_precision
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import Progress, UserError, join_names, log
from elmo_core.network.bilm import BUILDING, make_bilm, set_weights, weights_of
from elmo_core.settings import Settings
from elmo_core.text.batches import restore_order, sentence_batches
from elmo_core.text.language import AUTO, make_tokeniser, recognise
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import CHINESE, Tokeniser
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights.cards import NOTICE, notice_of
from elmo_tasks import folder as model_folder
from elmo_tasks.inputs import BILM, FileVectors, PretrainedELMo, Rows, TokenInputs, default_elmo
from elmo_tasks.ready import ready_made
from elmo_tasks.records import is_table
from elmo_tasks.score import PlainScore, Score
from elmo_tasks.trainer import (
    ELMO_DIGEST,
    check_identity,
    fit,
    hold_out,
    training_identity,
)
from elmo_tasks.training_curve import TrainingCurve

if TYPE_CHECKING:
    from typing_extensions import Self

VECTORS = "word_vectors"  # the tensor of a file's vectors
LISTS = "list of "  # how the names of tensors begin that hold long lists
LONGEST = 1000  # list in config.json
EXAMPLES = {"zh": "我爱北京。", "characters": "我爱北京。"}  # in the model card
CARD_TEXT = """# {name}

A {task}, trained with the library "ELMo in PaddlePaddle".

{lines}

| | |
|---|---|
{rows}

```python
from {module} import {cls}

print({cls}("{name}").{call})
```
"""
S = TypeVar("S", bound=Settings)
Example = TypeVar("Example")
Prediction = TypeVar("Prediction")


class Network(Protocol):
    """What `Task.build` returns: a `paddle.nn.Layer` that reads `inputs` and has a loss."""

    inputs: TokenInputs
    training: bool

    def loss(self, batch: Any) -> paddle.Tensor:
        """The loss of a batch that `Task.collate` has made, a tensor of one number."""

    def state_dict(self) -> dict[str, paddle.Tensor]: ...

    def train(self) -> None: ...

    def eval(self) -> None: ...


class Task(ABC, Generic[S, Example, Prediction]):
    """A network with its settings and parts.

    Thread-safe: one thread at a time computes, and one at a time trains.

    A user trains with `train`, loads with the name of the class, and calls `predict`,
    `iter_predict`, `evaluate` and `save`. There are:
    settings: of the training.
    scores: of the trained model, by part of the data: dev, test.
    training: the best epoch, the seconds, and the number of examples by part of the data.
    parts: what else the network and its predictions depend on, as plain values for JSON, such as
    labels and words.

    All other methods are for subclasses. One must define `name`, `settings_type`, and what is
    abstract: `read_data`, `set_up`, `build`, `collate`, `decode`, `measure` and `results`; it may
    define the others of that section. Examples are of any type with `tokens`; those without must
    define `texts`, `length` and `rows`. In training their `repr` tells data sets apart.
    """

    name: ClassVar[str]  # such as "tagger"
    settings_type: ClassVar[type[Settings]]
    batch_size: ClassVar[int] = 64  # in prediction
    batch_tokens: ClassVar[int] = 8192  # with padding
    random_vectors: ClassVar[bool] = False  # for words without one in the file
    settings: S
    parts: dict[str, Any]
    network: Network
    scores: dict[str, Score]
    training: dict[str, Any]
    folder: Path | None = None
    notice: str = ""  # what goes with its weights, see elmo_core/weights/cards.py
    identity: dict[str, Any] | None = None  # what a resumed training must share

    def __init__(self, folder: str | Path = "", device: str = "auto", precision: str = "float32"):
        """Load a trained model from its folder, or a ready-made one by its name.

        A folder of that name with a trained model takes precedence over the ready-made model.
        device: auto, cpu, gpu or gpu:N.
        precision: of ELMo's products: float32, bfloat16 or auto.
        """
        if not str(folder):
            cls = type(self).__name__
            lacks = f"{cls}() lacks the folder, or the name, of a trained model"
            raise TypeError(f"{lacks}. {cls}.train(...) trains one.")
        # Raises unless this machine has them.
        chosen_precision(precision, runtime.device_name(device))
        name = str(folder)
        folder = disk.user_path(folder)
        ready = {path.name: path for path in ready_made(self.name)}
        if model_folder.read_config(folder) is None and name in ready:
            folder = ready[name]
        values = model_folder.read_config(folder)
        if values is None or values["task"] != self.name:
            if values:
                found = f"a trained {values['task']}"
            elif model_folder.states(folder):
                found = "an interrupted training, which `resume=True` (--resume) continues"
            else:
                found = "no trained model"
            names = f" or a name: {join_names(list(ready))}" if ready else ""
            raise UserError(f"{folder} holds {found}, expected a trained {self.name}{names}.")
        try:
            self._load(folder, values, device, precision)
        except UserError:
            # Perhaps a save has replaced the model meanwhile.
            replaced = model_folder.read_config(folder)
            if replaced is None or replaced == values:
                raise
            self._load(folder, replaced, device, precision)
        self.folder = folder
        self.notice = notice_of(folder)

    # What a subclass defines

    @classmethod
    @abstractmethod
    def read_data(cls, data: Any, name: str, settings: S) -> list[Example]:
        """Read labelled examples: a file, a table, or a pair (texts, labels).

        name: of the argument, for messages.
        """

    @classmethod
    @abstractmethod
    def set_up(
        cls, data: dict[str, list[Example]], settings: S, pretrained: PretrainedELMo | None
    ) -> tuple[S, dict[str, Any], dict[str, list[Any]]]:
        """Complete what `read_data` returned of train and, if given, of dev and test.

        Returns the settings with what the data tell, the parts, and the examples, which include
        dev; see `resolve_language` and `with_dev`.
        """

    @abstractmethod
    def build(self) -> Network:
        """Build the network from `settings`, `parts`, `vectors` and `pretrained`.

        Its `inputs` are `make_inputs()`.
        """

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> Any:
        """Make a batch of examples; with their labels, if the network is in training."""

    @abstractmethod
    def decode(self, batch: Any) -> Sequence[Prediction]:
        """Predict each example of a batch."""

    @abstractmethod
    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Score:
        """Score the predictions of labelled examples."""

    @abstractmethod
    def results(self, texts: Iterable[Any], is_lazy: bool = False) -> Iterator[Any]:
        """Yield what `predict` returns of each text that a user gives.

        It makes examples, and takes their predictions from `predicted`. What is no text is a
        TypeError that names its number.
        """

    # What a subclass may define

    @classmethod
    def texts(cls, examples: Sequence[Example]) -> Iterable[str]:
        """The texts or tokens of what `read_data` returned, by which the language is recognised."""
        return (" ".join(example.tokens) for example in examples)

    def complete(self, examples: list[Example]) -> list[Example]:
        """Complete what `read_data` returned as `set_up` did in training, such as with tokens."""
        return examples

    def is_one(self, texts: Any) -> bool:
        """Whether `predict` was given one text, not several."""
        return isinstance(texts, str)

    def make_inputs(self, **options: Any) -> TokenInputs:
        """Build the inputs of the network, with `parts["words"]`, if there are any.

        options: of `TokenInputs`.
        """
        words = self.parts.get("words")
        vocabulary = None if words is None else Vocabulary(SPECIAL_TOKENS + list(words))
        return TokenInputs(self.settings, vocabulary, self.vectors, self.pretrained, **options)

    def length(self, example: Any) -> int:
        """The number of an example's tokens."""
        return len(example.tokens)

    def rows(self, examples: Sequence[Any]) -> Rows:
        """Tell what the inputs read of examples."""
        return Rows([example.tokens for example in examples])

    def prepare(self, train: Sequence[Any]) -> None:
        """Set what the network takes from the training data: counts of words, and statistics.

        The ELMo vectors of the data are cached.
        """
        inputs = self.network.inputs
        if inputs.words:
            inputs.words.count(chain.from_iterable(self.rows(train).tokens))
        if len(inputs.statistics):
            self.network.eval()
            batches = sentence_batches(
                train, self.batch_size, self.batch_tokens, window=len(train), length=self.length
            )
            inputs.standardise(self.rows(batch) for _, batch in batches)

    def solve(self, train: Sequence[Example], dev: Sequence[Example] | None) -> Score | None:
        """Train what takes no epochs; None if there is nothing of the kind.

        Returns the score on dev or, without dev, of predictions that were made in training of texts
        which the prediction did not see.
        """
        return None

    def phases(self) -> Iterator[S]:
        """Yield the settings of each training, one after the other."""
        yield self.settings

    def calibrate(self, score: Score) -> None:
        """Set in `parts` what the dev set decides after training, such as a threshold.

        score: of the best epoch.
        """

    def card_lines(self) -> list[str]:
        """What the model card says besides settings, labels, ELMo and scores."""
        return []

    def usage(self, text: str) -> str:
        """The call in the model card, on a text."""
        return f"predict({text!r})"

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
        """Train a model.

        It has the weights of the epoch that scores best on the dev set; its `scores` tell more.
        data: a file, a table, or a list, whose labels are given separately; the class says of what.
        A table is a DataFrame, a `datasets.Dataset` or a list of dictionaries.
        dev, test: the same, or a pair (data, labels). Without dev, a tenth of the data is held out.
        save_dir: a new or empty folder for the model.
        overwrite: also that of such a model, which is replaced at the end.
        resume: continue an interrupted training, start if there is none, return the model if it is
        finished.
        progress: called with the scores of each epoch; False: no bar.

        Trainings in several threads run one after the other.
        """
        cls._check_definition()
        if save_dir is not None:
            model_folder.check(disk.user_path(save_dir), cls.name, overwrite, resume)
        elif overwrite or resume:
            raise UserError("`overwrite=True` and `resume=True` have no effect without `save_dir`.")
        settings = settings or cls.settings_type()
        if not isinstance(settings, cls.settings_type):
            raise TypeError(
                f"settings: found {describe(settings)}, expected {cls.settings_type.__name__}."
            )
        given = {"train": data if labels is None else (data, labels)}
        if dev is not None:
            given["dev"] = dev
        if test is not None:
            given["test"] = test
        examples = {name: cls.read_data(part, name, settings) for name, part in given.items()}
        if settings.elmo == AUTO:
            name = default_elmo(settings.lang, cls.texts(examples["train"]))
            settings = replace(settings, elmo=name)
        pretrained = PretrainedELMo.load(settings.elmo)
        known = pretrained.words if pretrained else ()
        is_chinese = recognise(cls.texts(examples["train"]), known) in CHINESE
        settings, parts, examples = cls.set_up(examples, settings, pretrained)
        with runtime.TRAINING:
            task = cls.create(settings, parts, device, pretrained)
            if save_dir is None:
                return task._learn(examples, None, resume, progress, is_chinese)
            with model_folder.locked(save_dir, cls.name, overwrite, resume) as folder:
                return task._learn(examples, folder, resume, progress, is_chinese)

    @classmethod
    def create(
        cls,
        settings: S,
        parts: dict[str, Any],
        device: str = "auto",
        pretrained: PretrainedELMo | None = None,
    ) -> "Self":
        """Build an untrained instance. pretrained: if `settings.elmo` has been loaded."""
        task = cls.__new__(cls)
        pretrained = pretrained or PretrainedELMo.load(settings.elmo)
        paddle.seed(settings.seed)
        vectors = FileVectors.from_settings(settings, cls.random_vectors)
        task._set(
            settings=settings,
            parts=parts,
            pretrained=pretrained,
            vectors=vectors,
            device=device,
        )
        if pretrained and settings.elmo_trainable:
            task.notice = pretrained.bilm.notice
        return task

    @classmethod
    def _check_definition(cls) -> None:
        """Raise if a subclass lacks what it must define, before data and ELMo are loaded."""
        missing = [name for name in ("name", "settings_type") if not hasattr(cls, name)]
        missing += sorted(cls.__abstractmethods__)
        if missing:
            raise TypeError(f"{cls.__name__} does not define {join_names(missing)}, see `Task`.")

    def _learn(
        self,
        data: Mapping[str, Sequence[Any]],
        folder: Path | None,
        resume: bool,
        progress: Progress | bool,
        is_chinese: bool,
    ) -> "Self":
        """Train on data["train"], select on data["dev"], score data["test"], if there is one.

        folder: locked; the model is saved there. If `resume` finds the finished model there, that
        is returned. is_chinese: the text.
        """
        train = data["train"]
        dev = data.get("dev")
        inputs = self.network.inputs
        if self.pretrained is None:
            log.info("training without ELMo")
        with runtime.on_device(self.device):
            self.identity = training_identity(self, data)
            if resume and folder and model_folder.is_finished(folder):
                finished = type(self)(folder, self.device, self.precision)
                check_identity(folder, finished.identity or {}, self.identity)
                log.info(f"{folder} is complete.")
                return finished
            # Rows are made only if a frozen ELMo reads them.
            rows = (self.rows(part) for part in data.values())
            inputs.cache(rows, progress is not False)
            self.prepare(train)
            curve = TrainingCurve(folder, is_chinese)
            start = time.perf_counter()
            score = self.solve(train, dev)
            epoch = 0
            if score is None:
                first = 1
                seconds = 0.0
            else:  # later phases begin with what is solved
                first = 2
                seconds = time.perf_counter() - start
            for number, settings in enumerate(self.phases(), first):
                state = fit(
                    task=self,
                    train=train,
                    dev=dev,
                    settings=settings,
                    curve=curve,
                    folder=folder,
                    resume=resume,
                    progress=progress,
                    phase=number,
                )
                seconds += state.seconds
                score = state.best_score
                epoch = state.best_epoch
            self.calibrate(score)
            self.scores = {"dev": score}
            if "test" in data:
                self.scores["test"] = self.evaluated(data["test"])
        if inputs.elmo and not self.pretrained.layer:
            inputs.elmo.clear_cache()  # of the training texts: it may hold gigabytes
        self.training = {
            "epoch": epoch,
            "seconds": seconds,
            "sizes": {name: len(part) for name, part in data.items()},
        }
        curve.draw()
        if folder:
            self._write(folder, self.notice)
        return self

    def report(self) -> dict[str, Any]:
        """The training and its scores as plain values, which config.json and `--json` hold."""
        return {
            **self.training,
            **{part: score.to_dict() for part, score in self.scores.items()},
            "summary": {part: score.summary for part, score in self.scores.items()},
        }

    # Scores and predictions

    def evaluate(self, data: Any, labels: Iterable[Any] | None = None) -> Score:
        """Score the model on data, given as to `train`.

        The score prints itself; `score["f1"]` is a figure.
        """
        return self.evaluated(self.read(data if labels is None else (data, labels)))

    def predict(self, texts: Any) -> Any:
        """Return what is predicted of each text of a list or column; of one text, that of it."""
        return self._one_or_all(texts, self.results)

    def iter_predict(self, texts: Iterable[Any]) -> Iterator[Any]:
        """Like `predict`, but lazy, for any number of texts: reads ahead some batches."""
        return self.results(checked_stream(texts), is_lazy=True)

    def _one_or_all(self, texts: Any, predict: Callable[[Sequence[Any]], Iterator[Any]]) -> Any:
        """The only result of one text, or the list of those of several.

        predict: yields that of each text.
        """
        if self.is_one(texts):
            (result,) = predict([texts])
            return result
        items = None if is_table(texts) else as_list(texts)
        if items is None:
            is_iterator = isinstance(texts, Iterator)
            hint = " `iter_predict` and its like take iterators." if is_iterator else ""
            expected = "a list or a column of texts, or one text"
            raise TypeError(f"found {describe(texts)}, expected {expected}.{hint}")
        return list(predict(items))

    def read(self, data: Any) -> list[Example]:
        """Read labelled data as in training."""
        return self.complete(self.read_data(data, "data", self.settings))

    def evaluated(self, examples: Sequence[Example]) -> Score:
        """Score the model on examples."""
        return self.measure(examples, list(self.predictions(examples)))

    def predictions(self, examples: Sequence[Example]) -> Iterator[Prediction]:
        """Yield the prediction of each example, in order."""
        return (prediction for _, prediction in self.predicted(examples))

    def predicted(
        self, examples: Iterable[Any], is_lazy: bool = False
    ) -> Iterator[tuple[Any, Prediction]]:
        """Yield each example with its prediction, in order.

        is_lazy: some, not all, are sorted into batches together.
        """
        batches = sentence_batches(
            examples,
            self.batch_size,
            self.batch_tokens,
            window=None if is_lazy else math.inf,
            length=self.length,
        )
        return restore_order(
            (positions, zip(batch, self._decoded(batch), strict=True))
            for positions, batch in batches
        )

    def _decoded(self, examples: Sequence[Any]) -> Sequence[Prediction]:
        with self._lock, precision.inference(self.device):
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
        is_tuned = self.settings.elmo_trainable
        state = self.network.state_dict()
        # Paddle's LSTMs name each of their weights twice: the last name counts.
        named = {id(weight): (name, weight) for name, weight in state.items()}
        return {
            name: weight for name, weight in named.values() if is_tuned or not name.startswith(BILM)
        }

    def elmo_digest(self) -> str:
        """A digest of the weights of a frozen ELMo; of nothing, if there is none."""
        layer = None if self.settings.elmo_trainable else self.network.inputs.elmo
        weights = layer.bilm.named_parameters() if layer else ()
        return digest(
            w.astype("float32").numpy() for name, w in weights if not name.startswith("softmax.")
        )

    def _set(
        self,
        settings: Any,
        parts: dict[str, Any],
        pretrained: PretrainedELMo | None,
        vectors: FileVectors | None,
        device: str,
        precision: str = "float32",
    ) -> None:
        self.scores = {}
        self.training = {}
        self._lock = threading.RLock()
        self.device = runtime.device_name(device)
        self.precision = chosen_precision(precision, self.device)
        self.settings = settings
        self.parts = parts
        self.pretrained = pretrained
        self.vectors = vectors
        with BUILDING, runtime.on_device(self.device):
            self.network = self.build()
        if pretrained and not pretrained.layer:
            self.network.inputs.elmo.precision = self.precision

    def __repr__(self) -> str:
        folder = repr(str(self.folder)) if self.folder else ""
        return f"{type(self).__name__}({folder})"

    # Copies and folders

    def _content(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what config.json, but for the names of files, and the file of the weights hold."""
        tensors = {name: weight.numpy() for name, weight in self.trained_weights().items()}
        lists = {}
        parts = {}
        for name, value in self.parts.items():
            if isinstance(value, list) and len(value) > LONGEST:
                lists[name] = value
            else:
                parts[name] = value
        if self.vectors:
            tensors[VECTORS] = self.vectors.table
            lists[VECTORS] = list(self.vectors.words)
        for name, words in lists.items():
            text = json.dumps(words, ensure_ascii=False)
            tensors[f"{LISTS}{name}"] = np.frombuffer(
                text.encode("utf-8", "surrogatepass"), np.uint8
            )
        values = {
            "format_version": model_folder.FORMAT,
            "task": self.name,
            "settings": self.settings.to_dict(),
            "parts": parts,
            "scores": {
                **self.report(),
                "table": {part: score.table() for part, score in self.scores.items()},
                "value": {part: score.value for part, score in self.scores.items()},
            },
            "training": self.identity,
        }
        return values, tensors

    def _restore(
        self,
        values: dict[str, Any],
        tensors: dict[str, np.ndarray],
        pretrained: PretrainedELMo | None,
        device: str,
        precision: str,
    ) -> None:
        """Become the model of what `_content` returned."""
        lists = {}
        for name in [name for name in tensors if name.startswith(LISTS)]:
            text = bytes(tensors.pop(name)).decode("utf-8", "surrogatepass")
            lists[name.removeprefix(LISTS)] = json.loads(text)
        for name, value in values["parts"].items():
            # `_content` stores longer ones elsewhere.
            if isinstance(value, list) and len(value) > LONGEST:
                raise UserError(
                    f"`{name}` has {len(value):,} items, expected {LONGEST:,} or fewer."
                )
        settings = self.settings_type(**values["settings"])
        check_sizes(settings, tensors)
        if isinstance(settings.user_dict, str):
            raise UserError(f"user_dict is {settings.user_dict!r:.60}, expected a list of words.")
        vectors = None
        if VECTORS in lists:
            words = lists.pop(VECTORS)
            vectors = FileVectors(words, tensors.pop(VECTORS), self.random_vectors, settings.seed)
        self._set(
            settings=settings,
            parts=values["parts"] | lists,
            pretrained=pretrained,
            vectors=vectors,
            device=device,
            precision=precision,
        )
        set_weights(self.trained_weights(), tensors, f"the weights of a {self.name}")
        self.scores, self.training = read_scores(values["scores"])
        self.identity = values.get("training")

    def _load(self, folder: Path, values: dict[str, Any], device: str, precision: str) -> None:
        """Become the model in a folder, whose config.json holds the values."""
        tensors, _ = read_tensors(folder / values[model_folder.WEIGHTS])
        source = values[model_folder.ELMO]
        pretrained = PretrainedELMo.load(model_folder.elmo_folder(folder, source))
        try:
            self._restore(values, tensors, pretrained, device, precision)
            if self.identity and self.identity[ELMO_DIGEST] != self.elmo_digest():
                raise UserError(
                    f"its ELMo, {source}, has other weights than the ELMo of its training."
                )
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__} {error}"
            if isinstance(error, UserError | TypeError):
                reason = error
            path = folder / model_folder.CONFIG
            raise UserError(f"{path}: {reason} Copy the folder again, or train again.") from error

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy's state, without caches and the lock.

        A published ELMo is its name, any other its weights.
        """
        source = None
        if self.pretrained:
            source = self.pretrained.name
        if self.pretrained and not source:
            bilm = self.pretrained.bilm
            words = list(self.pretrained.words)
            source = bilm.config, weights_of(bilm), self.pretrained.vocabulary, words, bilm.notice
        values, tensors = self._content()
        return {
            "values": values,
            "tensors": tensors,
            "elmo": source,
            "device": runtime.portable_device(self.device),
            "precision": self.precision,
            "folder": self.folder,
            "notice": self.notice,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        source = state.pop("elmo")
        folder = state.pop("folder")
        notice = state.pop("notice")
        if isinstance(source, tuple):
            config, weights, vocabulary, words, elmo_notice = source
            bilm = make_bilm(config, weights)
            bilm.notice = elmo_notice
            pretrained = PretrainedELMo(bilm, vocabulary, words)
        else:
            pretrained = PretrainedELMo.load(source)
        self._restore(**state, pretrained=pretrained)
        self.folder = folder
        self.notice = notice

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Save the model in a new or empty folder or, with `overwrite`, that of such a model.

        Other files in the folder stay as they are.
        """
        with model_folder.locked(folder, self.name, overwrite) as path:
            was_here = self.folder is not None and path.resolve() == self.folder.resolve()
            self._write(path, None if was_here else self.notice)
            if not was_here:
                CurveFile(path / CURVE).remove()  # of the model that was there

    def _write(self, folder: Path, notice: str | None) -> None:
        values, tensors = self._content()
        model_folder.write(
            folder,
            values=values,
            tensors=tensors,
            pretrained=self.pretrained,
            card=self.card(folder.resolve().name),
            notice=notice,
        )
        self.folder = folder.resolve()

    def card(self, name: str) -> str:
        """The model card: what the model was trained on and how, its scores, how to use it.

        name: of its folder.
        """
        changed = json.dumps(self.settings.changed(), ensure_ascii=False)
        lines = [f"- settings other than the defaults: {changed:.2000}"]
        if "labels" in self.parts:
            lines.append(f"- labels: {join_names([str(x) for x in self.parts['labels']], 50)}")
        lines += [f"- {line}" for line in self.card_lines()]
        source = "none"
        if self.pretrained:
            source = self.pretrained.name or "a copy in this folder"
        lines.append(f"- ELMo: {source}")
        if self.notice:
            lines.append(f"- licence and attribution: {NOTICE}")
        sizes = self.training.get("sizes", {})
        if sizes:
            counts = [f"{n:,} {part}" for part, n in sizes.items()]
            lines.append(f"- examples: {', '.join(counts)}")
        rows = [f"| {part} | {score.summary.strip()} |" for part, score in self.scores.items()]
        cls = type(self)
        is_ours = cls.__module__.startswith("elmo_tasks.")
        return CARD_TEXT.format(
            name=name,
            task=self.name,
            lines="\n".join(lines),
            rows="\n".join(rows),
            module="elmo_tasks" if is_ours else cls.__module__,
            cls=cls.__name__,
            call=self.usage(EXAMPLES.get(self.settings.lang, "A short text.")),
        )


def resolve_language(
    settings: S, texts: Iterable[str], pretrained: PretrainedELMo | None
) -> tuple[S, Tokeniser]:
    """The settings with the language of the texts and the user's dictionary; and the tokeniser.

    The dictionary is then the list of its lines.
    """
    known = pretrained.words if pretrained else ()
    tokeniser = make_tokeniser(settings.lang, texts, known, settings.user_dict)
    user_dict = tokeniser.segment.entries if tokeniser.segment else None
    return replace(settings, lang=tokeniser.lang, user_dict=user_dict), tokeniser


def with_dev(
    data: dict[str, list[Any]],
    settings: Any,
    split: Callable[[Sequence[Any], int], tuple[list[Any], list[Any]]] = hold_out,
) -> dict[str, list[Any]]:
    """The data with a dev set: by default, a part of the training data is held out."""
    if "dev" in data:
        return data
    train, dev = split(data["train"], settings.seed)
    return {**data, "train": train, "dev": dev}


def check_sizes(settings: Settings, tensors: Mapping[str, np.ndarray]) -> None:
    """Raise if the settings describe a network that is far larger than the weights."""
    total = 10_000 + sum(array.size for array in tensors.values())
    for name, value in settings.to_dict().items():
        if name.endswith("_dim") and value > total:
            raise UserError(f"`{name}` is {value}, but the weights are far fewer.")


def read_scores(values: Any) -> tuple[dict[str, Score], dict[str, Any]]:
    """The scores and the training of a model, of what `scores` of config.json holds."""
    if not isinstance(values, dict):
        raise UserError(f"`scores` is {values!r:.60}, expected an object.")
    for name in ("sizes", "summary", "table", "value", "dev", "test"):
        value = values.get(name, {})
        if not isinstance(value, dict):
            raise UserError(f"`{name}` of `scores` is {value!r:.60}, expected an object.")
    scores: dict[str, Score] = {}
    for part, summary in values.get("summary", {}).items():
        scores[part] = PlainScore(
            figures=values.get(part, {}),
            value=values.get("value", {}).get(part, 0.0),
            summary=str(summary),
            lines=str(values.get("table", {}).get(part, "")),
        )
    names = ("epoch", "seconds", "sizes")
    return scores, {name: values[name] for name in names if name in values}


def checked_stream(texts: Any) -> Iterable[Any]:
    """The texts. Raise unless they are an iterable of texts, not one text or a table."""
    is_iterable = isinstance(texts, Iterable) and not isinstance(texts, str | Mapping)
    if not is_iterable or is_table(texts):
        raise TypeError(f"found {describe(texts)}, expected an iterable of texts.")
    return texts
