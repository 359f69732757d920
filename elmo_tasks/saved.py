"""A trained model as a folder: settings, dictionaries, weights, and where its biLM and word vectors are.

FOLDER/
  config.json       settings of the network, under the model's kind; fingerprints of all it was trained with
  best.pdparams     the weights, except those of a frozen biLM, which are in its checkpoint. Written last
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

BILM = "elmo.bilm."  # prefix of the biLM's weights
WEIGHTS = "best"
Kind = TypeVar("Kind")


class TrainedModel:
    """A network with everything it was trained with. Subclasses provide:

    kind: its key in config.json and its name in messages. settings_type: the dataclass of its settings.
    dictionaries(): its files by name, None for an absent one; if their lines changed, so would the predictions.
    config(): further values of config.json.
    from_folder(folder, settings, values, pretrained=, vectors=): rebuild the model, with untrained weights.
    """

    kind: ClassVar[str]
    settings_type: ClassVar[type]
    settings: Any
    network: paddle.nn.Layer
    pretrained: PretrainedBiLM | None
    vectors: WordVectors | None

    def saved_parameters(self) -> dict[str, paddle.Tensor]:
        """The network's weights, without those of a frozen biLM."""
        saves_bilm = self.settings.elmo_trainable or self.settings.random_weights
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if saves_bilm or not name.startswith(BILM)}

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.saved_parameters().items()}

    def set_weights(self, weights: dict[str, np.ndarray], source: str) -> None:
        parameters = self.saved_parameters()
        checkpoint.match({name: parameter.shape for name, parameter in parameters.items()}, weights, source)
        for name, parameter in parameters.items():
            parameter.set_value(weights[name])

    def save(self, folder: str | Path) -> None:
        """Write all files, the weights last: a folder left by a killed process is not taken for a trained model."""
        folder = Path(folder)
        (folder / f"{WEIGHTS}.pdparams").unlink(missing_ok=True)
        dictionaries = self.dictionaries()
        values = {
            self.kind: dataclasses.asdict(self.settings),
            "dictionaries": {name: dictionary.fingerprint for name, dictionary in dictionaries.items() if dictionary},
            **self.config(),
        }
        if self.pretrained:
            values["elmo"] = {"path": self.pretrained.prefix, "fingerprint": self.pretrained.fingerprint}
        if self.vectors:
            file = {"path": str(self.vectors.path), "limit": self.vectors.limit}
            values["word_vectors"] = {**file, "fingerprint": self.vectors.fingerprint}
        checkpoint.save_config(folder, values)
        for name, dictionary in dictionaries.items():
            if dictionary:
                dictionary.save(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        self.save_weights(folder)

    def save_weights(self, folder: Path) -> None:
        """Replace only the weights that `save` has written; if that fails, they are left as they were."""
        checkpoint.save(folder / WEIGHTS, self.weights())

    @classmethod
    def load(
        cls: type[Kind], folder: str | Path, init_from_ckpt: str | None = None, word_vectors: str | Path | None = None
    ) -> Kind:
        """Load a saved model. init_from_ckpt, word_vectors: their new locations, if they have moved."""
        folder = Path(folder)
        file, values = folder / "config.json", checkpoint.load_config(folder, f"a trained {cls.kind}")
        if cls.kind not in values:
            raise UserError(f"{file} has no field {cls.kind!r}: expected a folder with a trained {cls.kind}.")
        settings = settings_from_config(cls.settings_type, values[cls.kind], cls.kind, file)
        bilm = _source(values.get("elmo"), folder, "--init_from_ckpt", init_from_ckpt, PretrainedBiLM.from_path)
        vectors = _source(values.get("word_vectors"), folder, "--word_vectors", word_vectors, WordVectors)
        model = cls.from_folder(folder, settings, values, pretrained=bilm, vectors=vectors)
        expected = values["dictionaries"] if isinstance(values.get("dictionaries"), dict) else {}
        for name, dictionary in model.dictionaries().items():
            if (dictionary and dictionary.fingerprint) != expected.get(name):
                raise UserError(
                    f"{folder / name} is missing, or is not the file that this {cls.kind} was trained with: copy the folder "
                    "again, or train again."
                )
        model.set_weights(checkpoint.load_params(folder / WEIGHTS), str(folder / WEIGHTS))
        return model


def _source(entry: Mapping | None, folder: Path, flag: str, moved: str | Path | None, load: Callable[..., Kind]):
    """Load what an entry of config.json refers to, from `moved` if given; None without an entry. Raise if it has changed."""
    if entry is None:
        if moved:
            raise UserError(f"{flag}: {folder} was trained without it. Leave it out.")
        return None
    path, options = moved or entry["path"], entry.keys() - {"path", "fingerprint"}
    try:
        source = load(path, **{name: entry[name] for name in options})
    except UserError as error:
        if moved:
            raise
        raise UserError(f"{error} If it has moved, give its new location with {flag}.") from error
    if source.fingerprint != entry["fingerprint"]:
        raise UserError(
            f"{path} has changed since {folder} was trained with it, or is another file. Give the right one with {flag}, "
            "or train again."
        )
    return source


def check_model_folder(folder: Path, kind: str, overwrite: bool) -> None:
    """Raise, before training, if --save_dir cannot be written or holds another model."""
    disk.check_output("--save_dir", folder / f"{WEIGHTS}.pdparams")
    if not (folder / "config.json").exists():
        return
    if kind not in checkpoint.load_config(folder):
        raise UserError(f"--save_dir {folder} holds another model: choose a different folder.")
    if not overwrite:
        raise UserError(f"--save_dir {folder} already holds a {kind}: choose another, or add --overwrite.")


def settings_from_config(kind: type[Kind], values: Any, name: str, source: Path) -> Kind:
    """Validate the field `name` of config.json as a settings dataclass, of numbers, strings and switches.

    kind: the dataclass. Its `choices`, if any, list the allowed values of fields. source: the file, for messages.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    values = values if isinstance(values, dict) else {}
    if wrong := sorted(defaults.keys() ^ values.keys()):
        raise UserError(f"{source}: {name}.{wrong[0]} is {'missing' if wrong[0] in defaults else 'unknown'}.")
    for field, default in defaults.items():
        value, is_number = values[field], type(default) in (int, float)
        least, limit = int(type(default) is int and default > 0), 1 if field.endswith("dropout") else 2**31
        right_type = type(value) in ((int, float) if type(default) is float else (type(default),))
        if not right_type or (is_number and not least <= value < limit):
            raise UserError(f"{source}: {name}.{field} is {value!r:.80}, expected something like {default!r}.")
    for field, choices in getattr(kind, "choices", {}).items():
        if values[field] not in choices:
            raise UserError(f"{source}: {name}.{field} is {values[field]!r:.80}, expected one of {choices}.")
    return kind(**values)
