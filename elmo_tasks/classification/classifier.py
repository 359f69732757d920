"""A trained classifier: network, classes and tokeniser, in memory and as a folder.

FOLDER/       as in elmo_tasks/saved.py, and
  vocab.txt   the words whose vectors were trained; their vectors are the weight "words.table"
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.checks import check_texts
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.language import AUTO
from elmo_core.text.tokens import Vocabulary, sentence_batches
from elmo_core.weights import checkpoint
from elmo_tasks.classification.network import ClassifierNetwork, ClassifierSettings, FineTunedELMo
from elmo_tasks.classification.protocol import CrossValidation, cross_validate
from elmo_tasks.classification.scores import Results
from elmo_tasks.classification.texts import Labelled, Texts, as_texts, load_texts, read_known, tokenise_texts
from elmo_tasks.classification.training import BATCH_SIZE, BATCH_TOKENS, ClassifierTraining, make_elmo
from elmo_tasks.classification.words import Words
from elmo_tasks.saved import TrainedModel, part
from elmo_tasks.training import Progress, Several

TEXTS_PER_GROUP = 4096
Text = str | tuple[str, str]  # or a pair


class Classifier(TrainedModel):
    """Predicts the classes of texts, or of pairs of texts.

        classifier = Classifier("runs/reviews")
        classifier.predict(["The room was quiet and clean."])  # ["good"]

    words: those whose vectors were trained. data: identity of the texts it was trained on.
    """

    kind = "classifier"
    listed = (
        "predict",
        "iter_predict",
        "probabilities",
        "predict_proba",
        "explain",
        "classes",
        "cross_validate",
        "evaluation",
    )
    settings_type = ClassifierSettings
    evaluation: CrossValidation | None = None  # of `train`

    settings: ClassifierSettings
    classes: list[str] = part(list)
    data: str = part(str, default="")
    words: Vocabulary | None = part(Vocabulary, checkpoint.VOCABULARY, default=None)

    def make_network(self, elmo_layer: FineTunedELMo | None = None, words_layer: Words | None = None):
        settings = self.settings
        if self.pretrained and elmo_layer is None:
            elmo_layer = make_elmo(settings, self.pretrained)
        with self.building():
            if settings.reads_words and words_layer is None:
                words_layer = Words(self.vectors, settings.seed, self.words, settings.pool, settings.word_dropout)
            return ClassifierNetwork(settings, len(self.classes), elmo_layer, words_layer)

    @classmethod
    def train(
        cls,
        texts: Path | str | Sequence[Text],
        labels: Sequence[str | int] | None = None,
        *,
        dev: Labelled | None = None,
        test: Labelled | None = None,
        columns: Sequence[str] | None = None,
        elmo: Path | str | None = None,
        save_dir: Path | str | None = None,
        overwrite: bool = False,
        resume: bool = False,
        progress: Progress | None = None,
        device: str = "auto",
        lang: str = AUTO,
        user_dict: Path | str | Sequence[str] | None = None,
        max_seq_len: int = ClassifierSettings.max_seq_len,
        class_weights: str | Mapping[str, float] | None = None,
        head: str = ClassifierSettings.head,
        head_dim: int = ClassifierSettings.head_dim,
        hidden_dim: int = ClassifierSettings.hidden_dim,
        dropout: Several = ClassifierSettings.dropout,
        layers: str = ClassifierSettings.layers,
        elmo_dropout: Several = ClassifierSettings.elmo_dropout,
        elmo_l2_coef: Several = ClassifierSettings.elmo_l2_coef,
        elmo_trainable: bool = ClassifierSettings.elmo_trainable,
        elmo_lr: Several = ClassifierTraining.elmo_lr,
        lstm_dropout: Several = ClassifierSettings.lstm_dropout,
        random_weights: str = ClassifierSettings.random_weights,
        cache_gb: float = ClassifierTraining.cache_gb,
        word_vectors: Path | str | None = None,
        word_vectors_limit: int | None = None,
        word_vectors_trainable: bool = ClassifierSettings.word_vectors_trainable,
        word_vectors_lr: Several = ClassifierTraining.word_vectors_lr,
        word_dropout: Several = ClassifierSettings.word_dropout,
        epochs: int = ClassifierTraining.epochs,
        tune_epochs: int = ClassifierTraining.tune_epochs,
        patience: int = ClassifierTraining.patience,
        batch_size: int = ClassifierTraining.batch_size,
        lr: Several = ClassifierTraining.lr,
        weight_decay: Several = ClassifierTraining.weight_decay,
        max_grad_norm: float = ClassifierTraining.max_grad_norm,
        logging_step: int = ClassifierTraining.logging_step,
        seed: int = ClassifierTraining.seed,
    ) -> "Classifier":
        """Train a classifier. It has the weights of the epoch with the highest ROC AUC on the dev set.

            classifier = Classifier.train(texts, labels, elmo="en-reviews", save_dir="runs/tickets")
            classifier.scores["dev"]["accuracy"]

        texts, labels: strings, or pairs of strings, and their labels; or a file that has both, see docs/finetune.md.
        dev, test: a file, or a pair of texts and labels. Without dev, a tenth of the texts is held out.
        columns: of files: names or numbers of the columns of text, label and, for pairs, second text.
        elmo: a checkpoint, or a model's name; None: no ELMo.
        save_dir: folder of the classifier; without one, nothing is written. overwrite: replace the classifier there.
        resume: continue an interrupted training.
        progress: called with the scores of each epoch.
        lang: how texts are tokenised: en, zh, characters, any or none (auto: recognised). user_dict: words
        for jieba, which tokenises zh: a file, or a list of its lines. max_seq_len: truncate texts to so many tokens.
        class_weights: of classes in the loss (others: 1), or "balanced": equal total weight of all classes.
        head: how a text's token vectors become one: their mean; max; attention, a mean with one trained weight per token;
        lstm, the maximum over the states of a BiLSTM; cnn, the maximum over filters of three to five tokens. head_dim: size
        of lstm in each direction, and filters of each width of cnn. hidden_dim: size of the last layer, 0: none.
        layers: concat, mix, average, top, a number, or some layers, as in concat:0,1. elmo_trainable: fine-tune the biLM,
        with elmo_lr and with lstm_dropout between its layers. random_weights: ablation: all, or lstm. cache_gb: memory for
        the layers of a frozen biLM; what needs more is computed in each epoch.
        word_vectors: a file in word2vec's or GloVe's format; word_vectors_limit: only its first N. word_vectors_trainable:
        train them, with word_vectors_lr; without a file, words are learnt from random vectors. word_dropout: share of a
        batch's words that are dropped in fine-tuning.
        epochs: of the head over fixed inputs; tune_epochs: then, of all that is trainable. With epochs=0, all is trained
        from the start.

        Of several values, as in lr=[0.001, 0.003], the dev set selects one.
        """
        options = {name: value for name, value in locals().items() if name != "cls"}
        run = cross_validate(cls, options, protocol="train")
        run.classifier.evaluation = run
        return run.classifier

    @classmethod
    def cross_validate(
        cls,
        texts: Path | str | Sequence[Text],
        labels: Sequence[str | int] | None = None,
        *,
        folds: int = 10,
        protocol: str = "cv",
        results: Path | str | None = None,
        compare_with: Sequence[Path | str] = (),
        **options: Any,
    ) -> CrossValidation:
        """Train on each fold's training part, and score its test part.

            Classifier.cross_validate(texts, labels, folds=5, elmo="en-reviews").accuracies

        protocol: cv; split: a single split, as in the published scripts; or train: `test` or else `dev` is scored, which is
        also done if either is given.
        results: a JSON file of scores and predictions. compare_with: such files of other runs.
        options: those of `train`. With save_dir, a classifier is then trained on all texts and saved. With results or
        save_dir, finished folds are kept if this is interrupted, and resume=True continues.
        """
        defaults = {"labels": None, **cls.train.__kwdefaults__}
        if unknown := sorted(options.keys() - defaults.keys()):
            raise TypeError(f"cross_validate: {unknown[0]!r} is unknown. Expected the options of `train`.")
        options = {**defaults, "texts": texts, "labels": labels, **options}
        if options["dev"] is not None or options["test"] is not None:
            protocol = "train"
        return cross_validate(cls, options, protocol, folds, results and Path(results), list(map(Path, compare_with)))

    def predict(self, texts: Sequence[Text]) -> list[str]:
        """The class of each text; of each tuple of two texts if the classifier is of pairs."""
        return [self.classes[row.argmax()] for row in self.probabilities(texts)]

    def iter_predict(self, texts: Iterable[Text]) -> Iterator[str]:
        """Yield the same for any number of texts."""
        if isinstance(texts, str):
            self.predict(texts)  # a TypeError
        texts = iter(texts)
        while group := list(islice(texts, TEXTS_PER_GROUP)):
            yield from self.predict(group)

    def probabilities(self, texts: Sequence[Text]) -> np.ndarray:
        """Probabilities (n, classes), whose columns are in the order of `classes`."""
        pairs, max_tokens = self.settings.pairs, self.settings.max_seq_len
        texts = check_texts(texts, ("text", "text2") if pairs else ("text",))
        arrays = [np.zeros((0, len(self.classes)), np.float32)]
        for k in range(0, len(texts), TEXTS_PER_GROUP):
            group = texts[k : k + TEXTS_PER_GROUP]
            stacked = list(chain.from_iterable(zip(*group, strict=True))) if pairs else group
            arrays.append(self._probabilities(tokenise_texts(stacked, self.tokeniser, max_tokens)))
        return np.concatenate(arrays)

    predict_proba = probabilities  # as in scikit-learn

    def _probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """The same for tokenised texts; for pairs, all first texts are followed by all second ones."""
        n = len(sentences) // (2 if self.settings.pairs else 1)
        rows = np.arange(len(sentences)).reshape(-1, n).T if n else np.zeros((0, 1), int)  # (n, 1 or 2)
        longest = [max(len(sentences[k]) for k in row) for row in rows]
        probabilities = np.zeros((n, len(self.classes)), np.float32)
        for positions, _ in sentence_batches(longest, BATCH_SIZE, BATCH_TOKENS, math.inf, int):
            batch = [sentences[k] for k in rows[positions].T.ravel()]
            with self.inference():
                probabilities[positions] = paddle.nn.functional.softmax(self.network(batch)).numpy()
        return probabilities

    def explain(self, text: Text) -> list[tuple[str, float]] | tuple[list[tuple[str, float]], ...]:
        """The tokens of a text with their weights; of a pair, those of either text.

        With the head `attention`, the weights are those of the mean, and sum to 1. Otherwise a weight is the decrease of
        the predicted class's probability if the token's standardised vector is replaced with zeros.
        """
        check_texts([text], ("text", "text2") if self.settings.pairs else ("text",))
        parts = text if self.settings.pairs else [text]
        sentences = tokenise_texts(parts, self.tokeniser, self.settings.max_seq_len)
        with self.inference():
            weights = self.network.explain(sentences)
        pairs = [list(zip(tokens, row, strict=True)) for tokens, row in zip(sentences, weights, strict=True)]
        return tuple(pairs) if self.settings.pairs else pairs[0]

    @property
    def columns(self) -> list[str]:
        """The columns of the training file, if they were named."""
        return self.settings.columns.split("\t") if self.settings.columns else []

    def evaluate(
        self,
        texts: Path | str | Sequence[Text],
        labels: Sequence[str | int] | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Score the classifier on texts and their labels, or on a file that has both, read as by `train`."""
        return self.score(self.read(texts, labels, columns)).to_dict()

    def read(self, texts: Path | str | Sequence[Text], labels: Sequence[str | int] | None, columns=None) -> Texts:
        """Read and tokenise labelled texts."""
        source = load_texts((texts, labels) if labels is not None else texts, "texts")
        examples = read_known(source, columns, self.classes, self.settings.pairs, self.columns)
        return as_texts(examples, self.classes, self.tokeniser, self.settings.max_seq_len, source)

    def score(self, data: Texts, indices: np.ndarray | None = None) -> Results:
        """Score the classifier on labelled texts, or on some of them."""
        indices = np.arange(len(data)) if indices is None else indices
        probabilities = self._probabilities(data.sentences_of(indices))
        if not np.isfinite(probabilities).all():
            raise UserError(
                "the classifier's predictions are not finite: use a lower `lr`, `elmo_lr` or `word_vectors_lr`."
            )
        return Results(data.identity, indices, data.labels[indices], probabilities, data.classes)
