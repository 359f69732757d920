"""Cached vectors of tokens, and the count of tokens that the model does not know."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny
from reference import assert_close

import elmo
from elmo import ELMo, ELMoEmbedder
from elmo_core.encoding import token_tables
from elmo_core.text.vocabulary import Vocabulary

SENTENCES = tiny.SENTENCES


def test_remembered_vectors_are_bounded_and_change_nothing(model, monkeypatch):
    sentences = [[f"w{k}", f"v{k % 7}", "the"] for k in range(300)]
    expected = ELMoEmbedder(model).encode(sentences)
    monkeypatch.setattr(token_tables, "CACHE_BYTES", 4 * 7 * 40)
    embedder = ELMoEmbedder(model, batch_size=8)
    assert_close(embedder.encode(sentences), expected)
    assert len(embedder.token_table.row_of) <= 40


@pytest.mark.parametrize("kind", [ELMoEmbedder.encode, ELMo.forward])
def test_truncated_tokens_are_reported_once(model, caplog, kind):
    embedder = ELMo(model) if kind is ELMo.forward else ELMoEmbedder(model)
    for _ in range(2):
        kind(embedder, [["x" * 49, "the", "好" * 17], ["x" * 48]])
    messages = [record.message[:8] for record in caplog.records if "truncated" in record.message]
    assert messages == ["2 tokens"] and embedder.oov_share == 0


def test_threads_count_unknown_words_together(model):
    config = tiny.random_bilm(input="word").config
    counter = token_tables.OOVCounter(config, Vocabulary(tiny.WORDS))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(counter.update, [["the", "unknown"]] * 20_000))
    finally:
        sys.setswitchinterval(interval)
    assert (counter.total, counter.unknown) == (40_000, 20_000)


@pytest.mark.parametrize(
    ("model", "tokens", "problem"),
    [
        ("en", ["今天", "天气", "很", "好"], "another language"),
        ("zh", ["今天天气很好，我们去公园。"], "segmented"),
        ("zh", ["今天", "天气", "很", "好"], None),
        ("en", ["The", "acting", "is", "zxqwv", "."], None),
    ],
)
def test_text_that_the_model_cannot_read_is_warned_of_once(model, tokens, problem, messages):
    embedder = ELMoEmbedder(model)
    for _ in range(2):
        embedder.encode([tokens])
    if problem:
        assert messages().count(problem) == 1
    else:
        assert not messages()
    unknown = [token for token in tokens if token not in embedder.vocabulary]
    assert embedder.oov_share == len(unknown) / len(tokens)


def test_a_word_model_reports_its_unknown_words(tmp_path):
    prefix = tiny.save(tiny.random_bilm(input="word"), tmp_path)
    sentence = ["the", "bank", "unknown", "words"]
    embedder = ELMoEmbedder(prefix)
    layer = ELMo(prefix)
    embedder.encode([sentence])
    layer([sentence])
    assert embedder.oov_share == layer.oov_share == 0.5


def test_an_embedder_follows_weights_that_change(model):
    """Its cache of token vectors is cleared when the model's weights change."""
    bilm, vocabulary = elmo.load_bilm(model)
    embedder = ELMoEmbedder((bilm, vocabulary))
    before = embedder.encode(SENTENCES)
    bilm.token_encoder.projection.weight.set_value(bilm.token_encoder.projection.weight * 2)
    after = embedder.encode(SENTENCES)
    assert np.abs(before[0] - after[0]).max() > 0.1
    assert_close(after, ELMoEmbedder((bilm, vocabulary)).encode(SENTENCES), 1e-5)
