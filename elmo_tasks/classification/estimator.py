"""The classifier in scikit-learn."""

import inspect
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.settings import ClassifierSettings


class ELMoClassifier(ClassifierMixin, BaseEstimator):
    """A `Classifier` for `cross_val_score`, `GridSearchCV` and pipelines.

    It classifies texts, or pairs of texts. If several labels can apply to a text, `y` and the
    predictions are an indicator matrix (n, labels), as `MultiLabelBinarizer` makes it.

        cross_val_score(ELMoClassifier(), texts, labels, cv=5)

    Its parameters are the fields of `ClassifierSettings`, and `device`. With an `ELMo` layer and
    its cache as `elmo`, vectors are computed once for all folds.
    """

    def __init__(self, *, device: str = "auto", **settings: Any):
        # As they are given, for `clone`.
        values = {**vars(ClassifierSettings(**settings)), **settings}
        for name, value in values.items():
            setattr(self, name, value)
        self.device = device

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(["device", *(field.name for field in fields(ClassifierSettings))])

    def fit(self, X: Iterable[Any], y: Any) -> "ELMoClassifier":
        values = self.get_params(deep=False)
        device = values.pop("device")
        is_matrix = type_of_target(y) == "multilabel-indicator"
        labels = y
        if is_matrix:
            matrix = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
            labels = [np.flatnonzero(row) for row in matrix]
        elif np.ndim(y) > 1:
            labels = column_or_1d(y, warn=True)
        self.classifier_ = Classifier.train(
            X, labels, settings=ClassifierSettings(**values), progress=False, device=device
        )
        self.classes_ = (
            np.arange(matrix.shape[1]) if is_matrix else np.array(self.classifier_.labels)
        )
        return self

    def predict(self, X: Iterable[Any]) -> np.ndarray:
        """The label of each text (n,), or whether each label applies (n, labels)."""
        probabilities = self.predict_proba(X)
        if self.classifier_.parts["multi_label"]:
            return (probabilities >= self.classifier_.threshold).astype(int)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Iterable[Any]) -> np.ndarray:
        """The probabilities of the labels (n, labels); 0 of a column that was empty in `fit`."""
        check_is_fitted(self)
        probabilities = self.classifier_.predict_proba(X)
        if not self.classifier_.parts["multi_label"]:
            return probabilities
        all_columns = np.zeros((len(probabilities), len(self.classes_)), np.float32)
        all_columns[:, self.classifier_.labels] = probabilities
        return all_columns

    def __sklearn_clone__(self) -> "ELMoClassifier":  # with the same ELMo layer, not a copy of it
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        tags.non_deterministic = False
        return tags


def _signature() -> inspect.Signature:
    """The parameters with their types and defaults.

    Completion, help, and scikit-learn's `repr` read them.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for field in fields(ClassifierSettings):
        parameters.append(
            inspect.Parameter(field.name, keyword, default=field.default, annotation=field.type)
        )
    parameters.append(inspect.Parameter("device", keyword, default="auto", annotation=str))
    return inspect.Signature(parameters)


ELMoClassifier.__init__.__signature__ = _signature()
