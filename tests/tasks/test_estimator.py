"""The estimator, as scikit-learn uses it."""

import inspect
import pickle
import random
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer

from elmo import ELMo
from elmo_core.machine.runtime import paddle
from elmo_tasks import ELMoClassifier

TOPICS = {
    "art": "the painter and his museum",
    "sport": "a goal in the match",
    "tech": "new chips for computers",
}
OPTIONS = {
    "elmo": None,
    "word_dim": 6,
    "head": "mean",
    "epochs": 4,
    "lr": 0.05,
    "lang": "none",
    "device": "cpu",
}


def topics(n: int) -> tuple[list[str], list[str]]:
    """Texts whose class each of their words tells, and their classes."""
    generator = random.Random(0)
    labels = [generator.choice(list(TOPICS)) for _ in range(n)]
    return [" ".join(generator.sample(TOPICS[label].split(), 3)) for label in labels], labels


TEXTS, LABELS = topics(60)


@pytest.fixture(scope="module")
def fitted() -> ELMoClassifier:
    return ELMoClassifier(**OPTIONS).fit(TEXTS, LABELS)


def test_fit_returns_the_estimator():
    estimator = ELMoClassifier(**{**OPTIONS, "epochs": 0})
    assert estimator.fit(TEXTS, LABELS) is estimator


def test_it_predicts_the_class_of_each_text(fitted):
    predicted = fitted.predict(TEXTS)
    assert isinstance(predicted, np.ndarray) and predicted.shape == (60,)
    assert np.mean(predicted == LABELS) == fitted.score(TEXTS, LABELS) > 0.7


def test_probabilities_are_in_the_order_of_the_classes(fitted):
    probabilities = fitted.predict_proba(TEXTS)
    assert list(fitted.classes_) == sorted(TOPICS)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(
        fitted.classes_[probabilities.argmax(axis=1)], fitted.predict(TEXTS)
    )


def test_the_same_data_give_the_same_estimator(fitted):
    again = fitted.predict_proba(TEXTS)  # before it is fitted again
    np.testing.assert_array_equal(clone(fitted).fit(TEXTS, LABELS).predict_proba(TEXTS), again)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(TEXTS)


def test_parameters_come_back_as_they_were_given():
    estimator = ELMoClassifier(**OPTIONS)
    assert {
        name: estimator.get_params()[name] for name in OPTIONS
    } == OPTIONS and "lr=0.05" in repr(estimator)
    assert clone(estimator).set_params(lr=0.01).get_params() == {
        **estimator.get_params(),
        "lr": 0.01,
    }
    clone(clone(estimator).set_params(lr=np.float64(0.01)))
    with pytest.raises(TypeError, match="epochs"):
        ELMoClassifier(epoch=3)


def test_its_signature_has_the_settings_and_its_repr_what_differs():
    parameters = inspect.signature(ELMoClassifier).parameters
    assert parameters.keys() == ELMoClassifier().get_params().keys()
    assert (parameters["lr"].annotation, parameters["lr"].default) == (float, 0.001)
    assert repr(ELMoClassifier(lr=0.05)) == "ELMoClassifier(lr=0.05)"


def test_labels_keep_their_type():
    integers = np.array([label == "art" for label in LABELS]).astype(int)
    assert (
        ELMoClassifier(**OPTIONS).fit(np.array(TEXTS), integers).predict(TEXTS[:1]).dtype.kind
        == "i"
    )
    spaced = [f" {label}" for label in LABELS]
    assert ELMoClassifier(**OPTIONS).fit(TEXTS, spaced).score(TEXTS, spaced) > 0.7


def test_several_labels_are_an_indicator_matrix():
    several, sets = [], []
    for (a, b), labels in zip(pairwise(TEXTS), pairwise(LABELS), strict=True):
        several += [a, f"{a} {b}"]
        sets += [labels[:1], set(labels)]
    matrix = MultiLabelBinarizer().fit_transform(sets)
    estimator = ELMoClassifier(**{**OPTIONS, "epochs": 8})
    scores = cross_val_score(estimator, several, matrix, cv=3, scoring="f1_micro")
    assert scores.mean() > 0.8
    for y in (matrix, csr_matrix(matrix)):
        estimator.fit(several, y)
        predicted = estimator.predict(several)
        assert predicted.shape == matrix.shape and set(np.unique(predicted)) == {0, 1}
        assert estimator.score(several, matrix) == np.mean((predicted == matrix).all(axis=1))
    probabilities = estimator.predict_proba(several)
    assert probabilities.sum(axis=1).max() > 1.2
    np.testing.assert_array_equal(probabilities >= estimator.classifier_.threshold, predicted)
    assert estimator.classes_.tolist() == [0, 1, 2]


def test_a_column_without_a_text_is_never_predicted():
    matrix = np.zeros((60, 5), int)
    matrix[:, 1] = [label == "art" for label in LABELS]
    matrix[:, 3] = [label == "tech" for label in LABELS]
    estimator = ELMoClassifier(**OPTIONS).fit(TEXTS, matrix)
    probabilities = estimator.predict_proba(TEXTS)
    assert probabilities.shape == (60, 5) and not probabilities[:, [0, 2, 4]].any()
    assert f1_score(matrix, estimator.predict(TEXTS), average="micro") > 0.5


def test_what_is_no_indicator_matrix_is_an_error():
    with pytest.raises(ValueError, match="MultiLabelBinarizer"):
        ELMoClassifier(**OPTIONS).fit(TEXTS, [["x"], *([label, "x"] for label in LABELS[1:])])
    column = np.array(LABELS)[:, None]
    with pytest.warns(DataConversionWarning):
        estimator = ELMoClassifier(**{**OPTIONS, "epochs": 0}).fit(TEXTS, column)
    assert list(estimator.classes_) == sorted(TOPICS)


def test_a_search_over_folds_and_parameters():
    estimator = ELMoClassifier(**OPTIONS)
    scores = cross_val_score(estimator, TEXTS, LABELS, cv=3)
    assert len(scores) == 3 and scores.mean() > 0.7
    pipeline = make_pipeline(FunctionTransformer(list), estimator)
    search = GridSearchCV(pipeline, {"elmoclassifier__lr": [1e-6, 0.05]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["elmoclassifier__lr"] == 0.05 and search.score(TEXTS, LABELS) > 0.6


def test_a_copy_predicts_the_same(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_allclose(copy.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_a_layer_is_shared_and_stays_as_it_is(small_weights):
    layer = ELMo(small_weights["char"], layers="mix", pool="mean")
    shared = ELMoClassifier(**{**OPTIONS, "elmo": layer, "layers": "mix", "word_dim": 0})
    if not paddle.__version__.startswith("2."):  # which cannot pickle layers
        pickle.loads(pickle.dumps(shared)).fit(TEXTS, LABELS)  # as in a search by several processes
    shared.fit(TEXTS, LABELS)
    assert {weight.optimize_attr["learning_rate"] for weight in layer.parameters()} == {1.0}


def test_the_vectors_of_a_layer_are_computed_once_for_all_folds(small_weights):
    layer = ELMo(small_weights["char"], 0, layers="concat", pool="mean", dropout=0.0)
    cross_val_score(ELMoClassifier(**{**OPTIONS, "elmo": layer, "epochs": 1}), TEXTS, LABELS, cv=2)
    assert len(layer.cached) == len(set(TEXTS))
