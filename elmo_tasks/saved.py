"""A trained model as a folder: its settings, its dictionaries, its weights, and where its biLM and word vectors are.

FOLDER/
  config.json       settings of the network, under the kind of the model; fingerprints of all it was trained with
  best.pdparams     the weights; a frozen biLM's are those of its own checkpoint. Written last
  vocab.txt ...     the dictionaries of the kind
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_tasks.pretrained import PretrainedBiLM
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
    pretrained: PretrainedBiLM | None
    vectors: WordVectors | None

    def saved_parameters(self) -> dict[str, paddle.Tensor]:
        """The weights without those of a frozen biLM, which are its checkpoint's."""
        owns_bilm = self.settings.elmo_trainable or self.settings.random_weights
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if owns_bilm or not name.startswith(BILM)}

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.saved_parameters().items()}

    def set_weights(self, weights: dict[str, np.ndarray], source: str) -> None:
        own = self.saved_parameters()
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
            values["elmo"] = {"path": self.pretrained.prefix, "fingerprint": self.pretrained.fingerprint}
        if self.vectors:
            file = {"path": str(self.vectors.path), "limit": self.vectors.limit}
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
        settings = settings_from_config(cls.settings_type, values[cls.kind], cls.kind, file)
        pretrained = _source(values.get("elmo"), folder, "--init_from_ckpt", init_from_ckpt, PretrainedBiLM.from_path)
        vectors = _source(values.get("word_vectors"), folder, "--word_vectors", word_vectors, WordVectors)
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


def _source(entry: Mapping | None, folder: Path, flag: str, moved: str | Path | None, load: Callable[..., Kind]):
    """What an entry of config.json names, loaded; `moved`: from there. It must have the same content. None without one."""
    if entry is None:
        if moved:
            raise UserError(f"{flag}: {folder} was trained without it, and would not read {moved}. Leave it out.")
        return None
    path, fingerprint, options = moved or entry["path"], entry["fingerprint"], set(entry) - {"path", "fingerprint"}
    try:
        source = load(path, **{name: entry[name] for name in options})
    except UserError as error:
        if moved:
            raise
        raise UserError(f"{error} If it has moved, give its new place by {flag}.") from error
    if source.fingerprint != fingerprint:
        raise UserError(
            f"{path} is not what {folder} was trained with: its content differs. Give that by {flag}, or train again."
        )
    return source


def check_model_folder(folder: Path, kind: str, overwrite: bool) -> None:
    """Refuse, before training, a --save_dir that cannot be written, or holds another model."""
    disk.check_output("--save_dir", folder / f"{WEIGHTS}.pdparams")
    if not (folder / "config.json").exists():
        return
    if kind not in checkpoint.load_config(folder):
        raise UserError(f"--save_dir {folder} holds another model: name a folder of the {kind}'s own.")
    if not overwrite:
        raise UserError(f"--save_dir {folder} holds a {kind} already: name another, or add --overwrite.")


def settings_from_config(kind: type[Kind], values: Any, name: str, source: Path) -> Kind:
    """A dataclass of numbers, texts and switches from the field `name` of config.json. source: that file, for messages.

    Its `choices`, if it has them, are the allowed values by field.
    """
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
    for field, allowed in getattr(kind, "choices", {}).items():
        if values[field] not in allowed:
            raise UserError(f"{source}: {name}.{field} is {values[field]!r:.80}, expected one of {allowed}.")
    return kind(**values)
