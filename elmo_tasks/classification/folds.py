"""Parts of labelled texts: to train on, to select the best epoch, and to score. Class weights.

A tenth of each training part is held out as the dev part if there is none. The test part is scored once, and never used for
selection.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmo_core.checks import import_optional
from elmo_core.messages import UserError, format_count, join_names
from elmo_tasks.classification.texts import Texts
from elmo_tasks.training import HELD_OUT


@dataclass
class Fold:
    """Indices of the texts to train on, to select on, and to score."""

    name: str
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray

    @property
    def scored(self) -> np.ndarray:
        return self.test if len(self.test) else self.dev


def _model_selection():
    return import_optional("sklearn.model_selection", "training a classifier")


def make_folds(data: Texts, folds: int, protocol: str, seed: int) -> list[Fold]:
    labels, indices = data.labels, np.arange(len(data))
    if protocol == "split":  # as in the published scripts: not stratified
        parts = [("split", *_model_selection().train_test_split(indices, test_size=HELD_OUT, random_state=seed))]
    else:
        smallest_class = int(np.bincount(labels).min())
        if not 2 <= folds <= smallest_class // 2:
            enough = f"enough for 2 to {smallest_class // 2:,} folds"
            what = enough if smallest_class >= 4 else "too few: remove it, or give `test`"
            texts = format_count(smallest_class, "texts")
            raise UserError(f"`folds={folds}`: the rarest class has {texts}, which is {what}.")
        splitter = _model_selection().StratifiedKFold(folds, shuffle=True, random_state=seed)
        parts = [(f"fold {k}/{folds}", *split) for k, split in enumerate(splitter.split(indices, labels), 1)]
    return [Fold(name, *hold_out_dev(train, labels, seed), test) for name, train, test in parts]


def only_fold(data: Texts, seed: int, name: str = "") -> Fold:
    """All texts but those of the dev and test sets are trained on."""
    train, dev, test = np.split(np.arange(len(data)), [data.n_train, data.n_train + data.n_dev])
    if not len(dev):
        return Fold(name, *hold_out_dev(train, data.labels, seed), test)
    if len(set(data.labels[dev])) < 2:
        raise UserError("`dev`: all texts have the same label, so it cannot select a model.")
    return Fold(name, train, dev, test)


def hold_out_dev(train: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide the training part into that and a dev part, which is a stratified tenth."""
    counts = np.bincount(labels[train], minlength=labels.max() + 1)
    if counts.min() >= 2 and len(train) * HELD_OUT > len(counts) - 1:
        options = {"test_size": HELD_OUT, "stratify": labels[train], "random_state": seed}
        train, dev = _model_selection().train_test_split(train, **options)
        if len(set(labels[dev])) > 1:
            return train, dev
    raise UserError(
        f"{format_count(len(train), 'texts')}, {counts.min():,} of the rarest class, are too few: a tenth of a training "
        "part must hold several classes. Give `dev`, or remove rare classes."
    )


def weights_of_classes(weights: str | Mapping[str, float] | None, data: Texts) -> np.ndarray | None:
    """Weights (classes,) in the loss from `class_weights`; None without it."""
    if weights is None:
        return None
    if weights == "balanced":
        counts = np.bincount(data.labels[: data.n_train])
        return counts.sum() / (len(counts) * counts)
    if not (isinstance(weights, Mapping) and weights.keys() <= set(data.classes)) or not all(
        isinstance(weight, int | float) and 0 < weight < np.inf for weight in weights.values()
    ):
        expected = f"'balanced', or a weight above 0 for some of the classes {join_names(data.classes)}"
        raise UserError(f"`class_weights` are {weights!r:.80}, expected {expected}.")
    return np.array([weights.get(name, 1.0) for name in data.classes])
