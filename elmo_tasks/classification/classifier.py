"""A classifier: its training, and the classes that it predicts for texts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import Any, overload

import numpy as np
from scipy import sparse

from elmo_core.encoding.pooling import MEAN, MEAN_MAX
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.classification import logistic
from elmo_tasks.classification.data import hold_out, indicators, is_multi_label, unseen_labels
from elmo_tasks.classification.network import NGRAMS, Batch, ClassifierNetwork
from elmo_tasks.classification.ngrams import NGrams, is_entry
from elmo_tasks.classification.ngrams import count as count_ngrams
from elmo_tasks.classification.score import ClassifierScore, MultiLabelScore
from elmo_tasks.classification.settings import LINEAR, ClassifierSettings, check_used
from elmo_tasks.inputs import PretrainedELMo, Rows
from elmo_tasks.records import Label, check_labels, check_parts, distinct_labels, label_ids
from elmo_tasks.score import Score
from elmo_tasks.task import Task, checked_stream, resolve_language, with_dev
from elmo_tasks.texts import Text, TextReader, given_text, tokenise

AnyText = str | tuple[str, str]  # or a pair
POOLS = {LINEAR: MEAN_MAX, "mean": MEAN}  # of the heads that read pooled vectors
MAX_LABELS = 10_000  # more are another column, and would take gigabytes
_warn_once = cache(log.warning)


class Classifier(Task[ClassifierSettings, Text, np.ndarray]):
    """Predicts the labels of texts, or of pairs of texts.

        classifier = Classifier.train(texts, labels, save_dir="runs/reviews")
        classifier = Classifier("runs/reviews")
        classifier.predict(["The room was quiet and clean."])        # ["good"]
        classifier.predict_proba("The room was quiet and clean.")    # array([0.04, 0.96])

    It is trained on a file, a table, or texts and their labels. A text is a string or, of pairs, a
    tuple of two strings. If the labels are lists, any number of them apply to a text, and the
    predictions are lists.

    By default it is a logistic regression over ELMo's vectors and n-grams, whose penalties are
    chosen by cross-validation: without dev, nothing is held out, and the score on dev is that of
    texts of train by models that had not seen them. Of the other heads, and of fine-tuning, the
    epoch with the best ROC AUC is kept; of lists of labels, that with the best micro-F1.

    parts: labels; multi_label, whether a text has a list of them; threshold, the probability from
    which one is then predicted; pairs, whether it is of pairs; words, those of the training data,
    if they are learnt; ngrams, ngram_texts and penalties of the default head.
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

    @property
    def threshold(self) -> float:
        """The probability from which one of several labels is predicted.

        It has the best micro-F1 on the dev set; without a training, it is 0.5.
        """
        found = self.parts["threshold"]
        return 0.5 if found is None else found

    @property
    def label_separator(self) -> str:
        """What separates the labels of a text in a column: as in training, or a bar."""
        return self.settings.label_separator or "|"

    @overload
    def predict(self, texts: str | tuple[str, str]) -> Any: ...
    @overload
    def predict(self, texts: Iterable[AnyText]) -> list[Any]: ...
    def predict(self, texts: AnyText | Iterable[AnyText]) -> Any:
        """Return the label of each text, or pair of texts; of one of these, its label.

        If it was trained on lists of labels, it is the list of those that apply.
        """
        return self._one_or_all(texts, self.results)

    def iter_predict(self, texts: Iterable[AnyText]) -> Iterator[Any]:
        """Like `predict`, but lazy, for any number of texts: reads ahead some batches."""
        return self.results(checked_stream(texts), is_lazy=True)

    def predict_proba(self, texts: AnyText | Iterable[AnyText]) -> np.ndarray:
        """Return the probabilities of the labels (n, labels); of one text, or pair, (labels,).

        If any number of labels apply, each has a probability of its own.
        """
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
        check = partial(check_labels, separator=settings.label_separator)
        texts = TextReader(settings.columns, settings.data_format, check).read(data, name)
        is_multi_label(texts)  # raises if only some have lists
        return texts

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
        check_used(settings)
        settings, tokeniser = resolve_language(settings, cls.texts(data["train"]), pretrained)
        texts = list(chain.from_iterable(data.values()))
        n_cut = sum(tokenise(text, tokeniser, settings.max_seq_len) for text in texts)
        if n_cut:
            cut = format_count(n_cut, "texts")
            log.warning(f"{cut} cut after {settings.max_seq_len} tokens, see `max_seq_len`.")
        n_empty = sum(not all(text.tokens) for text in texts)
        if n_empty:
            log.warning(f"{format_count(n_empty, 'texts')} without words.")
        parts = make_parts(data["train"], settings)
        if parts["multi_label"] and settings.class_weights:
            raise UserError(
                "`class_weights` is for texts with one label each, but the labels are lists. "
                "Leave it out."
            )
        for part in data.values():
            check_texts(part, parts)
        if is_linear(settings) and not is_tuned(settings):
            return settings, parts, data
        return settings, parts, with_dev(data, settings, hold_out)

    # The task

    def build(self) -> ClassifierNetwork:
        check_parts(self.parts, "labels", Label, "strings, integers and booleans")
        check_threshold(self.parts["threshold"])
        check_linear_parts(self.parts)
        settings = self.settings
        n_ngrams = len(self.parts.get("ngrams") or ())
        inputs = self.make_inputs(
            pool=POOLS.get(settings.head),
            standardised=True,
            trainable=not settings.epochs,
            required=not n_ngrams,
        )
        return ClassifierNetwork(
            settings=settings,
            inputs=inputs,
            n_classes=len(self.labels),
            pairs=self.parts["pairs"],
            multi_label=self.parts["multi_label"],
            n_ngrams=n_ngrams,
        )

    def phases(self) -> Iterator[ClassifierSettings]:
        """Train over fixed vectors first, then all that is trainable, from the best epoch."""
        settings = self.settings
        if not is_linear(settings) and (settings.epochs or not is_tuned(settings)):
            yield settings
        if is_tuned(settings):
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

    def solve(self, train: Sequence[Text], dev: Sequence[Text] | None) -> Score | None:
        """Solve the head `linear`, see logistic.py."""
        if not is_linear(self.settings):
            return None
        blocks, loss = self.regression(train)
        found = logistic.train(
            blocks=list(blocks.values()),
            loss=loss,
            labels=[text.label for text in train],
            seed=self.settings.seed,
        )
        self.network.set_linear(
            dict(zip(blocks, found.linear.weights, strict=True)), found.linear.bias
        )
        self.parts["penalties"] = dict(zip(blocks, found.penalties, strict=True))
        if dev:
            score = self.evaluated(dev)
        else:
            held_out = [train[k] for k in found.rows]
            score = self.measure(held_out, list(loss.probabilities(found.logits)))
        log.info(f"{self._choice()}  dev {score.summary}")
        return score

    @paddle.no_grad()
    def regression(
        self, train: Sequence[Text]
    ) -> tuple[dict[str, logistic.Features], logistic.Loss]:
        """The features of the head `linear`, by their names, and its loss."""
        self.network.eval()
        parts: dict[str, list[logistic.Features]] = {}
        for start in range(0, len(train), self.batch_size):
            batch = self.collate(train[start : start + self.batch_size])
            for name, features in self.network.linear_features(batch).items():
                parts.setdefault(name, []).append(features)
        blocks: dict[str, logistic.Features] = {}
        for name, features in parts.items():
            stack = sparse.vstack if name == NGRAMS else np.concatenate
            blocks[name] = stack(features)
        ids = self.ids(train)
        multi_label = self.parts["multi_label"]
        targets = ids if multi_label else np.eye(len(self.labels))[ids]
        importance = np.ones(len(train), np.float32)
        if self.network.class_weights is not None:
            importance = self.network.class_weights.numpy()[ids]
        return blocks, logistic.Loss(targets.astype(np.float32), multi_label, importance)

    def _choice(self) -> str:
        """What the training of the head `linear` has chosen, in words."""
        penalties = [f"{name} {value:g}" for name, value in self.parts["penalties"].items()]
        return f"penalties by cross-validation: {join_names(penalties)}"

    def collate(self, examples: Sequence[Text]) -> Batch:
        labels = self.ids(examples) if self.network.training else None
        rows = self.rows(examples)
        if not self.network.n_ngrams:
            return Batch(rows, labels)
        sides = zip(*[text.all_tokens for text in examples], strict=True)
        tokens = list(chain.from_iterable(sides))
        shape = (len(tokens), self.network.n_ngrams)
        ngrams = sparse.csr_matrix(self.ngrams.vectors(tokens), shape=shape)
        return Batch(rows, labels, ngrams)

    @cached_property
    def ngrams(self) -> NGrams:
        """Makes vectors of the n-grams of texts."""
        return NGrams(self.parts["ngrams"], self.parts["ngram_texts"], self.settings.lang)

    def decode(self, batch: Batch) -> np.ndarray:
        return self.network.probabilities(batch).numpy()

    def measure(
        self, examples: Sequence[Text], predictions: Sequence[np.ndarray]
    ) -> ClassifierScore | MultiLabelScore:
        probabilities = np.stack(predictions)
        if not self.parts["multi_label"]:
            return ClassifierScore(self.ids(examples), probabilities, self.labels, examples)
        unseen = unseen_labels(examples, self.label_ids)
        numbers = {label: k for k, label in enumerate(unseen, len(self.labels))}
        n_labels = len(self.labels) + len(unseen)
        return MultiLabelScore(
            labels=indicators(examples, {**self.label_ids, **numbers}, n_labels),
            probabilities=np.pad(probabilities, [(0, 0), (0, len(unseen))]),
            classes=[*self.labels, *unseen],
            threshold=self.parts["threshold"],
            texts=examples,
        )

    def calibrate(self, score: ClassifierScore | MultiLabelScore) -> None:
        """Set the threshold of lists of labels."""
        if isinstance(score, MultiLabelScore):
            self.parts["threshold"] = score.threshold
            log.info(f"threshold {self.threshold:.4f}, the best on dev: micro-F1 {score.value:.2%}")

    def card_lines(self) -> list[str]:
        lines = []
        if self.parts.get("penalties"):
            lines.append(self._choice())
            if "dev" not in self.training.get("sizes", {"dev": 0}):
                lines.append("dev: texts of train, each predicted by a model that had not seen it")
        if self.parts["multi_label"]:
            lines.append(
                f"labels are predicted from a probability of {self.threshold:.4f}, the best on dev"
            )
        return lines

    def usage(self, text: str) -> str:
        return f"predict({(text, text)!r})" if self.parts["pairs"] else super().usage(text)

    def is_one(self, texts: Any) -> bool:
        is_pair = isinstance(texts, tuple) and [type(text) for text in texts] == [str, str]
        return is_pair if self.parts["pairs"] else isinstance(texts, str)

    def results(self, texts: Iterable[AnyText], is_lazy: bool = False) -> Iterator[Any]:
        return (self.prediction(row) for row in self._probabilities(texts, is_lazy))

    def prediction(self, row: np.ndarray) -> Label | list[Label]:
        """The label, or the list of labels, of a text. row: the probabilities (labels,)."""
        if self.parts["multi_label"]:
            return [self.labels[k] for k in (row >= self.threshold).nonzero()[0]]
        return self.labels[row.argmax()]

    def _probabilities(
        self, texts: Iterable[AnyText], is_lazy: bool = False
    ) -> Iterator[np.ndarray]:
        given = (self._text(text, number) for number, text in enumerate(texts))
        return (row for _, row in self.predicted(given, is_lazy))

    @cached_property
    def label_ids(self) -> dict[Label, int]:
        """The number of each label."""
        return label_ids(self.labels)

    def ids(self, texts: Sequence[Text]) -> np.ndarray:
        """The numbers of the texts' labels (n,); of lists, whether each applies (n, labels)."""
        if self.parts["multi_label"]:
            return indicators(texts, self.label_ids, len(self.labels)).astype(np.float32)
        return np.array([self.label_ids[text.label] for text in texts])

    def _text(self, value: AnyText, number: int) -> Text:
        """A text that a user gives, with its tokens.

        A warning if it has no words, for then its label is that of no text at all.
        """
        text = self.tokenised(given_text(value, number, bool(self.parts["pairs"])))
        if not all(text.tokens):
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
    multi_label = is_multi_label(train)
    counts = Counter(chain.from_iterable(text.labels for text in train))
    check_number_of_labels(counts, len(train))
    labels = distinct_labels(counts, minimum=0 if multi_label else 2)
    if multi_label:
        check_lists_of_labels(train)
    else:
        warn_of_columns(train, labels, counts)
    warn_of_single_texts(counts)
    kind = "labels" if multi_label else "classes"
    log.info(f"{kind}: {join_names([f'{label} {counts[label]:,}' for label in labels], 50)}")
    words = None
    if settings.word_dim or settings.word_vectors_trainable:
        sides = chain.from_iterable(text.tokens for text in train)
        words = Vocabulary.frequent(chain.from_iterable(sides)).words
    ngrams = None
    sides = list(chain.from_iterable(text.all_tokens for text in train))
    if is_linear(settings) and settings.ngrams != "none":
        ngrams = count_ngrams(sides, settings.ngrams, settings.lang, len(labels))
        log.info(f"n-grams: {len(ngrams):,}")
    return {
        "labels": labels,
        "multi_label": multi_label,
        "threshold": None,
        "pairs": len(train[0].texts) == 2,
        "words": words,
        "ngrams": ngrams,
        "ngram_texts": len(sides),
        "penalties": None,
    }


def is_linear(settings: ClassifierSettings) -> bool:
    return settings.head == LINEAR


def is_tuned(settings: ClassifierSettings) -> bool:
    """Whether ELMo, or the word vectors, are fine-tuned."""
    return settings.elmo_trainable or settings.word_vectors_trainable


def check_number_of_labels(counts: Counter[Label], n_texts: int) -> None:
    """Raise if there are more labels than a classifier can have."""
    if len(counts) > MAX_LABELS:
        examples = join_names([f"{label!r:.60}" for label in [*counts][:2]])
        raise UserError(
            f"found {len(counts):,} different labels of {format_count(n_texts, 'texts')}, such as "
            f"{examples}, expected at most {MAX_LABELS:,}. Is another column the label? "
            "`columns` names them."
        )


def check_lists_of_labels(train: Sequence[Text]) -> None:
    """Raise if all texts have the same labels. A warning if each has exactly one."""
    first = train[0].labels
    if all(set(text.labels) == set(first) for text in train):
        found = f"all texts have the labels {list(first)!r:.60}" if first else "no text has labels"
        raise UserError(f"{found}, expected lists that differ. Are the columns right?")
    if all(len(text.labels) == 1 for text in train):
        log.warning(
            "each text has one label, but in a list: several may be predicted, or none. "
            "If exactly one applies, give it without a list."
        )


def warn_of_columns(train: Sequence[Text], labels: Sequence[Label], counts: Counter[Label]) -> None:
    """Warnings of a header that is read as a text, and of columns in another order."""
    first = train[0]
    if counts[first.label] == 1 and first.where.endswith((".tsv:1", ".tsv.gz:1")):
        found = f"only this line has the label {first.label!r:.60}"
        log.warning(f"{first.where}: {found}. A header? Set `columns`.")
    if len(labels) > max(10, len(train) / 3):
        found = f"{len(labels):,} labels of {len(train):,} texts, such as {labels[-1]!r:.60}"
        log.warning(f"{found}: are the columns in another order? `columns` names them.")


def warn_of_single_texts(counts: Counter[Label]) -> None:
    """A warning of labels that only one text has."""
    single = [label for label, n in counts.items() if n == 1]
    if single:
        found = f"{len(single):,} of the {len(counts):,} labels"
        example = f"such as {single[0]!r:.60}"
        log.warning(f"{found} occur only once, {example}. Their texts stay in training.")


def check_threshold(value: Any) -> None:
    """Raise unless it is a probability, or None. It may have been read from a file."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= 1):
        raise UserError(f"`threshold` is {value!r:.60}, expected a number from 0 to 1.")


def check_linear_parts(parts: dict[str, Any]) -> None:
    """Raise unless the parts of the head `linear` are n-grams, their texts, and penalties.

    They may have been read from a file.
    """
    ngrams = parts.get("ngrams")
    if ngrams is None:
        return
    if not (isinstance(ngrams, list) and all(is_entry(entry) for entry in ngrams)):
        found = f"{ngrams!r:.60}"
        raise UserError(f"`ngrams` is {found}, expected a list of [kind, n-gram, count].")
    n_texts = parts.get("ngram_texts")
    most = max((n for _, _, n in ngrams), default=1)
    if type(n_texts) is not int or n_texts < most:
        raise UserError(f"`ngram_texts` is {n_texts!r:.60}, expected {most:,} or more.")
    penalties = parts.get("penalties")
    if penalties is None:
        return
    is_valid = isinstance(penalties, dict)
    if not is_valid or not all(isinstance(value, int | float) for value in penalties.values()):
        raise UserError(f"`penalties` is {penalties!r:.60}, expected numbers by name.")


def check_texts(texts: Sequence[Text], parts: dict[str, Any]) -> None:
    """Raise unless the texts have known labels, lists if these are expected, and are pairs or not.

    Labels of lists may be unknown, but not all of them: they cannot be predicted.
    """
    known = label_ids(parts["labels"])
    expected = "a list of labels" if parts["multi_label"] else "one label"
    for text in texts:
        check_sides(text, parts["pairs"])
        if isinstance(text.label, tuple) != parts["multi_label"]:
            found = list(text.label) if isinstance(text.label, tuple) else text.label
            raise UserError(
                f"{text.where}: found the label {found!r:.60}, expected {expected}, "
                "as in training. `label_separator` splits those of a column."
            )
        if text.label not in known and not parts["multi_label"]:
            found = f"the label {text.label!r:.60} does not occur in training"
            raise UserError(f"{text.where}: {found}. Set `columns`?")
    unseen = unseen_labels(texts, known)
    if unseen:
        first = next(text for text in texts if unseen[0] in text.labels)
        n_labels = format_count(len(unseen), "labels")
        found = f"{n_labels} that do not occur in training, such as {unseen[0]!r:.60}"
        if not any(known.keys() & text.labels for text in texts):
            raise UserError(f"{first.where}: found {found}, and no others. Set `columns`?")
        log.warning(f"{first.where}: {found}. They cannot be predicted, and count as missed.")


def check_sides(text: Text, pairs: bool) -> None:
    """Raise unless the text is a pair, or not."""
    if len(text.texts) != 1 + bool(pairs):
        expected = (
            "a tuple of two strings"
            if pairs
            else "a string. Join tokens with spaces, and set `lang=none`"
        )
        raise UserError(f"{text.where}: found {text.texts!r:.60}, expected {expected}.")
