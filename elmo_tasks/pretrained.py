"""The pretrained biLM of a task's network, and the ELMo settings that the tasks share."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import elmo
from elmo_core.config import ELMoConfig
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.settings import setting
from elmo_core.text.tokens import Vocabulary, digest
from elmo_core.weights import checkpoint, model_files, published


@dataclass
class PretrainedBiLM:
    """A biLM's checkpoint, with a fingerprint of all that its vectors depend on: the files may change.

    loaded: configuration, weights and vocabulary, until the first `model` takes them.
    """

    FILES: ClassVar = checkpoint.MODEL_FILES  # of a copy
    folder: str
    fingerprint: str  # SHA-1 of configuration, weights, vocabulary and alphabet
    name: str | None = None  # of a published model
    loaded: tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None] | None = None

    @classmethod
    def from_path(cls, path: str | Path) -> "PretrainedBiLM":
        """Load a model, given as for `model_files.resolve_name`."""
        folder, config, weights, vocabulary = model_files.read_model(model_files.resolve_name(path).resolve())
        parts = [checkpoint.fingerprint(weights), json.dumps(config.to_dict(), sort_keys=True)]
        if vocabulary:
            parts += [vocabulary.fingerprint, json.dumps(getattr(vocabulary.alphabet, "ids", {}), sort_keys=True)]
        return cls(str(folder), digest(parts), published.name_of(folder), (config, weights, vocabulary))

    def __reduce__(self):
        if self.name:
            return load_published, (self.name, self.fingerprint)
        return PretrainedBiLM, (self.folder, self.fingerprint, None, self.loaded)

    def model(self) -> tuple[elmo.BiLM, Vocabulary | None]:
        """Build the biLM; return it with its vocabulary."""
        if self.loaded is None:
            return elmo.load_bilm(self.folder)
        (config, weights, vocabulary), self.loaded = self.loaded, None
        return elmo.make_bilm(config, weights, self.folder), vocabulary

    def check(self) -> None:
        """Raise if the files have changed, or are gone."""
        if self.from_path(self.folder).fingerprint != self.fingerprint:
            raise UserError(f"{self.folder} has been replaced since this model was built with it. Train again.")

    def files(self) -> dict[str, Path]:
        """The checkpoint's existing files by the names of FILES."""
        paths = {name: Path(self.folder, name) for name in self.FILES}
        return {name: path for name, path in paths.items() if path.exists()}


def load_published(name: str, fingerprint: str) -> PretrainedBiLM:
    """Load a published model, which must be the same as elsewhere."""
    model = PretrainedBiLM.from_path(published.install(name))
    if model.fingerprint != fingerprint:
        raise UserError(f"{name} is not the ELMo of this model. Install the same version of it, or train again.")
    return model


@dataclass(frozen=True)
class ELMoSettings:
    """A network's ELMo settings, as `elmo.ELMo` takes them."""

    layers: str = setting(
        "concat",
        "ELMo's layers: concat or mix, of all layers or of some, as in concat:0,1; average; top; or a layer's number",
        needs="elmo",
    )
    elmo_dropout: float = setting(0.5, "dropout on ELMo's vectors", below=1, needs="elmo")
    elmo_l2_coef: float = setting(0.001, "penalty on the weights of mixed layers", needs="layers=mix")
    elmo_trainable: bool = setting(False, "fine-tune the biLM", needs="elmo")
    random_weights: str = setting(
        "", "ablation: re-initialise all weights, or only the LSTMs", choices=("", "all", "lstm"), needs="elmo"
    )

    def layer(self, pretrained: PretrainedBiLM, n_mixes: int) -> elmo.ELMo:
        more = {"l2_coef": self.elmo_l2_coef, "layers": self.layers}
        return elmo.ELMo(pretrained.model(), n_mixes, self.elmo_trainable, self.elmo_dropout, **more)


def randomise(bilm: elmo.BiLM, what: str, seed: int) -> None:
    """Reinitialise the biLM ("all") or only its LSTMs ("lstm"), as before pretraining."""
    paddle.seed(seed)
    fresh = elmo.weights_of(elmo.BiLM(bilm.config, softmax=False))
    chosen = {name: weight for name, weight in bilm.state_dict().items() if what == "all" or "_lstm." in name}
    elmo.set_weights(chosen, {name: fresh[name] for name in chosen}, "random weights")
