"""The pretrained biLM that a task reads, and the settings of ELMo that all tasks have."""

from dataclasses import dataclass
from pathlib import Path

import elmo
from elmo_core.files import checkpoint
from elmo_core.machine.runtime import paddle
from elmo_core.weights import model_files


@dataclass(frozen=True)
class PretrainedBiLM:
    """A biLM's checkpoint, identified by its weights: others may have its name by the time a tagger is loaded."""

    prefix: str
    fingerprint: str  # SHA-1 of the weights

    @classmethod
    def from_path(cls, path: str | Path) -> "PretrainedBiLM":
        """path: a prefix, a file, a folder, whose latest checkpoint is chosen once and for all, or a model's name."""
        prefix = model_files.resolve(path).resolve()
        return cls(str(prefix), checkpoint.fingerprint(checkpoint.load_params(prefix)))


@dataclass(frozen=True)
class ELMoSettings:
    """How a task's network reads ELMo: see `elmo.ELMo`."""

    layers: str = "concat"
    elmo_dropout: float = 0.5
    elmo_l2_coef: float = 0.001
    elmo_trainable: bool = False
    random_weights: str = ""  # all, or lstm: weights that are random and not the checkpoint's

    def layer(self, pretrained: PretrainedBiLM, n_mixes: int) -> elmo.ELMo:
        return elmo.ELMo(
            pretrained.prefix,
            n_mixes,
            self.elmo_trainable,
            self.elmo_dropout,
            l2_coef=self.elmo_l2_coef,
            layers=self.layers,
        )


def randomise(bilm: elmo.BiLM, what: str, seed: int) -> None:
    """Give the biLM ("all"), or only its LSTMs ("lstm"), the random weights that pretraining starts from."""
    paddle.seed(seed)
    fresh = elmo.BiLM(bilm.config, head=False).state_dict()
    for name, weight in bilm.state_dict().items():
        if what == "all" or "_lstm." in name:
            weight.set_value(fresh[name])
