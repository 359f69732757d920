"""N-grams of texts: which ones there are, and their weights, against scikit-learn's."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from elmo_tasks.classification import ngrams
from elmo_tasks.classification.ngrams import NGrams, count

TEXTS = [
    ["The", "room", "was", "quiet", ",", "the", "bed", "was", "not"],
    ["a", "quiet", "room"],
    [],
    ["Never", "again", "!"],
]
CHINESE = [["房间", "很", "安静"], ["不", "安静", "WiFi"], ["好"]]


def vectors(texts, kinds, lang="en", given=None):
    entries = count(texts, kinds, lang)
    given = given or texts
    found = NGrams(entries, len(texts), lang).vectors(given)
    return csr_matrix(found, shape=(len(given), len(entries))).toarray(), entries


def test_words_are_those_of_scikit_learn():
    found, entries = vectors(TEXTS, "words")
    peer = TfidfVectorizer(
        analyzer="word",
        tokenizer=str.split,
        token_pattern=None,
        ngram_range=(1, 2),
        sublinear_tf=True,
    )
    expected = peer.fit_transform([" ".join(tokens) for tokens in TEXTS]).toarray()
    columns = [peer.vocabulary_[name] for _, name, _ in entries]
    assert len(columns) == expected.shape[1]
    np.testing.assert_allclose(found, expected[:, columns], atol=1e-6)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_characters_are_those_of_scikit_learn(lang):
    texts = TEXTS if lang == "en" else CHINESE
    found, entries = vectors(texts, "characters", lang)
    if lang == "en":
        peer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
        joined = [" ".join(tokens) for tokens in texts]
    else:
        peer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
        joined = ["".join(tokens) for tokens in texts]
    expected = peer.fit_transform(joined).toarray()
    names = {name for _, name, _ in entries}
    assert names <= set(peer.vocabulary_)
    # scikit-learn also takes a short word as a whole, of whatever length, with its spaces.
    columns = [peer.vocabulary_[name] for _, name, _ in entries]
    of_both = expected[:, columns]
    lengths = np.linalg.norm(of_both, axis=1, keepdims=True).clip(1e-9)
    np.testing.assert_allclose(found, of_both / lengths, atol=2e-2 if lang == "en" else 1e-6)


def test_words_begin_and_end_with_a_space():
    found = {name for _, name, _ in count([["Ab", "c"]], "characters", "en")}
    assert found == {" a", "ab", "b ", " ab", "ab ", " ab ", " c", "c ", " c "}


def test_both_kinds_have_the_same_weight():
    found, entries = vectors(TEXTS, "both")
    is_word = np.array([kind == "words" for kind, _, _ in entries])
    for of_kind in (is_word, ~is_word):
        squares = (found[:, of_kind] ** 2).sum(axis=1)
        np.testing.assert_allclose(squares, [0.5, 0.5, 0, 0.5], atol=1e-6)


def test_unknown_ngrams_are_left_out_and_case_does_not_matter():
    found, _ = vectors(TEXTS, "words", given=[["A", "QUIET", "room"], ["zebra"]])
    known, _ = vectors(TEXTS, "words")
    np.testing.assert_allclose(found[0], known[1], atol=1e-6)
    assert not found[1].any()


def test_of_many_labels_there_are_fewer(monkeypatch):
    monkeypatch.setattr(ngrams, "MAX_WEIGHTS", 20)
    assert len(count(TEXTS, "both", "en", n_labels=2)) == 20
    assert len(count(TEXTS, "both", "en", n_labels=5)) == 8


def test_equally_frequent_ones_are_in_the_order_of_the_alphabet():
    """Which ones are kept, and their numbers, do not depend on Python's hashes."""
    names = [name for _, name, _ in count([TEXTS[0]], "words", "en")]
    assert names == sorted(names) and len(names) > 10


def test_the_most_frequent_are_kept(monkeypatch):
    monkeypatch.setattr(ngrams, "MAX_NGRAMS", 2)
    assert [(name, n) for _, name, n in count(TEXTS, "words", "en")] == [("quiet", 2), ("room", 2)]
