"""ELMo's vectors of texts in scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_tasks import ELMoVectorizer

TEXTS = ["The bank is good.", "", "A 苹果. The bank."] * 4


@pytest.mark.slow
def test_it_works_in_a_pipeline_in_several_processes(model):
    vectorizer = clone(ELMoVectorizer(model, layers=[0, -1], pool="max", lang="any"))
    assert vectorizer.get_params()["layers"] == [0, -1]
    vectors = vectorizer.fit_transform(TEXTS)
    embedder = ELMoEmbedder(model, layers="0,2", pool="max")
    (expected,) = embedder.encode([["The", "bank", "is", "good", "."]])
    np.testing.assert_allclose(vectors[0], expected.ravel(), atol=1e-5)
    assert vectors.shape == (12, 28) and vectorizer.transform([]).shape == (0, 28)
    pipeline = make_pipeline(vectorizer, LogisticRegression())
    assert cross_val_score(pipeline, TEXTS, [0, 1, 2] * 4, cv=2, n_jobs=2).tolist() == [1, 1]


def test_mistakes_are_named(model):
    with pytest.raises(NotFittedError):
        ELMoVectorizer(model).transform(TEXTS)
    for setting, value in (("pool", None), ("lang", "fr"), ("user_dict", ["云原生 10 n"])):
        with pytest.raises(UserError, match=setting):
            ELMoVectorizer(model, **{setting: value}).fit(TEXTS)


@pytest.mark.parametrize("text, name", [("The room was quiet.", "en"), ("房间很安静。", "zh")])
def test_the_model_is_that_of_the_language(text, name):
    found = ELMoVectorizer().fit_transform([text])
    expected = ELMoVectorizer(name).fit_transform([text])
    np.testing.assert_array_equal(found, expected)
