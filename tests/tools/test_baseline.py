"""The n-grams that a run is compared with: of all of a text, of a sample, extrapolated."""

import numpy as np
import pytest
import runs

from elmo_core.text.corpus import Corpus, read_ids
from elmo_core.text.kneser_ney import KneserNey
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.pretraining.baseline import DAMPING, Baseline, measure_baseline


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = runs.write_corpus(tmp_path_factory.mktemp("texts") / "corpus", files=2, size=500)
    train = Corpus(folder / "train")
    dev = Corpus(folder / "dev.txt")
    return train, dev, Vocabulary.from_file(folder / "vocab.txt")


def test_a_short_text_is_counted_whole(texts):
    train, dev, vocabulary = texts
    tokens = train.count(vocabulary).tokens
    baseline = measure_baseline(train, dev, vocabulary, tokens=tokens, order=5, limit=tokens)
    ngrams = KneserNey(read_ids(train, vocabulary), len(vocabulary), order=5)
    assert baseline.perplexity == ngrams.perplexity(read_ids(dev, vocabulary))
    of_half = KneserNey(read_ids(train, vocabulary)[::2], len(vocabulary), order=5)
    assert baseline.halved == of_half.perplexity(read_ids(dev, vocabulary))
    assert baseline.sample == baseline.tokens == tokens
    assert baseline.extrapolated(tokens) == baseline.perplexity


def test_a_long_text_is_sampled_from_beginning_to_end(texts):
    train, dev, vocabulary = texts
    tokens = train.count(vocabulary).tokens
    baseline = measure_baseline(train, dev, vocabulary, tokens=tokens, order=2, limit=tokens // 3)
    assert baseline.sample == pytest.approx(tokens / 4, rel=0.1)
    every_fourth = [ids for path in (0, 1) for ids in _ids(texts, path)[::4]]
    ngrams = KneserNey(every_fourth, len(vocabulary), order=2)
    assert baseline.perplexity == ngrams.perplexity(read_ids(dev, vocabulary))


def _ids(texts, path) -> list[np.ndarray]:
    train, _, vocabulary = texts
    return read_ids(Corpus(train.paths[path]), vocabulary)


def test_twice_the_text_is_nearly_as_much_better_as_the_sample_than_its_half():
    baseline = Baseline(
        order=2, unigrams=500.0, perplexity=80.0, halved=100.0, sample=1000, tokens=4000
    )
    assert baseline.extrapolated(2000) == pytest.approx(80 * 0.8**DAMPING)
    assert baseline.extrapolated(4000) == pytest.approx(80 * 0.8 ** (DAMPING + DAMPING**2))
    assert baseline.extrapolated(1000) == 80
