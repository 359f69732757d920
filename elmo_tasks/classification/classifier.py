"""A trained classifier on disk: the head, its encoders, how text becomes tokens for it.

FOLDER/
  config.json        {"classifier": ...}: tokeniser, classes, hidden size, whether it takes pairs, encoders, a probe
  head.pdparams      the head's weights
  words.pdparams     fine-tuned word vectors: "words", UTF-8 with "\\n" between them, and "rows"
  bilm/              a biLM that is not a checkpoint's: fine-tuned, or of random weights

The head takes for each encoder k the means of its L layers over a text's tokens, m (L, D), zeros for a text without any:

    v_k = gamma * sum_l softmax(s)_l (m_l - mean_l) / deviation_l     inputs.k.{mean,deviation}, inputs.k.mix.{scalars,gamma}
    v   = [v_0; v_1; ...]                                             (no mix, and no gamma, where L is 1)
    v   = [a; b; |a - b|; a * b]                                      if "pairs": a of the first text, b of the second
    v   = tanh(v W + b)                                               hidden.{weight,bias}, unless "hidden" is 0
    p   = softmax(v W + b)                                            output.{weight,bias}, in the order of "classes"

Heads of earlier versions have "polarity" in place of "classifier", no "classes" (they are CLASSES) and no "pairs" (false).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

import elmo
from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError, log
from elmo_tasks.classification.encoders import ENCODERS, Encoder
from elmo_tasks.classification.network import Head
from elmo_tasks.classification.scores import CLASSES
from elmo_tasks.classification.texts import read_lines, tokens_of

AT_ONCE = 4096  # lines that are predicted together
PROBE = "it 's a moving film with a perfect ending , but its plot is silly ."  # its prediction identifies the encoders
PROBES = {"zh": "这 家 酒店 的 服务 很 好 ， 但是 房间 太 小 ， 早餐 也 一般 。"}  # for other languages


@dataclass
class Classifier:
    """Predicts the class of any text, or of any pair of texts."""

    head: Head
    encoders: Sequence[Encoder]
    tokenise: str
    max_seq_len: int
    classes: Sequence[str] = CLASSES

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(n, classes) of n texts; of pairs first the tokens of all first texts, then those of all second ones."""
        return self.head.probabilities([encoder.means(encoder.read(sentences)) for encoder in self.encoders])

    def predict(self, path: Path, as_json: bool = False) -> Iterator[str]:
        """For every line of a file, `-` for standard input: its class, the probability of that and the line, separated by
        tabs; or all of it as a JSON object. Of pairs, a line is two texts separated by a tab.
        """
        numbered = enumerate(read_lines(path), 1)
        while part := list(islice(numbered, AT_ONCE)):
            lines = [line.strip("\r\n" if self.head.pairs else None) for _, line in part]
            texts = [line.split("\t") if self.head.pairs else [line] for line in lines]
            for (number, _), sides in zip(part, texts, strict=True):
                if self.head.pairs and len(sides) != 2:
                    raise UserError(f"{path}:{number}: {len(sides)} columns, expected two texts separated by a tab.")
            sides = chain.from_iterable(zip(*texts, strict=True))
            found = self.probabilities(tokens_of(list(sides), self.tokenise, self.max_seq_len, path))
            for line, text, row in zip(lines, texts, found, strict=True):
                if as_json:
                    yield self._as_json(text, row)
                else:
                    yield f"{self.classes[row.argmax()]}\t{row.max():.4f}\t{line}"

    def _as_json(self, text: Sequence[str], row: np.ndarray) -> str:
        values = dict(zip(("text", "text2"), text, strict=False)) | {"label": self.classes[row.argmax()]}
        values["probabilities"] = dict(zip(self.classes, row.astype(float).round(6).tolist(), strict=True))
        return json.dumps(values, ensure_ascii=False)

    def _probe(self) -> np.ndarray:
        """(classes,) probabilities of a text that is always the same."""
        tokens = PROBES.get(self.tokenise, PROBE).split()
        return self.probabilities([tokens, tokens[::2]] if self.head.pairs else [tokens])[0]

    def save(self, folder: Path) -> None:
        settings = {
            "tokenise": self.tokenise,
            "max_seq_len": self.max_seq_len,
            "classes": list(self.classes),
            "pairs": self.head.pairs,
            "hidden": self.head.hidden.weight.shape[1] if self.head.hidden else 0,
            "encoders": [encoder.save(folder) for encoder in self.encoders],
            "probe": self._probe().tolist(),
        }
        checkpoint.save(folder / "head", {name: weight.numpy() for name, weight in self.head.state_dict().items()})
        checkpoint.save_config(folder, {"classifier": settings})
        log.info(f"saved         {folder}; predict with --load_head={folder} --predict=FILE")

    @classmethod
    def load(cls, folder: Path, sources: Mapping[str, Path | None] | None = None) -> "Classifier":
        """sources: the file or checkpoint of an encoder, by its name, if it has moved."""
        sources, values = sources or {}, checkpoint.load_config(folder, "a head that --save_head has written")
        saved = values.get("classifier", values.get("polarity"))
        if saved is None:
            raise UserError(f"--load_head {folder}: this is not a folder of --save_head.")
        try:
            read = {one["encoder"] for one in saved["encoders"] if not {**one}.get("own")}
            if unread := [path for name, path in sources.items() if path and name not in read]:
                raise UserError(f"--load_head {folder}: this classifier does not read {unread[0]}. Leave it out.")
            encoders = [
                ENCODERS[one["encoder"]].load(one, folder, sources.get(one["encoder"])) for one in saved["encoders"]
            ]
            classes = saved.get("classes", CLASSES)
            shapes = [encoder.shape for encoder in encoders]
            head = Head(shapes, saved["hidden"], len(classes), saved.get("pairs", False))
            elmo.set_weights(head, checkpoint.load_params(folder / "head"), str(folder / "head"))
            classifier = cls(head, encoders, saved["tokenise"], saved["max_seq_len"], classes)
            is_the_same = np.allclose(classifier._probe(), saved["probe"], atol=1e-3)
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
