"""A trained classifier: head, encoders and tokeniser, in memory and as a folder.

FOLDER/            see elmo_tasks/saved.py; the weights are the head's
  words.pdparams   fine-tuned word vectors: "words", UTF-8 with "\\n" between them, and "rows"
  bilm/            a biLM of its own: fine-tuned, or with random weights

For each encoder k, the head takes the mean of each layer over the tokens, m (L, D); zeros for an empty text:

    v_k = gamma * sum_l softmax(s)_l (m_l - mean_l) / deviation_l     inputs.k.{mean,deviation}, inputs.k.mix.{scalars,gamma}
    v   = [v_0; v_1; ...]                                             (without mix and gamma if L is 1)
    v   = [a; b; |a - b|; a * b]                                      if "pairs": a of the first text, b of the second
    v   = tanh(v W + b)                                               hidden.{weight,bias}, unless hidden_dim is 0
    p   = softmax(v W + b)                                            output.{weight,bias}, in the order of "classes"
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import elmo
from elmo_core.machine.checks import check_texts
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokenise import TOKENISERS
from elmo_tasks.classification.encoders import BILM, BiLMEncoder, Encoder, WordTable
from elmo_tasks.classification.network import Head
from elmo_tasks.classification.scores import Results
from elmo_tasks.classification.texts import Texts, as_texts, read_known, tokenise_texts
from elmo_tasks.saved import TrainedModel

TEXTS_PER_BATCH = 4096


@dataclass(frozen=True)
class ClassifierSettings:
    """Tokenisation, the size of the head, and its encoders."""

    lang: str = "en"
    max_seq_len: int = 256
    pairs: bool = False
    hidden_dim: int = 0  # 0: no hidden layer
    layers: str = ""  # of ELMo; "": no ELMo
    owns_bilm: bool = False
    has_words: bool = False  # word vectors, from a file or random
    owns_words: bool = False
    seed: int = 0  # of the vectors of unknown words
    columns: str = ""  # of text, label and second text in the training file, with tabs between them; "": usual ones
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"lang": tuple(TOKENISERS)}


class Classifier(TrainedModel):
    """Predicts the classes of texts, or of pairs of texts.

    classifier = Classifier("runs/reviews")
    classifier.predict(["The room was quiet and clean."])  # ["good"]
    """

    kind = "classifier"
    settings_type = ClassifierSettings

    def build(
        self,
        head: Head,
        encoders: Sequence[Encoder],
        classes: Sequence[str],
        lang: str,
        max_seq_len: int,
        columns: Sequence[str] = (),
    ) -> None:
        self.network, self.encoders, self.classes = head, encoders, classes
        hidden_dim = head.hidden.weight.shape[1] if head.hidden else 0
        fields = {name: value for encoder in encoders for name, value in encoder.config().items()}
        fields["columns"] = "\t".join(columns)
        self.settings = ClassifierSettings(lang, max_seq_len, head.pairs, hidden_dim, **fields)
        sources = {encoder.name: encoder.source for encoder in encoders}
        self.pretrained, self.vectors = sources.get(BiLMEncoder.name), sources.get(WordTable.name)

    def predict(self, texts: Sequence[str | tuple[str, str]]) -> list[str]:
        """The class of each text; of each tuple of two texts if the classifier is of pairs."""
        return [self.classes[row.argmax()] for row in self.probabilities(texts)]

    def iter_predict(self, texts: Iterable[str | tuple[str, str]]) -> Iterator[str]:
        """Yield the same for any number of texts."""
        if isinstance(texts, str):
            check_texts(texts)
        texts = iter(texts)
        while group := list(islice(texts, TEXTS_PER_BATCH)):
            yield from self.predict(group)

    def probabilities(self, texts: Sequence[str | tuple[str, str]]) -> np.ndarray:
        """Probabilities (n, classes), whose columns are in the order of `classes`."""
        pairs, lang, max_tokens = self.settings.pairs, self.settings.lang, self.settings.max_seq_len
        check_texts(texts, ("text", "text2") if pairs else ("text",))
        arrays = [np.zeros((0, len(self.classes)), np.float32)]
        for k in range(0, len(texts), TEXTS_PER_BATCH):
            batch = texts[k : k + TEXTS_PER_BATCH]
            stacked = list(chain.from_iterable(zip(*batch, strict=True))) if pairs else batch
            arrays.append(self._probabilities(tokenise_texts(stacked, lang, max_tokens)))
        return np.concatenate(arrays)

    def _probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """The same for tokenised texts; for pairs, all first texts are followed by all second ones."""
        with self.inference():
            return self.network.probabilities([encoder.sentence_means(sentences) for encoder in self.encoders])

    @property
    def columns(self) -> list[str]:
        """The columns of the training file, if they were named."""
        return self.settings.columns.split("\t") if self.settings.columns else []

    def evaluate(self, path: Path, columns: Sequence[str] | None) -> tuple[Results, Texts]:
        """Predict a file of labelled texts. columns: by default those of the training, or usual ones."""
        examples = read_known(path, columns, self.classes, self.settings.pairs, self.columns)
        data = as_texts(examples, self.classes, self.settings.lang, self.settings.max_seq_len, path)
        probabilities, indices = self._probabilities(data.sentences), np.arange(len(data))
        return Results.from_probabilities(data.identity, indices, data.labels, probabilities, self.classes), data

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

    def build_saved(self, folder: Path, settings: ClassifierSettings, values: Mapping[str, Any], **sources) -> None:
        if not isinstance(values.get("classes"), list):
            raise UserError(f"{folder / 'config.json'}: classes are {values.get('classes')!r:.80}, expected a list.")
        encoders: list[Encoder] = []
        if settings.layers:
            bilm = elmo.load_bilm(folder / BILM if settings.owns_bilm else sources["pretrained"].prefix)
            encoders.append(BiLMEncoder(*bilm, settings.layers, source=sources["pretrained"]))
        if settings.has_words:
            tuned = WordTable.saved(folder) if settings.owns_words else {}
            encoders.append(WordTable(sources["vectors"], settings.seed, **tuned))
        shapes = [encoder.shape for encoder in encoders]
        head = Head(shapes, settings.hidden_dim, len(values["classes"]), settings.pairs)
        columns = settings.columns.split("\t") if settings.columns else []
        self.build(head, encoders, values["classes"], settings.lang, settings.max_seq_len, columns)
