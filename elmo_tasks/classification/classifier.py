"""A classifier: its training, and the classes that it predicts for texts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain
from typing import Any, overload

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text.tokens import sentence_batches
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.classification.data import Text, TextReader, as_text, hold_out, tokenise
from elmo_tasks.classification.network import Batch, ClassifierNetwork
from elmo_tasks.classification.score import Score
from elmo_tasks.classification.settings import ClassifierSettings
from elmo_tasks.inputs import Rows
from elmo_tasks.records import Label, check_parts, distinct_labels, label_ids
from elmo_tasks.task import Task, as_given, resolve_language, with_dev

AnyText = str | tuple[str, str]  # or a pair
_warn_once = cache(log.warning)


class Classifier(Task[ClassifierSettings]):
    """Predicts the classes of texts, or of pairs of texts. It is selected by ROC AUC.

    classifier = Classifier.train(texts, labels, save_dir="runs/reviews")
    classifier = Classifier("runs/reviews")
    classifier.predict(["The room was quiet and clean."])          # ["good"]
    classifier.predict_proba(["The room was quiet and clean."])    # array([[0.04, 0.96]]), in the order of its classes

    parts: labels; pairs, whether it is of pairs; words, those of the training data, if they are learnt.
    """

    name = "classifier"
    settings_type = ClassifierSettings
    example = "predict([{text!r}])"
    batch_size, batch_tokens, random_vectors = 128, 16384, True

    @classmethod
    def read_training(cls, given, settings):
        reader = TextReader(settings)
        return {name: reader.read(part, name) for name, part in given.items()}

    @classmethod
    def texts(cls, examples):
        return [part for text in examples for part in text.texts]

    @classmethod
    def set_up(cls, data, settings, pretrained):
        settings, tokeniser = resolve_language(settings, cls.texts(data["train"]), pretrained)
        texts = list(chain.from_iterable(data.values()))
        n_cut = sum(tokenise(text, tokeniser, settings.max_seq_len) for text in texts)
        if n_cut:
            log.warning(
                f"{format_count(n_cut, 'texts')} cut after {settings.max_seq_len} tokens, see `max_seq_len`."
            )
        if n_empty := sum(not any(text.tokens) for text in texts):
            log.warning(f"{format_count(n_empty, 'texts')} without words.")
        parts = make_parts(data["train"], settings)
        for part in data.values():
            check_texts(part, parts)
        return settings, parts, with_dev(data, settings, hold_out)

    # The task

    def build(self) -> ClassifierNetwork:
        check_parts(self.parts, "labels", Label, "strings, integers and booleans")
        settings, pairs = self.settings, self.parts["pairs"]
        if pairs:
            self.example = "predict([({text!r}, {text!r})])"
        pool = "mean" if settings.head == "mean" else None
        inputs = self.make_inputs(pool=pool, standardised=True, trainable=not settings.epochs)
        return ClassifierNetwork(settings, inputs, len(self.classes), pairs)

    def phases(self) -> Iterator[ClassifierSettings]:
        """Train over fixed vectors first, then all that is trainable, from the best epoch."""
        settings, is_tuned = (
            self.settings,
            self.settings.elmo_trainable or self.settings.word_vectors_trainable,
        )
        if settings.epochs or not is_tuned:
            yield settings
        if is_tuned:
            self.network.inputs.tune(
                settings.word_dropout * settings.elmo_trainable, settings.lstm_dropout
            )
            yield replace(settings, epochs=settings.tune_epochs)

    def length(self, example: Text) -> int:
        return sum(map(len, example.tokens))

    def rows(self, examples: Sequence[Text]) -> Rows:
        return Rows(
            [
                text.tokens[side]
                for side in range(1 + bool(self.parts["pairs"]))
                for text in examples
            ]
        )

    def prepare(self, train: Sequence[Text]) -> None:
        """Count words, and set the inputs' statistics and the weights of classes."""
        super().prepare(train)
        self.network.eval()
        batches = sentence_batches(
            train, self.batch_size, self.batch_tokens, len(train), self.length
        )
        self.network.inputs.standardise(self.rows(batch) for _, batch in batches)
        if self.settings.class_weights == "balanced":
            counts = np.bincount(
                [self.label_ids[text.label] for text in train], minlength=len(self.classes)
            )
            weights = len(train) / (len(counts) * counts.clip(1))
            self.network.class_weights = to_tensor(weights.astype(np.float32))

    def collate(self, examples: Sequence[Text]) -> Batch:
        labels = (
            np.array([self.label_ids[text.label] for text in examples])
            if self.network.training
            else None
        )
        return Batch(self.rows(examples), labels)

    def decode(self, batch: Batch) -> np.ndarray:
        return paddle.nn.functional.softmax(self.network(batch.rows)).numpy()

    def measure(self, examples: Sequence[Text], predictions: Sequence[np.ndarray]) -> Score:
        labels = np.array([self.label_ids[text.label] for text in examples])
        return Score(labels, np.stack(predictions), self.classes)

    # What users call

    @property
    def classes(self) -> list[Label]:
        """The classes, in the order of the columns of `predict_proba`."""
        return self.parts["labels"]

    @cached_property
    def label_ids(self) -> dict[Label, int]:
        return label_ids(self.classes)

    def score(self, texts: Any, labels: Iterable[Label] | None = None) -> float:
        """The accuracy on texts and their labels, given as to `train`."""
        return self.evaluate(texts, labels)["accuracy"]

    def read(self, data: Any) -> list[Text]:
        texts = list(map(self.tokenised, TextReader(self.settings).read(data, "texts")))
        check_texts(texts, self.parts)
        return texts

    @overload
    def predict(self, texts: Iterator[AnyText]) -> Iterator[Label]: ...
    @overload
    def predict(self, texts: Iterable[AnyText]) -> list[Label]: ...
    def predict(self, texts):
        """Return the class of each text, or pair of texts. Of an iterator, yield them."""
        best = lambda *given: (self.classes[row.argmax()] for row in self._probabilities(*given))  # noqa: E731
        return as_given(texts, "texts", best)

    @overload
    def predict_proba(self, texts: Iterator[AnyText]) -> Iterator[np.ndarray]: ...
    @overload
    def predict_proba(self, texts: Iterable[AnyText]) -> np.ndarray: ...
    def predict_proba(self, texts):
        """Return the probabilities of the classes (n, classes). Of an iterator, yield rows (classes,)."""
        rows = as_given(texts, "texts", self._probabilities)
        return (
            np.array(rows, np.float32).reshape(-1, len(self.classes))
            if isinstance(rows, list)
            else rows
        )

    def _probabilities(
        self, texts: Iterable[AnyText], window: float | None
    ) -> Iterator[np.ndarray]:
        given = (as_text(text, f"text {k}") for k, text in enumerate(texts))
        return self.predictions(map(self._with_words, given), window)

    def _with_words(self, text: Text) -> Text:
        """The text with its tokens; a warning if there are none, for then its class is that of no text at all."""
        text = self.tokenised(text)
        if not any(text.tokens):
            _warn_once("A text without words gets the class of an empty text. This is logged once.")
        return text

    def tokenised(self, text: Text) -> Text:
        """The text with its tokens. Raise unless it is a pair if the classifier is of pairs."""
        check_sides(text, self.parts["pairs"])
        if tokenise(text, self.tokeniser, self.settings.max_seq_len):
            _warn_once(
                f"Texts are cut after {self.settings.max_seq_len} tokens, as in training. This is logged once."
            )
        return text


def make_parts(train: Sequence[Text], settings: ClassifierSettings) -> dict[str, Any]:
    """The classes of training texts, whether these are pairs, and their words, if these are learnt."""
    counts = Counter(text.label for text in train)
    labels = distinct_labels(counts)
    if counts[train[0].label] == 1 and train[0].where.endswith((".tsv:1", ".tsv.gz:1")):
        log.warning(
            f"{train[0].where}: only this line has the label {train[0].label!r:.60}. A header? Set `columns`."
        )
    log.info(f"classes: {join_names([f'{label} {counts[label]:,}' for label in labels], 50)}")
    if len(labels) > max(10, len(train) / 3):
        found = f"{len(labels):,} labels of {len(train):,} texts, such as {labels[-1]!r:.60}"
        log.warning(f"{found}: are the columns in another order? `columns` names them.")
    words = None
    if settings.word_dim or settings.word_vectors_trainable:
        words = Vocabulary.frequent(
            chain.from_iterable(chain.from_iterable(text.tokens for text in train))
        ).words
    return {"labels": labels, "pairs": len(train[0].texts) == 2, "words": words}


def check_texts(texts: Sequence[Text], parts: dict[str, Any]) -> None:
    """Raise unless the texts have known classes, and are pairs or not."""
    known = label_ids(parts["labels"])
    for text in texts:
        check_sides(text, parts["pairs"])
        if text.label not in known:
            raise UserError(
                f"{text.where}: the label {text.label!r:.60} does not occur in training. Set `columns`?"
            )


def check_sides(text: Text, pairs: bool) -> None:
    """Raise unless the text is a pair, or not."""
    if len(text.texts) != 1 + bool(pairs):
        expected = (
            "a tuple of two strings"
            if pairs
            else "a string. Join tokens with spaces, and set `lang=none`"
        )
        raise UserError(f"{text.where}: found {text.texts!r:.60}, expected {expected}.")
