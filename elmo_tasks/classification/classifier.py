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
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.classification.data import hold_out
from elmo_tasks.classification.network import Batch, ClassifierNetwork
from elmo_tasks.classification.score import ClassifierScore
from elmo_tasks.classification.settings import ClassifierSettings
from elmo_tasks.inputs import PretrainedELMo, Rows
from elmo_tasks.records import Label, check_parts, distinct_labels, label_ids
from elmo_tasks.task import Task, checked_stream, resolve_language, with_dev
from elmo_tasks.texts import Text, TextReader, given_text, tokenise

AnyText = str | tuple[str, str]  # or a pair
_warn_once = cache(log.warning)


class Classifier(Task[ClassifierSettings, Text, np.ndarray]):
    """Predicts the labels of texts, or of pairs of texts. The epoch with the best ROC AUC is kept.

        classifier = Classifier.train(texts, labels, save_dir="runs/reviews")
        classifier = Classifier("runs/reviews")
        classifier.predict(["The room was quiet and clean."])        # ["good"]
        classifier.predict_proba("The room was quiet and clean.")    # array([0.04, 0.96])

    It is trained on a file, a table, or texts and their labels. A text is a string or, of pairs, a
    tuple of two strings.

    parts: labels; pairs, whether it is of pairs; words, those of the training data, if they are
    learnt.
    """

    name = "classifier"
    settings_type = ClassifierSettings
    network: ClassifierNetwork
    batch_size = 128
    batch_tokens = 16384
    random_vectors = True

    # What users call

    @property
    def labels(self) -> list[Label]:
        """The labels, in the order of the columns of `predict_proba`."""
        return self.parts["labels"]

    @overload
    def predict(self, texts: str | tuple[str, str]) -> Label: ...
    @overload
    def predict(self, texts: Iterable[AnyText]) -> list[Label]: ...
    def predict(self, texts: AnyText | Iterable[AnyText]) -> Label | list[Label]:
        """Return the label of each text, or pair of texts; of one of these, its label."""
        return self._one_or_all(texts, self.results)

    def iter_predict(self, texts: Iterable[AnyText]) -> Iterator[Label]:
        """Like `predict`, but lazy, for any number of texts: reads ahead some batches."""
        return self.results(checked_stream(texts), is_lazy=True)

    def predict_proba(self, texts: AnyText | Iterable[AnyText]) -> np.ndarray:
        """Return the probabilities of the labels (n, labels); of one text, or pair, (labels,)."""
        rows = self._one_or_all(texts, self._probabilities)
        if isinstance(rows, list):
            return np.array(rows, np.float32).reshape(-1, len(self.labels))
        return rows

    def iter_predict_proba(self, texts: Iterable[AnyText]) -> Iterator[np.ndarray]:
        """Like `predict_proba`, but lazy, for any number of texts: yields rows (labels,)."""
        return self._probabilities(checked_stream(texts), is_lazy=True)

    # Its data

    @classmethod
    def read_data(cls, data: Any, name: str, settings: ClassifierSettings) -> list[Text]:
        return TextReader(settings.columns, settings.data_format).read(data, name)

    def complete(self, examples: list[Text]) -> list[Text]:
        texts = [self.tokenised(text) for text in examples]
        check_texts(texts, self.parts)
        return texts

    @classmethod
    def texts(cls, examples: Sequence[Text]) -> list[str]:
        return list(chain.from_iterable(text.texts for text in examples))

    @classmethod
    def set_up(
        cls,
        data: dict[str, list[Text]],
        settings: ClassifierSettings,
        pretrained: PretrainedELMo | None,
    ) -> tuple[ClassifierSettings, dict[str, Any], dict[str, list[Text]]]:
        settings, tokeniser = resolve_language(settings, cls.texts(data["train"]), pretrained)
        texts = list(chain.from_iterable(data.values()))
        n_cut = sum(tokenise(text, tokeniser, settings.max_seq_len) for text in texts)
        if n_cut:
            cut = format_count(n_cut, "texts")
            log.warning(f"{cut} cut after {settings.max_seq_len} tokens, see `max_seq_len`.")
        n_empty = sum(not any(text.tokens) for text in texts)
        if n_empty:
            log.warning(f"{format_count(n_empty, 'texts')} without words.")
        parts = make_parts(data["train"], settings)
        for part in data.values():
            check_texts(part, parts)
        return settings, parts, with_dev(data, settings, hold_out)

    # The task

    def build(self) -> ClassifierNetwork:
        check_parts(self.parts, "labels", Label, "strings, integers and booleans")
        settings = self.settings
        pool = "mean" if settings.head == "mean" else None
        inputs = self.make_inputs(pool=pool, standardised=True, trainable=not settings.epochs)
        return ClassifierNetwork(settings, inputs, len(self.labels), self.parts["pairs"])

    def phases(self) -> Iterator[ClassifierSettings]:
        """Train over fixed vectors first, then all that is trainable, from the best epoch."""
        settings = self.settings
        is_tuned = settings.elmo_trainable or settings.word_vectors_trainable
        if settings.epochs or not is_tuned:
            yield settings
        if is_tuned:
            word_dropout = settings.word_dropout if settings.elmo_trainable else 0.0
            self.network.inputs.tune(word_dropout, settings.lstm_dropout)
            yield replace(settings, epochs=settings.tune_epochs)

    def length(self, example: Text) -> int:
        return sum(len(tokens) for tokens in example.tokens)

    def rows(self, examples: Sequence[Text]) -> Rows:
        """The tokens of all texts or, of pairs, of all first texts before all second ones."""
        tokens = [text.tokens[0] for text in examples]
        if self.parts["pairs"]:
            tokens += [text.tokens[1] for text in examples]
        return Rows(tokens)

    def prepare(self, train: Sequence[Text]) -> None:
        """Set what all tasks take, and the weights of classes."""
        super().prepare(train)
        if self.settings.class_weights == "balanced":
            counts = np.bincount(self.ids(train), minlength=len(self.labels))
            weights = len(train) / (len(counts) * counts.clip(1))
            self.network.class_weights = to_tensor(weights.astype(np.float32))

    def collate(self, examples: Sequence[Text]) -> Batch:
        labels = np.array(self.ids(examples)) if self.network.training else None
        return Batch(self.rows(examples), labels)

    def decode(self, batch: Batch) -> np.ndarray:
        return paddle.nn.functional.softmax(self.network(batch.rows)).numpy()

    def measure(
        self, examples: Sequence[Text], predictions: Sequence[np.ndarray]
    ) -> ClassifierScore:
        return ClassifierScore(np.array(self.ids(examples)), np.stack(predictions), self.labels)

    def usage(self, text: str) -> str:
        return f"predict({(text, text)!r})" if self.parts["pairs"] else super().usage(text)

    def is_one(self, texts: Any) -> bool:
        is_pair = isinstance(texts, tuple) and [type(text) for text in texts] == [str, str]
        return is_pair if self.parts["pairs"] else isinstance(texts, str)

    def results(self, texts: Iterable[AnyText], is_lazy: bool = False) -> Iterator[Label]:
        return (self.labels[row.argmax()] for row in self._probabilities(texts, is_lazy))

    def _probabilities(
        self, texts: Iterable[AnyText], is_lazy: bool = False
    ) -> Iterator[np.ndarray]:
        given = (self._text(text, number) for number, text in enumerate(texts))
        return (row for _, row in self.predicted(given, is_lazy))

    @cached_property
    def label_ids(self) -> dict[Label, int]:
        """The number of each label."""
        return label_ids(self.labels)

    def ids(self, texts: Sequence[Text]) -> list[int]:
        """The numbers of the texts' labels."""
        return [self.label_ids[text.label] for text in texts]

    def _text(self, value: AnyText, number: int) -> Text:
        """A text that a user gives, with its tokens.

        A warning if it has no words, for then its label is that of no text at all.
        """
        text = self.tokenised(given_text(value, number, bool(self.parts["pairs"])))
        if not any(text.tokens):
            _warn_once("A text without words gets the class of an empty text. This is logged once.")
        return text

    def tokenised(self, text: Text) -> Text:
        """The text with its tokens. Raise unless it is a pair if the classifier is of pairs."""
        check_sides(text, self.parts["pairs"])
        if tokenise(text, self.tokeniser, self.settings.max_seq_len):
            cut = f"Texts are cut after {self.settings.max_seq_len} tokens, as in training."
            _warn_once(f"{cut} This is logged once.")
        return text


def make_parts(train: Sequence[Text], settings: ClassifierSettings) -> dict[str, Any]:
    """The labels of training texts, whether these are pairs, and their words if learnt."""
    counts = Counter(text.label for text in train)
    labels = distinct_labels(counts)
    first = train[0]
    if counts[first.label] == 1 and first.where.endswith((".tsv:1", ".tsv.gz:1")):
        found = f"only this line has the label {first.label!r:.60}"
        log.warning(f"{first.where}: {found}. A header? Set `columns`.")
    log.info(f"classes: {join_names([f'{label} {counts[label]:,}' for label in labels], 50)}")
    if len(labels) > max(10, len(train) / 3):
        found = f"{len(labels):,} labels of {len(train):,} texts, such as {labels[-1]!r:.60}"
        log.warning(f"{found}: are the columns in another order? `columns` names them.")
    words = None
    if settings.word_dim or settings.word_vectors_trainable:
        sides = chain.from_iterable(text.tokens for text in train)
        words = Vocabulary.frequent(chain.from_iterable(sides)).words
    return {"labels": labels, "pairs": len(first.texts) == 2, "words": words}


def check_texts(texts: Sequence[Text], parts: dict[str, Any]) -> None:
    """Raise unless the texts have known classes, and are pairs or not."""
    known = label_ids(parts["labels"])
    for text in texts:
        check_sides(text, parts["pairs"])
        if text.label not in known:
            found = f"the label {text.label!r:.60} does not occur in training"
            raise UserError(f"{text.where}: {found}. Set `columns`?")


def check_sides(text: Text, pairs: bool) -> None:
    """Raise unless the text is a pair, or not."""
    if len(text.texts) != 1 + bool(pairs):
        expected = (
            "a tuple of two strings"
            if pairs
            else "a string. Join tokens with spaces, and set `lang=none`"
        )
        raise UserError(f"{text.where}: found {text.texts!r:.60}, expected {expected}.")
