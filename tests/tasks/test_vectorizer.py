"""ELMo's vectors of texts in scikit-learn."""

import pickle

import numpy as np
import pytest
import tiny
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint
from elmo_tasks import ELMoVectorizer

TEXTS = ["The bank is good.", "", "A 苹果. The bank."] * 4
WORDS = tiny.WORDS[3:]
KIND = [" ".join(np.random.default_rng(k).choice(WORDS, 6)) for k in range(30)]  # to fit on
RAW = {"weighting": None, "standardize": False, "norm": None, "lang": "any"}


def pooled(embedder: ELMoEmbedder, texts: list[str]) -> np.ndarray:
    return np.array([text.vectors.ravel() for text in embedder.encode_texts(texts, "any")])


@pytest.mark.slow
def test_it_works_in_a_pipeline_in_several_processes(model):
    vectorizer = clone(ELMoVectorizer(model, layers=[0, -1], pool="max", lang="any"))
    assert vectorizer.get_params()["layers"] == [0, -1]
    vectors = vectorizer.fit_transform(TEXTS)
    assert vectors.shape == (12, 28) and vectorizer.transform([]).shape == (0, 28)
    pipeline = make_pipeline(vectorizer, LogisticRegression(C=100))
    assert cross_val_score(pipeline, TEXTS, [0, 1, 2] * 4, cv=2, n_jobs=2).tolist() == [1, 1]


@pytest.mark.parametrize("options", [{"layers": [0, -1], "pool": "max"}, {"layers": "average"}])
def test_without_its_steps_it_is_an_embedder(model, options):
    vectorizer = ELMoVectorizer(model, **RAW, **options).fit(TEXTS)
    embedder = ELMoEmbedder(model, **{"pool": "mean", **options})
    np.testing.assert_array_equal(vectorizer.transform(TEXTS), pooled(embedder, TEXTS))


def test_by_default_vectors_are_weighted_standardised_and_of_length_one(word_model):
    vectorizer = ELMoVectorizer(word_model, lang="any")
    found = vectorizer.fit_transform(KIND)
    embedder = ELMoEmbedder(word_model, layers="concat", pool="mean", weighting="sif")
    of_kind = pooled(embedder, KIND)
    standardised = (of_kind - of_kind.mean(axis=0)) / of_kind.std(axis=0)
    expected = standardised / np.linalg.norm(standardised, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found.dtype == np.float32
    assert list(vectorizer.get_feature_names_out()) == [f"elmo{k}" for k in range(42)]


def test_a_text_has_the_same_vector_whatever_else_is_transformed(word_model):
    vectorizer = ELMoVectorizer(word_model, lang="any")
    together = vectorizer.fit_transform(KIND)
    copy = pickle.loads(pickle.dumps(vectorizer))
    for k in (0, 7):
        np.testing.assert_allclose(vectorizer.transform(KIND[k : k + 1]), together[[k]], atol=1e-5)
        np.testing.assert_allclose(
            copy.transform([KIND[k], "The bank."])[:1], together[[k]], atol=1e-5
        )


def test_a_text_without_words_is_zero_and_has_no_part_in_the_statistics(word_model):
    with_blanks = ELMoVectorizer(word_model, lang="any").fit(["", *KIND, " "])
    without = ELMoVectorizer(word_model, lang="any").fit(KIND)
    found = with_blanks.transform(["", KIND[0]])
    assert not found[0].any()
    np.testing.assert_allclose(found[1:], without.transform(KIND[:1]), atol=1e-5)


def test_few_texts_are_not_standardised_but_a_warning_says_so(word_model, messages):
    """Two of them would always be opposites."""
    found = ELMoVectorizer(word_model, lang="any").fit_transform(["The bank.", "A bank."])
    assert "2 texts" in messages()
    expected = ELMoVectorizer(word_model, lang="any", standardize=False).fit_transform(
        ["The bank.", "A bank."]
    )
    np.testing.assert_array_equal(found, expected)


def test_a_model_without_words_weights_all_tokens_the_same(tmp_path):
    bilm = tiny.random_bilm()
    checkpoint.save_model(tmp_path / "m", bilm.config, bilm.state_dict(), None)
    vectorizer = ELMoVectorizer(tmp_path / "m", standardize=False, norm=None, lang="any")
    found = vectorizer.fit_transform(KIND)
    embedder = ELMoEmbedder(tmp_path / "m", layers="concat", pool="mean")
    np.testing.assert_array_equal(found, pooled(embedder, KIND))


def test_mistakes_are_named(model):
    with pytest.raises(NotFittedError):
        ELMoVectorizer(model).transform(TEXTS)
    for setting, value in (
        ("pool", None),
        ("weighting", "tfidf"),
        ("norm", "l1"),
        ("lang", "fr"),
        ("user_dict", ["云原生 10 n"]),
    ):
        with pytest.raises(UserError, match=setting):
            ELMoVectorizer(model, **{setting: value}).fit(TEXTS)


@pytest.mark.parametrize("text, name", [("The room was quiet.", "en"), ("房间很安静。", "zh")])
def test_the_model_is_that_of_the_language(text, name):
    found = ELMoVectorizer().fit_transform([text])
    expected = ELMoVectorizer(name).fit_transform([text])
    np.testing.assert_array_equal(found, expected)
