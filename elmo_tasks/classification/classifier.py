"""A trained classifier: head, encoders and tokeniser, at work and as a folder.

FOLDER/            as elmo_tasks/saved.py says, with the head's weights, and
  words.pdparams   fine-tuned word vectors: "words", UTF-8 with "\\n" between them, and "rows"
  bilm/            a biLM of its own: fine-tuned, or with random weights

For each encoder k, the head takes the mean of each layer over the tokens, m (L, D); zeros for an empty text:

    v_k = gamma * sum_l softmax(s)_l (m_l - mean_l) / deviation_l     inputs.k.{mean,deviation}, inputs.k.mix.{scalars,gamma}
    v   = [v_0; v_1; ...]                                             (no mix, and no gamma, where L is 1)
    v   = [a; b; |a - b|; a * b]                                      if "pairs": a of the first text, b of the second
    v   = tanh(v W + b)                                               hidden.{weight,bias}, unless hidden_dim is 0
    p   = softmax(v W + b)                                            output.{weight,bias}, in the order of "classes"
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

import elmo
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokenise import TOKENISERS
from elmo_tasks.classification.encoders import BILM, BiLMEncoder, Encoder, WordTable
from elmo_tasks.classification.network import Head
from elmo_tasks.classification.scores import Results
from elmo_tasks.classification.texts import Texts, as_texts, read_known, tokenised
from elmo_tasks.saved import TrainedModel

LINES_PER_BATCH = 4096  # that are predicted together


@dataclass(frozen=True)
class Settings:
    """How texts are cut, the size of the head, and its encoders."""

    lang: str = "en"
    max_seq_len: int = 256
    pairs: bool = False
    hidden_dim: int = 0  # 0: no hidden layer
    layers: str = ""  # of ELMo; "": the classifier does not read it
    owns_bilm: bool = False
    has_words: bool = False  # word vectors, of a file or random
    owns_words: bool = False
    seed: int = 0  # of the vectors of unknown words


class Classifier(TrainedModel):
    """Predicts the class of any text, or of any pair of texts."""

    kind = "classifier"
    settings_type = Settings

    def __init__(
        self, settings: Settings, classes: Sequence[str], encoders: Sequence[Encoder], head: Head | None = None
    ):
        self.settings, self.classes, self.encoders = settings, classes, encoders
        shapes = [encoder.shape for encoder in encoders]
        self.network = head or Head(shapes, settings.hidden_dim, len(classes), settings.pairs)
        sources = {encoder.name: encoder.source for encoder in encoders}
        self.pretrained, self.vectors = sources.get(BiLMEncoder.name), sources.get(WordTable.name)

    @classmethod
    def of(cls, head: Head, encoders: Sequence[Encoder], lang: str, max_seq_len: int, classes: Sequence[str]):
        """The classifier of a trained head."""
        hidden = head.hidden.weight.shape[1] if head.hidden else 0
        read = {name: value for encoder in encoders for name, value in encoder.config().items()}
        return cls(Settings(lang, max_seq_len, head.pairs, hidden, **read), classes, encoders, head)

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(n, classes) of n texts; of pairs first the tokens of all first texts, then those of all second ones."""
        return self.network.probabilities([encoder.means(encoder.prepare(sentences)) for encoder in self.encoders])

    def predict(self, lines: Iterable[str], source: str | Path, as_json: bool = False) -> Iterator[str]:
        """For every line: its class, the probability of that and the line, separated by tabs; or all of it as a JSON
        object. Of pairs, a line is two texts separated by a tab. source: where they come from, for messages.
        """
        numbered = enumerate(lines, 1)
        while part := list(islice(numbered, LINES_PER_BATCH)):
            lines = [line.strip("\r\n" if self.settings.pairs else None) for _, line in part]
            texts = [line.split("\t") if self.settings.pairs else [line] for line in lines]
            for (number, _), sides in zip(part, texts, strict=True):
                if self.settings.pairs and len(sides) != 2:
                    raise UserError(f"{source}:{number}: {len(sides)} columns, expected two texts separated by a tab.")
            sides = chain.from_iterable(zip(*texts, strict=True))
            found = self.probabilities(tokenised(list(sides), self.settings.lang, self.settings.max_seq_len, source))
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
        examples = read_known(path, columns, self.classes, self.settings.pairs)
        data = as_texts(examples, self.classes, self.settings.lang, self.settings.max_seq_len, path)
        probabilities = self.probabilities(data.sentences)
        return Results.of(data.identity, np.arange(len(data)), data.labels, probabilities, self.classes), data

    def saved_parameters(self) -> dict[str, paddle.Tensor]:
        return self.network.state_dict()

    def save_weights(self, folder: Path) -> None:
        for encoder in self.encoders:
            encoder.save(folder)
        super().save_weights(folder)

    def dictionaries(self) -> dict:
        return {}

    def config(self) -> dict[str, Any]:
        return {"classes": list(self.classes)}

    @classmethod
    def from_folder(cls, folder: Path, settings: Settings, values: Mapping[str, Any], **sources) -> "Classifier":
        classes, pretrained, vectors = values.get("classes"), sources["pretrained"], sources["vectors"]
        if settings.lang not in TOKENISERS or not isinstance(classes, list):
            raise UserError(f"{folder / 'config.json'}: lang is {settings.lang!r:.80}, classes are {classes!r:.80}.")
        encoders: list[Encoder] = []
        if settings.layers:
            bilm = elmo.load_bilm(folder / BILM if settings.owns_bilm else pretrained.prefix)
            encoders.append(BiLMEncoder(*bilm, settings.layers, source=pretrained))
        if settings.has_words:
            tuned = WordTable.saved(folder) if settings.owns_words else {}
            encoders.append(WordTable(vectors, settings.seed, **tuned))
        return cls(settings, classes, encoders)
