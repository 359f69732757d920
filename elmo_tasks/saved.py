"""A trained model as a folder that can be moved to another machine, where only the library is installed.

FOLDER/
  config.json        settings of the network, under "tagger", "reader" or "classifier"; fingerprints of the ELMo,
                     word vectors and vocabularies
  model.safetensors  the weights, except those of a frozen biLM. Written last
  vocab.txt ...      the dictionaries of the kind
  README.md          the model card: what it was trained on and how, its scores, how to use it
  user_dict.txt      the dictionary for jieba, if any
  elmo/              the checkpoint of its biLM, unless that is a published model, which config.json names
  word_vectors.txt   its word vectors; also .bin, .txt.gz, .bin.gz
  last.safetensors   the state of a training run that was interrupted
  .lock              locked while the model is being trained
"""

import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

import elmo
from elmo_core.files import disk
from elmo_core.files.tensors import read_tensors, write_tensors
from elmo_core.machine import products, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, format_count
from elmo_core.network.matmul import chosen_precision
from elmo_core.settings import from_config
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import Tokeniser
from elmo_core.weights import checkpoint, published
from elmo_tasks.pretrained import PretrainedBiLM, load_published
from elmo_tasks.word_vectors import WordVectors

KINDS = "tagger", "classifier", "reader"
BILM, WORDS = "elmo.bilm.", "words."  # prefixes of the weights of the biLM and of trained word vectors
WEIGHTS, STATE, LOCK = checkpoint.WEIGHTS, "last.safetensors", ".lock"
CARD, MAX_CARD = "README.md", 100_000  # characters
REMEDY = "Copy the folder again, or train again."
ELMO, VECTORS = "elmo", "word_vectors"  # in config.json, and names in the folder
MAX_COPIES = 3  # of a network's weights: a GRU holds two
_BUILDING = threading.RLock()
Kind = TypeVar("Kind", bound="TrainedModel")


@dataclass(frozen=True)
class Part:
    """One of the things that a model's network is built from, and how a folder holds it.

    kind: its type. file: its name in the folder, for a vocabulary, of which even the order matters; "": it is an entry of
    config.json. default: for models without it.
    """

    kind: Any
    file: str = ""
    default: Any = ...


part: Any = Part  # declares an attribute of a model, for type checkers of any type


class _Listed(type):
    """The type of the models. `dir` and `help` list what users call."""

    def __dir__(cls) -> list[str]:
        return ["device", "evaluate", "save", "scores", "settings", "train", *cls.listed]


class TrainedModel(metaclass=_Listed):
    """A network with everything it was trained with. Thread-safe: one thread at a time computes.

    source: a folder as `save` has written it, or the parts of an untrained model. device: auto, cpu, gpu or gpu:N.
    precision: of ELMo's large products: float32, bfloat16 or auto. layers: of the network, if it shares them with others.

    Each subclass has a `kind`, which is its key in config.json and its name in messages, declares its parts besides
    `settings`, `pretrained` and `vectors`, and makes a network from them.
    """

    kind: ClassVar[str]
    listed: ClassVar[tuple[str, ...]] = ()  # of its own, in `dir` and `help`
    settings_type: ClassVar[type]
    settings: Any
    network: paddle.nn.Layer
    pretrained: PretrainedBiLM | None = None
    vectors: WordVectors | None = None
    user_dict: Segmenter | None = part(Segmenter, "user_dict.txt", default=None)
    result: Any = None  # of `train`
    card: str = ""  # content of README.md
    folder: Path | None = None  # that holds it
    _read: tuple[Path, Mapping] | None = None  # config.json and the weights, while a folder is loaded

    def __init__(
        self, source: str | Path | Mapping[str, Any], device: str = "auto", precision: str = "float32", **layers: Any
    ):
        self._lock, self.device = threading.RLock(), runtime.device_name(device)
        self.precision = chosen_precision(precision, self.device)
        with runtime.on_device(self.device):
            if isinstance(source, Mapping):
                self._build(source, **layers)
            else:
                self.folder = Path(source)
                self._load(self.folder)
        if self.pretrained:
            self.network.elmo.precision = self.precision

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def __repr__(self) -> str:
        parts = [repr(str(self.folder))] if self.folder else []
        parts += [format_count(len(getattr(self, name)), name) for name in ("labels", "classes") if name in self.listed]
        parts.append((self.pretrained.name or "its own ELMo") if self.pretrained else "no ELMo")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _build(self, parts: Mapping[str, Any], **layers: Any) -> None:
        defaults = {name: part.default for name, part in self._declared().items()}
        vars(self).update({**defaults, **parts})
        self.network = self.make_network(**layers)

    @classmethod
    def create(cls: type[Kind], **parts: Any) -> Kind:
        """Build an untrained model on Paddle's current device."""
        return cls(parts, paddle.get_device())

    def make_network(self) -> paddle.nn.Layer:
        """Build the network from the parts, with untrained weights."""
        raise NotImplementedError

    @contextmanager
    def building(self, n_more: int = 0) -> Iterator[None]:
        """A block that makes the network: raise before it takes far more memory than the weights that have been read.

        n_more: number of values in other arrays of the network.
        """
        file, weights = self._read or (None, {})
        left, thread = MAX_COPIES * sum(array.nbytes for array in weights.values()) // 4 - n_more, threading.get_ident()

        def create_checked(layer: paddle.nn.Layer, shape: Sequence[int], *options: Any, **more: Any) -> paddle.Tensor:
            nonlocal left
            if file and threading.get_ident() == thread:
                left -= math.prod(shape)
                if left < 0:
                    numbers = {name: value for name, value in vars(self.settings).items() if type(value) is int}
                    described = ", ".join(f"{self.kind}.{name} is {value}" for name, value in numbers.items())
                    raise UserError(f"{file}: {described}, which is too large for {WEIGHTS}. {REMEDY}")
            return create(layer, shape, *options, **more)

        with _BUILDING:
            create, paddle.nn.Layer.create_parameter = paddle.nn.Layer.create_parameter, create_checked
            try:
                yield
            finally:
                paddle.nn.Layer.create_parameter = create

    @classmethod
    def _declared(cls) -> dict[str, Part]:
        attributes = (pair for base in reversed(cls.__mro__) for pair in vars(base).items())
        return {name: part for name, part in attributes if isinstance(part, Part)}

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy's state, without caches and the lock: a published ELMo's name, the weights of all others."""
        parts = {name: getattr(self, name) for name in ("settings", "pretrained", "vectors", *self._declared())}
        weights = elmo.weights_of(self.network)
        if self.pretrained:
            bilm = {name.removeprefix(BILM): array for name, array in weights.items() if name.startswith(BILM)}
            loaded = self.network.elmo.config, bilm, self.network.elmo.vocabulary
            parts["pretrained"] = dataclasses.replace(self.pretrained, loaded=loaded)
        weights = {name: weights[name] for name in self.saved_parameters()}
        device = runtime.portable_device(self.device), self.precision
        return {"result": self.result, "card": self.card, "device": device, "parts": parts, "weights": weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TrainedModel.__init__(self, state.pop("parts"), *state.pop("device"))
        self.set_weights(state.pop("weights"), f"the copy of a {self.kind}")
        vars(self).update(state)

    @property
    def scores(self) -> dict[str, Any] | None:
        """The scores on the dev and the test set, after `train`."""
        return self.result and self.result.to_dict()

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """Splits raw text as in training."""
        vocabulary = (self.network.elmo and self.network.elmo.vocabulary) or getattr(self, "words", None)
        return Tokeniser(self.settings.lang, self.user_dict, vocabulary.words if vocabulary else ())

    @contextmanager
    def inference(self) -> Iterator[None]:
        """A block that computes with the network: without dropout and gradients, one thread at a time."""
        with self._lock, products.inference(self.device):
            self.network.eval()
            yield

    def saved_parameters(self) -> dict[str, paddle.Tensor]:
        """The network's weights, without those of a frozen biLM."""
        saves_bilm = self.settings.elmo_trainable or self.settings.random_weights
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if saves_bilm or not name.startswith(BILM)}

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.saved_parameters().items()}

    def set_weights(self, weights: dict[str, np.ndarray], source: str) -> None:
        elmo.set_weights(self.saved_parameters(), weights, source)

    def values(self) -> dict[str, Any]:
        """The content of config.json: everything that the weights depend on, except the training data and its order."""
        entries = {name: getattr(self, name) for name, part in self._declared().items() if not part.file}
        fingerprints = {name: dictionary.fingerprint for name, dictionary in self._dictionaries().items() if dictionary}
        values = {self.kind: dataclasses.asdict(self.settings), "dictionaries": fingerprints, **entries}
        if self.pretrained:
            values[ELMO] = {"name": self.pretrained.name, "fingerprint": self.pretrained.fingerprint}
        if self.vectors:
            file = {"file": f"{VECTORS}{self.vectors.suffix}", "limit": self.vectors.limit}
            values[VECTORS] = {**file, "fingerprint": self.vectors.fingerprint}
        return values

    def _dictionaries(self) -> dict[str, Any]:
        return {part.file: getattr(self, name) for name, part in self._declared().items() if part.file}

    def save(self, folder: str | Path) -> None:
        """Write all files, the weights last: a folder left by a killed process is not taken for a trained model."""
        folder = self.folder = Path(folder)
        sources = {}
        if self.pretrained and not self.pretrained.name:
            self.pretrained.check()
            sources = {f"{ELMO}/{name}": path for name, path in self.pretrained.files().items()}
        if self.vectors:
            disk.check_input(self.vectors.path, f"the word vectors of this {self.kind}")
            if WordVectors(self.vectors.path, self.vectors.limit).fingerprint != self.vectors.fingerprint:
                raise UserError(f"{self.vectors.path} has been replaced since this {self.kind} was built with it.")
            sources[f"{VECTORS}{self.vectors.suffix}"] = self.vectors.path
        (folder / WEIGHTS).unlink(missing_ok=True)
        (folder / STATE).unlink(missing_ok=True)
        before = checkpoint.load_config(folder) if (folder / "config.json").is_file() else {}
        checkpoint.save_config(folder, self.values())
        for name, dictionary in self._dictionaries().items():
            if dictionary:
                dictionary.save(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        for name, path in sources.items():
            disk.copy(path, folder / name)
        for name in _source_names(before) - sources.keys():
            (folder / name).unlink(missing_ok=True)
        self.save_card(folder)
        self.save_weights(folder)

    def save_card(self, folder: Path) -> None:
        if self.card:
            with disk.atomic_write(folder / CARD) as file:
                file.write(self.card)

    def save_weights(self, folder: Path) -> None:
        """Replace only the weights that `save` has written; if that fails, they are left as they were."""
        write_tensors(folder / WEIGHTS, self.weights())

    def _load(self, folder: Path) -> None:
        file, values = folder / "config.json", checkpoint.load_config(folder, f"a trained {self.kind}")
        if self.kind not in values:
            raise UserError(f"{folder} holds {_describe_content(values)}, expected a trained {self.kind}.")
        parts = {"settings": from_config(self.settings_type, values[self.kind], self.kind, file)}
        if entry := _source(values, ELMO, file):
            if entry["name"]:
                parts["pretrained"] = load_published(entry["name"], entry["fingerprint"])
            else:
                parts["pretrained"] = PretrainedBiLM.from_path(folder / ELMO)
            if parts["pretrained"].fingerprint != entry["fingerprint"]:
                raise UserError(f"{folder / ELMO} is not the ELMo that {folder} was trained with. {REMEDY}")
        if entry := _source(values, VECTORS, file):
            parts["vectors"] = vectors = WordVectors(folder / entry["file"], entry["limit"])
            if vectors.fingerprint != entry["fingerprint"]:
                raise UserError(f"{vectors.path} has changed since {folder} was trained with it. {REMEDY}")
        expected = values["dictionaries"] if isinstance(values.get("dictionaries"), dict) else {}
        for name, part in self._declared().items():
            if not part.file:
                parts[name] = values.get(name)
                is_missing = part.default is ... and not parts[name]  # such as no classes
                if is_missing or not isinstance(parts[name], part.kind):
                    raise UserError(f"{file}: {name} is {values.get(name, 'missing')!r:.80}. {REMEDY}")
            elif part.file in expected or part.default is ...:
                parts[name] = part.kind.from_file(folder / part.file)
                if parts[name].fingerprint != expected.get(part.file):
                    raise UserError(
                        f"{folder / part.file} is not the file that this {self.kind} was trained with. {REMEDY}"
                    )
        self._read = file, read_tensors(folder / WEIGHTS)
        self._build(parts)
        self.set_weights(self._read[1], f"{folder / WEIGHTS} and {file.name}")
        del self._read
        if (folder / CARD).is_file():
            with (folder / CARD).open(encoding="utf-8", errors="replace") as card:
                self.card = card.read(MAX_CARD)


def _source(values: Mapping, name: str, file: Path) -> Mapping | None:
    """The field of config.json that describes ELMo or the word vectors, if there is one. file: used in error messages."""
    if name not in values:
        return None
    entry = values[name] if isinstance(values[name], dict) else {}
    kinds = {"name": str | None} if name == ELMO else {"file": str, "limit": int | None}
    for key, kind in {**kinds, "fingerprint": str}.items():
        is_valid = key in entry and isinstance(entry[key], kind) and (key != "limit" or entry[key] != 0)
        names = {None, *published.table()} if key == "name" else _source_names(values) if key == "file" else None
        if not is_valid or (names is not None and entry[key] not in names):
            raise UserError(f"{file}: {name}.{key} is {entry.get(key, 'missing')!r:.80}. {REMEDY}")
    return entry


def _describe_content(values: Mapping) -> str:
    """Describe the model that a folder with this config.json holds."""
    kind = next((kind for kind in KINDS if kind in values), None)
    if kind is None:
        return "an ELMo" if "model" in values else "something else"
    return f"a trained {kind}, of elmo_tasks.{kind.capitalize()}"


def _source_names(values: Mapping) -> set[str]:
    """The names that `save` may have given to ELMo and word vectors in a folder with this config.json."""
    names = {f"{VECTORS}{suffix}" for suffix in WordVectors.SUFFIXES} if VECTORS in values else set()
    if ELMO in values and not values[ELMO]["name"]:
        names |= {f"{ELMO}/{name}" for name in PretrainedBiLM.FILES}
    return names


def check_model_folder(
    folder: Path, kind: str, overwrite: bool, resume: bool = False, interrupted: bool | None = None
) -> None:
    """Raise, before training, if `save_dir` cannot be written or holds another model, or nothing to resume.

    interrupted: whether there is an interrupted training (default: whether its state is in the folder).
    """
    disk.check_output("`save_dir`", folder / WEIGHTS)
    interrupted = (folder / STATE).exists() if interrupted is None else interrupted
    if resume and not interrupted:
        raise UserError(f"`resume`: `save_dir` {folder} holds no interrupted training. Leave it out.")
    if not (folder / "config.json").exists():
        if others := [*folder.glob(ELMO), *folder.glob(f"{VECTORS}.*")]:
            raise UserError(f"{others[0]} would be replaced: choose another `save_dir`, or rename it.")
        return
    if kind not in (values := checkpoint.load_config(folder)):
        raise UserError(f"`save_dir` {folder} holds {_describe_content(values)}: choose a different folder.")
    if not overwrite and not resume:
        what = f"an interrupted training of a {kind}: continue it with `resume=True`" if interrupted else f"a {kind}"
        raise UserError(f"`save_dir` {folder} already holds {what}, choose another, or add `overwrite=True`.")
