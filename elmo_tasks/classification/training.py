"""Training a classifier on a part of labelled texts: the head over fixed inputs, then trained inputs together with it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from elmo_core.machine.runtime import paddle
from elmo_core.settings import first_of, make, setting
from elmo_core.text.tokens import Vocabulary, sentence_batches, shuffled_batches
from elmo_tasks.classification.folds import Fold, weights_of_classes
from elmo_tasks.classification.network import ClassifierSettings, FineTunedELMo
from elmo_tasks.classification.scores import Results
from elmo_tasks.classification.texts import Texts
from elmo_tasks.classification.words import Words
from elmo_tasks.pretrained import PretrainedBiLM, randomise
from elmo_tasks.saved import BILM, WORDS
from elmo_tasks.token_models import load_inputs
from elmo_tasks.training import BestEpoch, Run, TrainingSettings, fit, grid_of, interrupted_run, search

BATCH_SIZE, BATCH_TOKENS = 128, 16384  # most texts and tokens per batch without training
TUNED = "elmo_trainable or word_vectors_trainable"
RATES = {"elmo_lr": "elmo_trainable", "word_vectors_lr": "word_vectors_trainable"}
OF_TUNING = (*RATES, "tune_epochs", "word_dropout", "lstm_dropout")


@dataclass(frozen=True)
class ClassifierTraining(TrainingSettings):
    """Settings of the training. Of several values, the dev set selects one."""

    warmup: ClassVar[float] = 0.1
    final_lr: ClassVar[float] = 0.0
    epochs: int = setting(15, "epochs of the head over fixed inputs; 0: all is trained from the start", minimum=0)
    patience: int = setting(0, "stop after N epochs without improvement on the dev set; 0: never", minimum=0)
    batch_size: int = setting(64, "examples per step")
    lr: float = setting((0.001,), "learning rate", above=0)
    weight_decay: float = setting((0.1,), "weight decay", minimum=0)
    tune_epochs: int = setting(5, "epochs of fine-tuning", needs=TUNED)
    elmo_lr: float = setting((0.0005,), "learning rate of the biLM", above=0, needs="elmo_trainable")
    word_vectors_lr: float = setting(
        (0.0003, 0.001), "learning rate of the word vectors", above=0, needs="word_vectors_trainable"
    )
    max_grad_norm: float = setting(1.0, "clip the gradient norm of each layer of a fine-tuned biLM to this", above=0)
    logging_step: int = setting(0, "steps between log lines; 0: only if it takes long")


SETTINGS = ClassifierSettings, ClassifierTraining


class Trainer:
    """Trains classifiers on parts of labelled texts. A result depends only on the part, its number and the settings.

    options: the arguments of `Classifier.train`.
    """

    def __init__(self, kind: type, data: Texts, options: Mapping[str, Any]):
        self.kind, self.data, self.progress = kind, data, options["progress"]
        weights = weights_of_classes(options["class_weights"], data)
        self.class_weights = None if weights is None else paddle.to_tensor(weights.astype(np.float32))
        self.inputs = load_inputs(options)
        self.pretrained, self.vectors = self.inputs["pretrained"], self.inputs["vectors"]
        names = {field.name for settings in SETTINGS for field in fields(settings)}
        self.options = {name: value for name, value in options.items() if name in names} | {"lang": data.tokeniser.lang}
        self.options["columns"] = "\t".join(options["columns"] or ())
        self.grid = grid_of(self.options, *SETTINGS)
        reads_words = bool(self.vectors or self.options["word_vectors_trainable"] or not self.pretrained)
        self.options |= {"reads_elmo": self.pretrained is not None, "reads_words": reads_words, "pairs": data.are_pairs}
        self.is_tuned = bool(self.options["elmo_trainable"] or self.options["word_vectors_trainable"])
        self.fixed_elmo = self.fixed_words = None

    def encode(self) -> None:
        """Load the fixed inputs, which all classifiers share, and compute what ELMo gives for the texts."""
        settings, sentences = self._settings({}, is_tuned=False), self.data.sentences
        if self.pretrained:
            self.fixed_elmo = make_elmo(settings, self.pretrained)
            self.fixed_elmo.cache(sentences, self.options["cache_gb"])
        if settings.reads_words:
            self.fixed_words = Words(self.vectors, settings.seed, pool=settings.pool)
            self.fixed_words.cache(sentences)
            self.fixed_words.log_unknown(sentences)

    def train(
        self, fold: Fold, number: int = 1, folder=None, resume: bool = False
    ) -> tuple[BestEpoch, BestEpoch | None]:
        """Train on the fold. Returns the best epoch, with its model, and the best one before fine-tuning.

        folder: where the best model so far is saved.
        """
        seed = int(np.random.SeedSequence([self.options["seed"], number]).generate_state(1)[0])
        grid = {name: _several(self.options[name]) for name in ("lr", "weight_decay", "dropout")}
        grid |= {name: values for name, values in self.grid.items() if name not in OF_TUNING}
        tuned = {name: values for name, values in self.grid.items() if name in OF_TUNING and name not in RATES}
        tuned |= {name: _several(self.options[name]) for name, needs in RATES.items() if self.options[needs]}
        best = first = None
        n_first, at = math.prod(map(len, grid.values())), interrupted_run(folder, resume)
        if self.options["epochs"]:
            is_done = at is not None and at >= n_first  # it is repeated, since what follows begins with its result
            first_folder = None if is_done else folder

            def train_head(run: Run, resume: bool) -> BestEpoch:
                return self._fit(fold, run, seed, None, first_folder, resume)

            start = Run(name=fold.name, is_brief=self.options["head"] == "mean")
            best = first = search(train_head, grid, None if is_done else at, start)
        if self.is_tuned:
            grid = tuned if first else grid | tuned
            best = search(
                lambda run, resume: self._fit(fold, run, seed, first, folder, resume, is_tuned=True),
                grid,
                at,
                Run(number=n_first, best=first, name=fold.name),
            )
        return best, first

    def _settings(self, changes: Mapping[str, Any], is_tuned: bool) -> ClassifierSettings:
        options = {**self.options, **changes}
        if not is_tuned:
            options |= {"elmo_trainable": False, "word_vectors_trainable": False}
        return make(ClassifierSettings, {name: first_of(value) for name, value in options.items()})

    def _fit(
        self, fold: Fold, run: Run, seed: int, start: BestEpoch | None, folder, resume: bool, is_tuned=False
    ) -> BestEpoch:
        """Train a new classifier. start: whose head it begins with."""
        changes = {**(start.settings if start else {}), **run.settings}
        values = {**self.options, **changes, "seed": seed}
        values |= {"epochs": values["tune_epochs"]} if is_tuned else {}
        training = make(ClassifierTraining, {name: first_of(value) for name, value in values.items()})
        settings = self._settings(changes, is_tuned)
        paddle.seed(seed)
        sentences = self.data.sentences_of(fold.train)
        words = Vocabulary.frequent(chain.from_iterable(sentences)) if settings.word_vectors_trainable else None
        shared = {} if settings.elmo_trainable else {"elmo_layer": self.fixed_elmo}
        shared |= {} if settings.word_vectors_trainable else {"words_layer": self.fixed_words}
        parts = {"classes": list(self.data.classes), "data": self.data.identity, "words": words, **self.inputs}
        parts |= {"settings": settings, "user_dict": self.data.tokeniser.segment}
        model = self.kind(parts, paddle.get_device(), **shared)
        network = model.network
        if not (start or run.best):
            network.standardise(group for _, group in sentence_batches(sentences, BATCH_SIZE, BATCH_TOKENS, math.inf))
        else:  # `start` gives all weights, an earlier run the statistics
            weights = network.state_dict()
            for name, value in (start or run.best).weights.items():
                is_statistic = name.startswith("inputs.") and name.endswith((".mean", ".deviation"))
                if is_statistic or (start and not name.startswith((BILM, WORDS))):
                    weights[name].set_value(value)
        paddle.seed(seed)

        def loss(indices: np.ndarray) -> paddle.Tensor:
            return network.loss(self.data.sentences_of(indices), self.data.labels[indices], self.class_weights)

        def batches(random: np.random.Generator) -> list[np.ndarray]:
            if settings.pool and not is_tuned:
                return np.array_split(random.permutation(fold.train), math.ceil(len(fold.train) / training.batch_size))
            lengths = [sum(map(len, self.data.sentences_of([k]))) for k in fold.train]  # similar ones are faster
            return [fold.train[positions] for positions in shuffled_batches(lengths, training.batch_size, random)]

        def score(model) -> Results:
            return model.score(self.data, fold.dev)

        return fit(model, batches, loss, score, training, folder, resume, self.progress, run)


def _several(value: Any) -> Sequence:
    return value if isinstance(value, list | tuple) else (value,)


def make_elmo(settings: ClassifierSettings, pretrained: PretrainedBiLM) -> FineTunedELMo:
    """ELMo as the settings say, with pretrained weights or, for an ablation, random ones."""
    options = {"layers": settings.layers, "pool": settings.pool}
    if settings.elmo_trainable:
        options |= {"word_dropout": settings.word_dropout, "layer_dropout": settings.lstm_dropout}
    layer = FineTunedELMo(pretrained.model(), 0, settings.elmo_trainable, **options)
    if settings.random_weights:
        randomise(layer.bilm, settings.random_weights, settings.seed)
    return layer
