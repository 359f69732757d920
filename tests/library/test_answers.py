"""Questions about words: substitutes against the reference, similar words."""

import itertools
import shutil

import numpy as np
import pytest
import reference
import tiny
from reference import assert_close

import elmo
from elmo import ELMoEmbedder, load_bilm
from elmo_core.messages import UserError
from elmo_core.network.bilm import weights_of
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint

SENTENCES = tiny.SENTENCES


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.parametrize("has_start", [False, True])
def test_substitutes_equal_the_reference(input, has_start, tmp_path):
    """From zeros, or from the start state that the model has."""
    bilm = tiny.random_bilm(input=input)
    parameters = tiny.reference_of(bilm)
    start = None
    weights = weights_of(bilm)
    if has_start:
        arrays, start = tiny.random_start(bilm.config)
        weights.update(arrays)
    sentence = ["the", "unknown", "bank", "of", "苹果"]
    checkpoint.save_model(tmp_path / "m", bilm.config, weights, Vocabulary(tiny.WORDS))
    embedder = ELMoEmbedder(tmp_path / "m", carry_state=True)
    special = tiny.WORDS[:3]
    words = tiny.WORDS[3:]
    for position in range(len(sentence)):
        before = [reference.BOS, *sentence[:position]]
        after = [reference.EOS, *reversed(sentence[position + 1 :])]
        alone = -np.log(reference.log_uniform(len(tiny.WORDS)))
        expected = dict(zip(words, alone[len(special) :], strict=True))
        for direction, tokens in (("forward", before), ("backward", after)):
            rows = [reference.token_vectors(parameters, tokens)]
            state = reference.start_state(parameters, 1, start)
            outputs, _ = reference.run_layers(parameters, direction, rows, state[direction])
            for word in words:
                target = tiny.WORDS.index(word)
                expected[word] -= reference.full_softmax_loss(
                    outputs[-1][0][-1], parameters.softmax, target
                )
        actual = embedder.substitutes(sentence, position, k=99)
        assert [word for word, _ in actual] == sorted(words, key=expected.get, reverse=True)
        assert_close(
            [np.array(score) for _, score in actual],
            [np.array(expected[word]) for word, _ in actual],
        )
        assert not set(special).intersection(dict(actual))
        assert embedder.substitutes(sentence, position, 2) == actual[:2]
        changed = [*sentence[:position], "anything", *sentence[position + 1 :]]
        assert dict(embedder.substitutes(changed, position, k=99)) == pytest.approx(
            dict(actual), abs=1e-5
        )


def test_substitutes_of_a_model_of_ones_own_and_mistakes(model, tmp_path):
    expected = ELMoEmbedder(model).substitutes(SENTENCES[0], 1)
    own = ELMoEmbedder(elmo.load_bilm(model, softmax=True))
    assert own.substitutes(SENTENCES[0], 1) == expected
    no_softmax = ELMoEmbedder(elmo.load_bilm(model))
    bilm = no_softmax.bilm
    checkpoint.save_model(
        tmp_path / "no_softmax", bilm.config, bilm.state_dict(), no_softmax.vocabulary
    )
    for embedder in (no_softmax, ELMoEmbedder(tmp_path / "no_softmax")):
        with pytest.raises(UserError, match="softmax"):
            embedder.substitutes(SENTENCES[0], 1)
    for position, k, word in ((3, 1, "position"), (-1, 1, "position"), (0, 0, "k=")):
        with pytest.raises(UserError, match=word):
            no_softmax.substitutes(SENTENCES[0], position, k)
    with pytest.raises(UserError, match="empty"):
        no_softmax.substitutes([], 0)


def test_the_softmax_is_read_on_first_use(tmp_path, monkeypatch):
    prefix = tiny.save(tiny.random_bilm(), tmp_path / "m")
    expected = ELMoEmbedder(prefix).substitutes(SENTENCES[0], 1)
    monkeypatch.chdir(tmp_path)
    embedder = ELMoEmbedder("m")
    monkeypatch.chdir("/")
    assert embedder.substitutes(SENTENCES[0], 1) == expected
    shutil.rmtree(prefix)
    assert embedder.substitutes(SENTENCES[0], 1) == expected


def test_most_similar_words(model, caplog):
    embedder = ELMoEmbedder(model, device="cpu")
    words = ["river", "unheard", "苹果", "very"]
    vectors = embedder.encode_tokens(["bank", *words])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = dict(zip(words, vectors[1:] @ vectors[0], strict=True))
    found = embedder.most_similar("bank", words=[*words, "bank"])
    assert dict(found) == pytest.approx(expected, abs=1e-5)
    assert [word for word, _ in found] == sorted(words, key=expected.get, reverse=True)
    assert len(embedder.most_similar("bank", topn=3)) == 3 and not caplog.records
    embedder.most_similar("unheard")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "unheard" in caplog.text
    of_words = ELMoEmbedder((tiny.random_bilm(input="word"), Vocabulary(tiny.WORDS)))
    found = of_words.most_similar("bank", words=["unheard", "river"])
    assert [word for word, _ in found] == ["river"]
    with pytest.raises(UserError, match="'unheard'"):
        of_words.most_similar("unheard")
    for word, words in ((["bank"], None), ("bank", "river")):
        with pytest.raises(TypeError, match=r"bank|river"):
            embedder.most_similar(word, words=words)
    with pytest.raises(UserError, match="`words`"):
        ELMoEmbedder(load_bilm(model)).most_similar("bank")


@pytest.mark.parametrize("pool", [None, "mean", "max", "mean_max"])
def test_raw_texts_are_split_into_sentences(model, pool):
    texts = ["“The  bank”… is good. A bank\n the river!", " ", "苹果"]
    sentences = [
        ['"', "The", "bank", '"', "...", "is", "good", "."],
        ["A", "bank"],
        ["the", "river", "!"],
    ]
    first, blank, last = ELMoEmbedder(model, pool=pool).encode_texts(texts, lang="en")
    assert first.tokens == list(itertools.chain.from_iterable(sentences))
    assert blank.tokens == []
    places = [texts[0][begin:end] for begin, end in first.offsets]
    assert places == [
        "“",
        "The",
        "bank",
        "”",
        "…",
        "is",
        "good",
        ".",
        "A",
        "bank",
        "the",
        "river",
        "!",
    ]
    expected = np.concatenate(ELMoEmbedder(model).encode(sentences), axis=1)
    if pool:
        means, maxima = expected.mean(axis=1), expected.max(axis=1)
        both = np.concatenate([means, maxima], axis=1)
        expected = {"mean": means, "max": maxima, "mean_max": both}[pool]
    assert_close([first.vectors], [expected])
    assert_close([last.vectors], ELMoEmbedder(model, pool=pool).encode([["苹果"]]))
    assert not blank.vectors.any() and blank.vectors.shape == ELMoEmbedder(model, pool=pool).shape(
        0
    )
    with pytest.raises(TypeError, match="expected a list of strings"):
        ELMoEmbedder(model).encode_texts("苹果")


def test_raw_text_is_split_in_the_language_of_the_model():
    for name, text, tokens in (
        ("zh", "他在银行工作。", "他 在 银行 工作 。"),
        ("en", "It's good.", "It 's good ."),
    ):
        assert ELMoEmbedder(name).encode_texts([text])[0].tokens == tokens.split()
