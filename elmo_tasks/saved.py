"""A trained model as a folder: its settings, its dictionaries, its weights, and where its biLM and word vectors are.

FOLDER/
  config.json       settings of the network, under the kind of the model; fingerprints of all it was trained with
  best.pdparams     the weights; a frozen biLM's are those of its own checkpoint. Written last
  vocab.txt ...     the dictionaries of the kind
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_tasks.pretrained import Pretrained
from elmo_tasks.word_vectors import WordVectors

BILM = "elmo.bilm."  # begins the names of the biLM's weights
WEIGHTS = "best"
Kind = TypeVar("Kind")


class TrainedModel:
    """A network and all that it was trained with. What a subclass has:

    kind: its key in config.json and its name in messages. settings_type: the dataclass of its network's settings.
    dictionaries(): its files by name, None for one that it does not have; a change of their lines would change the answers.
    config(): further values of config.json.
    from_folder(folder, settings, values, pretrained=, vectors=): the model again, with untrained weights.
    """

    kind: ClassVar[str]
    settings_type: ClassVar[type]
    settings: Any
    network: paddle.nn.Layer
    pretrained: Pretrained | None
    vectors: WordVectors | None

    def own_weights(self) -> dict[str, paddle.Tensor]:
        """The weights without those of a frozen biLM, which are its checkpoint's."""
        owns_bilm = self.settings.elmo_trainable or self.settings.random_weights
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if owns_bilm or not name.startswith(BILM)}

    def mixes(self) -> dict[str, dict]:
        """The weights of ELMo's layers at each place where the network mixes them."""
        elmo = self.network.elmo
        places = self.network.elmo_at[: len(elmo.mixes)] if elmo else []
        return {where: elmo.mix_weights(number) for number, where in enumerate(places)}

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.own_weights().items()}

    def set_weights(self, weights: dict[str, np.ndarray], source: str) -> None:
        own = self.own_weights()
        checkpoint.match({name: weight.shape for name, weight in own.items()}, weights, source)
        for name, weight in own.items():
            weight.set_value(weights[name])

    def save(self, folder: str | Path) -> None:
        """Write all files, the weights last: after a kill, the folder is not taken for a trained model."""
        folder = Path(folder)
        (folder / f"{WEIGHTS}.pdparams").unlink(missing_ok=True)
        dictionaries = self.dictionaries()
        values = {
            self.kind: dataclasses.asdict(self.settings),
            "dictionaries": {name: one.fingerprint for name, one in dictionaries.items() if one},
            **self.config(),
        }
        if self.pretrained:
            values["elmo"] = {"checkpoint": self.pretrained.prefix, "fingerprint": self.pretrained.fingerprint}
        if self.vectors:
            file = {"file": str(self.vectors.path), "limit": self.vectors.limit}
            values["word_vectors"] = {**file, "fingerprint": self.vectors.fingerprint}
        checkpoint.save_config(folder, values)
        for name, dictionary in dictionaries.items():
            if dictionary is None:
                (folder / name).unlink(missing_ok=True)
                continue
            dictionary.save(folder / name)
        self.save_weights(folder)

    def save_weights(self, folder: Path) -> None:
        """Write the weights alone, in place of those that `save` has written, which a failure leaves."""
        checkpoint.save(folder / WEIGHTS, self.weights())

    @classmethod
    def load(
        cls: type[Kind], folder: str | Path, init_from_ckpt: str | None = None, word_vectors: str | Path | None = None
    ) -> Kind:
        """Read what `save` has written. init_from_ckpt, word_vectors: where they are, if they have moved."""
        folder = Path(folder)
        file, values = folder / "config.json", checkpoint.load_config(folder, f"a trained {cls.kind}")
        if cls.kind not in values:
            raise UserError(f"{file} has no field {cls.kind!r}: expected a folder with a trained {cls.kind}.")
        settings = checked_settings(cls.settings_type, values[cls.kind], cls.kind, file)
        pretrained, vectors = _sources(values, file, init_from_ckpt, word_vectors)
        model = cls.from_folder(folder, settings, values, pretrained=pretrained, vectors=vectors)
        expected = values["dictionaries"] if isinstance(values.get("dictionaries"), dict) else {}
        for name, dictionary in model.dictionaries().items():
            if (dictionary and dictionary.fingerprint) != expected.get(name):
                raise UserError(
                    f"{folder / name} is missing, or is not the file that this {cls.kind} was trained with: copy the folder "
                    "again as training has written it, or train again."
                )
        model.set_weights(checkpoint.load_params(folder / WEIGHTS), str(folder / WEIGHTS))
        return model


def _sources(
    values: Mapping, file: Path, init_from_ckpt: str | None, word_vectors: str | Path | None
) -> tuple[Pretrained | None, WordVectors | None]:
    """The biLM and the word vectors that config.json names, or those that have moved; they must have the same content."""
    pretrained = vectors = None
    for name, moved in (("elmo", init_from_ckpt), ("word_vectors", word_vectors)):
        if moved and name not in values:
            flag = "init_from_ckpt" if name == "elmo" else name
            raise UserError(
                f"--{flag}: {file.parent} was trained without it, and would not read {moved}. Leave it out."
            )
    if "elmo" in values:
        with hint_if_moved("--init_from_ckpt", init_from_ckpt):
            pretrained = Pretrained.of(init_from_ckpt or _field(values, "elmo", "checkpoint", file))
        if pretrained.fingerprint != _field(values, "elmo", "fingerprint", file):
            raise UserError(
                f"{pretrained.prefix} is not the ELMo that {file.parent} was trained with: its weights differ. Give that "
                "one by --init_from_ckpt, or train again."
            )
    if "word_vectors" in values:
        with hint_if_moved("--word_vectors", word_vectors):
            path = word_vectors or _field(values, "word_vectors", "file", file)
            vectors = WordVectors(path, values["word_vectors"].get("limit"))
        if vectors.fingerprint != _field(values, "word_vectors", "fingerprint", file):
            raise UserError(f"{vectors.path} has other word vectors than those that {file.parent} was trained with.")
    return pretrained, vectors


def _field(values: Mapping, name: str, field: str, file: Path) -> str:
    value = values[name].get(field) if isinstance(values[name], dict) else None
    if not isinstance(value, str):
        raise UserError(f"{file}: {name}.{field} is {value!r:.80}, expected text.")
    return value


@contextlib.contextmanager
def hint_if_moved(flag: str, moved: object) -> Iterator[None]:
    """Name the flag for a file that may have moved since training, unless the user has given it."""
    try:
        yield
    except UserError as error:
        if moved:
            raise
        raise UserError(f"{error} If it has moved, give its new place by {flag}.") from error


def check_model_folder(folder: Path, kind: str, overwrite: bool) -> None:
    """Refuse, before training, a --save_dir that cannot be written, or holds another model."""
    disk.check_output("--save_dir", folder / f"{WEIGHTS}.pdparams")
    if not (folder / "config.json").exists():
        return
    if kind not in checkpoint.load_config(folder):
        raise UserError(f"--save_dir {folder} holds another model: name a folder of the {kind}'s own.")
    if not overwrite:
        raise UserError(f"--save_dir {folder} holds a {kind} already: name another, or add --overwrite.")


def checked_settings(kind: type[Kind], values: Any, name: str, source: Path) -> Kind:
    """A dataclass of numbers, texts and switches from the field `name` of config.json. source: that file, for messages."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    values = values if isinstance(values, dict) else {}
    if wrong := sorted(defaults.keys() ^ values.keys()):
        raise UserError(f"{source}: {name}.{wrong[0]} is {'missing' if wrong[0] in defaults else 'not known'}.")
    for field, default in defaults.items():
        value, number = values[field], type(default) in (int, float)
        least, limit = int(type(default) is int and default > 0), 1 if field.endswith("dropout") else 2**31
        right_type = type(value) in ((int, float) if type(default) is float else (type(default),))
        if not right_type or (number and not least <= value < limit):
            raise UserError(f"{source}: {name}.{field} is {value!r:.80}, expected something like {default!r}.")
    return kind(**values)
