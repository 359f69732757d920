"""What a trained model reads from elsewhere, a biLM's checkpoint and a file of word vectors, and the weights of its own."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError, hint_if_moved
from elmo_core.machine.runtime import paddle
from elmo_core.weights import model_files
from elmo_tasks.elmo_input import Pretrained
from elmo_tasks.word_vectors import WordVectors

BILM = "encoder.elmo.bilm."  # begins the names of the biLM's weights
FLAGS = {
    "elmo": "--pretrain_elmo_model_path (of run_tag.py: --init_from_ckpt)",
    "vectors": "--word_vectors",
}  # by the names of what they give, in config.json


class OwnWeights:
    """The weights of a `network` that are its own: without those of a frozen biLM, which are its checkpoint's."""

    owns_bilm = False  # it was fine-tuned, or is random

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.own().items()}

    def save_weights(self, folder: Path) -> None:
        """Write the weights alone, in place of those that `save` has written, which a failure leaves."""
        checkpoint.save(folder / "best", self.weights())

    def set_weights(self, weights: dict[str, np.ndarray], source: str) -> None:
        own = self.own()
        checkpoint.match({name: weight.shape for name, weight in own.items()}, weights, source)
        for name, weight in own.items():
            weight.set_value(weights[name])

    def own(self) -> dict[str, paddle.Tensor]:
        weights = self.network.state_dict().items()
        return {name: weight for name, weight in weights if self.owns_bilm or not name.startswith(BILM)}


def name_sources(elmo: Pretrained | None, vectors: WordVectors | None) -> dict[str, dict]:
    """What config.json says of them, so that `find_sources` finds the same ones again."""
    values = {}
    if elmo:
        values["elmo"] = {"checkpoint": elmo.prefix, "fingerprint": elmo.fingerprint}
    if vectors:
        values["vectors"] = {"file": str(vectors.path), "limit": vectors.limit, "fingerprint": vectors.fingerprint}
    return values


def find_sources(
    values: Mapping, file: Path, use_elmo: bool, elmo: str | None, vectors: str | Path | None
) -> tuple[Pretrained | None, WordVectors | None]:
    """The biLM and word vectors that `values` of config.json name. elmo, vectors: where they are, if they have moved."""
    for name, given in (("elmo", elmo), ("vectors", vectors)):
        if given and name not in values:
            raise UserError(
                f"{FLAGS[name]}: {file.parent} was trained without it, and would not read {given}. Leave it out."
            )
    found = _elmo(values.get("elmo"), file, elmo) if use_elmo else None
    return found, _vectors(values["vectors"], file, vectors) if "vectors" in values else None


def _elmo(values: object, file: Path, moved_to: str | None) -> Pretrained:
    if not isinstance(values, dict) or not all(isinstance(values.get(k), str) for k in ("checkpoint", "fingerprint")):
        raise UserError(f"{file}: elmo is {values!r:.80}, expected a checkpoint and the fingerprint of its weights.")
    with hint_if_moved(FLAGS["elmo"], moved_to):
        elmo = Pretrained.of(model_files.resolve(moved_to or values["checkpoint"]))
    if elmo.fingerprint != values["fingerprint"]:
        raise UserError(
            f"{elmo.prefix} is not the ELMo that {file.parent} was trained with: its weights differ. Give that one "
            f"by {FLAGS['elmo']}, or train again."
        )
    return elmo


def _vectors(values: object, file: Path, moved_to: str | Path | None) -> WordVectors:
    if not isinstance(values, dict) or not all(isinstance(values.get(k), str) for k in ("file", "fingerprint")):
        raise UserError(f"{file}: vectors is {values!r:.80}, expected a file and its fingerprint.")
    with hint_if_moved(FLAGS["vectors"], moved_to):
        vectors = WordVectors(moved_to or values["file"], values.get("limit"))
    if vectors.fingerprint != values["fingerprint"]:
        raise UserError(f"{vectors.path} has other word vectors than those that {file.parent} was trained with.")
    return vectors
