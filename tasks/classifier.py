"""A trained classifier on disk: the head, its encoders, how text becomes tokens for it.

FOLDER/
  config.json        {"polarity": ...}: tokeniser, encoders, a probe
  head.pdparams      the head
  words.pdparams     fine-tuned word vectors
  bilm/              a biLM that is not a checkpoint's: fine-tuned, or of random weights
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import elmo
from elmo_core import checkpoint
from elmo_core.runtime import UserError, log
from tasks.bow import Head
from tasks.encoders import ENCODERS, Encoder
from tasks.polarity import read_lines, tokens_of
from tasks.scores import CLASSES

AT_ONCE = 4096  # lines that are predicted together
PROBE = "it 's a moving film with a perfect ending , but its plot is silly ."  # its prediction identifies the encoders


@dataclass
class Classifier:
    """Predicts the class of any text."""

    head: Head
    encoders: Sequence[Encoder]
    tokenise: str
    max_seq_len: int

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(n, classes)"""
        return self.head.probabilities([encoder.means(encoder.read(sentences)) for encoder in self.encoders])

    def predict(self, path: Path) -> Iterator[str]:
        """For every line of the file its class, the probability of that and the line, separated by tabs."""
        lines = read_lines(path)
        for begin in range(0, len(lines), AT_ONCE):
            part = lines[begin : begin + AT_ONCE]
            found = self.probabilities(tokens_of(part, self.tokenise, self.max_seq_len, path))
            for line, row in zip(part, found, strict=True):
                yield f"{CLASSES[row.argmax()]}\t{row.max():.4f}\t{line.strip()}"

    def save(self, folder: Path) -> None:
        settings = {
            "tokenise": self.tokenise,
            "max_seq_len": self.max_seq_len,
            "hidden": self.head.hidden.weight.shape[1] if self.head.hidden else 0,
            "encoders": [encoder.save(folder) for encoder in self.encoders],
            "probe": self.probabilities([PROBE.split()])[0].tolist(),
        }
        checkpoint.save(folder / "head", {name: weight.numpy() for name, weight in self.head.state_dict().items()})
        checkpoint.save_config(folder, {"polarity": settings})
        log.info(f"saved         {folder}; predict with --load_head={folder} --predict=FILE")

    @classmethod
    def load(cls, folder: Path, sources: Mapping[str, Path | None]) -> "Classifier":
        """sources: the file or checkpoint of an encoder, by its name, if it has moved."""
        saved = checkpoint.load_config(folder).get("polarity")
        if saved is None:
            raise UserError(f"--load_head {folder}: this is not a folder of --save_head.")
        try:
            encoders = [
                ENCODERS[one["encoder"]].load(one, folder, sources.get(one["encoder"])) for one in saved["encoders"]
            ]
            head = Head([encoder.shape for encoder in encoders], saved["hidden"])
            elmo.set_weights(head, checkpoint.load_params(folder / "head"), str(folder / "head"))
            classifier = cls(head, encoders, saved["tokenise"], saved["max_seq_len"])
            is_the_same = np.allclose(classifier.probabilities([PROBE.split()])[0], saved["probe"], atol=1e-3)
            tokens_of([""], classifier.tokenise, classifier.max_seq_len, folder)  # as `predict` will
        except UserError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{folder / 'config.json'} is not as --save_head wrote it ({type(error).__name__}: {error}). Copy the "
                "original back, or save the head again."
            ) from error
        if not is_the_same:
            raise UserError(
                f"--load_head {folder}: the head does not predict what it predicted when it was saved. These are not the "
                f"vectors that it was trained with: {', '.join(map(str, saved['encoders']))}."
            )
        return classifier
