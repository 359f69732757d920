"""A trained classifier on disk: head, encoders and tokeniser.

FOLDER/
  config.json        {"classifier": ...}: language, classes, hidden size, whether it takes pairs, encoders, a probe
  head.pdparams      the head's weights
  words.pdparams     fine-tuned word vectors: "words", UTF-8 with "\\n" between them, and "rows"
  bilm/              a biLM of its own: fine-tuned, or with random weights

For each encoder k, the head takes the mean of each layer over the tokens, m (L, D); zeros for an empty text:

    v_k = gamma * sum_l softmax(s)_l (m_l - mean_l) / deviation_l     inputs.k.{mean,deviation}, inputs.k.mix.{scalars,gamma}
    v   = [v_0; v_1; ...]                                             (no mix, and no gamma, where L is 1)
    v   = [a; b; |a - b|; a * b]                                      if "pairs": a of the first text, b of the second
    v   = tanh(v W + b)                                               hidden.{weight,bias}, unless "hidden" is 0
    p   = softmax(v W + b)                                            output.{weight,bias}, in the order of "classes"
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

import elmo
from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError, log
from elmo_tasks.classification.encoders import ENCODERS, Encoder
from elmo_tasks.classification.network import Head
from elmo_tasks.classification.scores import Results
from elmo_tasks.classification.texts import Texts, as_texts, read_known, tokenised

LINES_PER_BATCH = 4096  # that are predicted together
PROBE = "it 's a moving film with a perfect ending , but its plot is silly ."  # its prediction identifies the encoders
PROBES = {"zh": "这 家 酒店 的 服务 很 好 ， 但是 房间 太 小 ， 早餐 也 一般 。"}  # for other languages


@dataclass
class Classifier:
    """Predicts the class of any text, or of any pair of texts."""

    head: Head
    encoders: Sequence[Encoder]
    lang: str
    max_seq_len: int
    classes: Sequence[str]

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(n, classes) of n texts; of pairs first the tokens of all first texts, then those of all second ones."""
        return self.head.probabilities([encoder.means(encoder.prepare(sentences)) for encoder in self.encoders])

    def predict(self, lines: Iterable[str], source: str | Path, as_json: bool = False) -> Iterator[str]:
        """For every line: its class, the probability of that and the line, separated by tabs; or all of it as a JSON
        object. Of pairs, a line is two texts separated by a tab. source: where they come from, for messages.
        """
        numbered = enumerate(lines, 1)
        while part := list(islice(numbered, LINES_PER_BATCH)):
            lines = [line.strip("\r\n" if self.head.pairs else None) for _, line in part]
            texts = [line.split("\t") if self.head.pairs else [line] for line in lines]
            for (number, _), sides in zip(part, texts, strict=True):
                if self.head.pairs and len(sides) != 2:
                    raise UserError(f"{source}:{number}: {len(sides)} columns, expected two texts separated by a tab.")
            sides = chain.from_iterable(zip(*texts, strict=True))
            found = self.probabilities(tokenised(list(sides), self.lang, self.max_seq_len, source))
            for line, text, row in zip(lines, texts, found, strict=True):
                if as_json:
                    yield self._as_json(text, row)
                else:
                    yield f"{self.classes[row.argmax()]}\t{row.max():.4f}\t{line}"

    def _as_json(self, text: Sequence[str], row: np.ndarray) -> str:
        values = dict(zip(("text", "text2"), text, strict=False)) | {"label": self.classes[row.argmax()]}
        values["probabilities"] = dict(zip(self.classes, row.astype(float).round(6).tolist(), strict=True))
        return json.dumps(values, ensure_ascii=False)

    def evaluate(self, path: Path, columns: Sequence[str] | None) -> tuple[Results, Texts]:
        """The predictions for a file of labelled texts."""
        examples = read_known(path, columns, self.classes, self.head.pairs)
        data = as_texts(examples, self.classes, self.lang, self.max_seq_len, path)
        probabilities = self.probabilities(data.sentences)
        return Results.of(data.identity, np.arange(len(data)), data.labels, probabilities, self.classes), data

    def _probe(self) -> np.ndarray:
        """(classes,) probabilities of a text that is always the same."""
        tokens = PROBES.get(self.lang, PROBE).split()
        return self.probabilities([tokens, tokens[::2]] if self.head.pairs else [tokens])[0]

    def save(self, folder: Path) -> None:
        """Write all files, the head last, so that a partial save is not taken for a classifier."""
        (folder / "head.pdparams").unlink(missing_ok=True)
        settings = {
            "lang": self.lang,
            "max_seq_len": self.max_seq_len,
            "classes": list(self.classes),
            "pairs": self.head.pairs,
            "hidden": self.head.hidden.weight.shape[1] if self.head.hidden else 0,
            "encoders": [encoder.save(folder) for encoder in self.encoders],
            "probe": self._probe().tolist(),
        }
        checkpoint.save_config(folder, {"classifier": settings})
        checkpoint.save(folder / "head", {name: weight.numpy() for name, weight in self.head.state_dict().items()})
        log.info(f"saved         {folder}; use it: python run_finetune.py predict --model_dir={folder}")

    @classmethod
    def load(cls, folder: str | Path, pretrained: str | None = None, vectors: Path | None = None) -> "Classifier":
        """Read what `save` has written. pretrained, vectors: where the biLM's checkpoint and the file of word vectors
        are, if they have moved.
        """
        folder = Path(folder)
        moved_to, values = {"elmo": pretrained, "word_vectors": vectors}, checkpoint.load_config(folder, "a classifier")
        if "classifier" not in values:
            raise UserError(
                f"{folder / 'config.json'} has no field 'classifier': expected a trained classifier's folder."
            )
        saved = values["classifier"]
        try:
            read = {one["encoder"] for one in saved["encoders"] if not {**one}.get("own")}
            if unread := [path for name, path in moved_to.items() if path and name not in read]:
                raise UserError(f"{folder}: this classifier does not read {unread[0]}. Leave it out.")
            encoders = [
                ENCODERS[one["encoder"]].load(one, folder, moved_to[one["encoder"]]) for one in saved["encoders"]
            ]
            shapes = [encoder.shape for encoder in encoders]
            head = Head(shapes, saved["hidden"], len(saved["classes"]), saved["pairs"])
            elmo.set_weights(head, checkpoint.load_params(folder / "head"), str(folder / "head"))
            classifier = cls(head, encoders, saved["lang"], saved["max_seq_len"], saved["classes"])
            probe_matches = np.allclose(classifier._probe(), saved["probe"], atol=1e-3)
            tokenised([""], classifier.lang, classifier.max_seq_len, folder)  # as `predict` will
        except UserError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{folder / 'config.json'} is damaged ({type(error).__name__}: {error}). Copy the folder again as training "
                "has written it, or train again."
            ) from error
        if not probe_matches:
            raise UserError(
                f"{folder}: the head's predictions have changed since it was saved, so these are not the encoders it was "
                f"trained with: {', '.join(map(str, saved['encoders']))}."
            )
        return classifier
