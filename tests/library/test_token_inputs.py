"""Sentences as tensors: the same as lists of tokens, bit for bit; what is wrong is named."""

import numpy as np
import pytest
import tiny

from elmo import ELMo
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.characters import CodePoints
from elmo_core.text.vocabulary import Vocabulary

KINDS = {"char": {}, "word": {"input": "word"}, "char+word": {"input": "char+word", "word_dim": 3}}
BATCHES = [tiny.SENTENCES, [], [[]], [[], []], [["the"]], [["<S>", "", "x" * 60], ["bank"] * 9]]


def make(kind: str = "char", **options) -> ELMo:
    vocabulary = Vocabulary(tiny.WORDS)
    return ELMo((tiny.random_bilm(**KINDS[kind]), vocabulary), dropout=0.0, **options)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(
    "options",
    [
        {"n_mixes": 2},
        {"layers": "concat:0,1", "trainable": True},
        {"layers": 0, "pool": "mean"},
        {"layers": "average", "pool": "mean", "trainable": True},
        {"layers": "concat", "pool": "mean_max"},
    ],
    ids=str,
)
def test_tensors_give_what_lists_give(kind, options):
    elmo = make(kind, **options)
    for sentences in BATCHES:
        expected, expected_mask = elmo(sentences)
        outputs, mask = elmo(elmo.inputs(sentences))
        np.testing.assert_array_equal(mask.numpy(), expected_mask.numpy())
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(output.numpy(), wanted.numpy())


def gradients(elmo: ELMo, sentences) -> list[np.ndarray]:
    (vectors,), _ = elmo(sentences)
    (vectors**2).sum().backward()
    found = [weight.grad.numpy() for weight in elmo.parameters() if weight.grad is not None]
    elmo.clear_gradients()
    return found


def test_tensors_train_as_lists_do(kind):
    elmo = make(kind, layers="concat", trainable=True)
    sentences = tiny.SENTENCES
    expected = gradients(elmo, sentences)
    assert len(expected) > 7
    for one, other in zip(gradients(elmo, elmo.inputs(sentences)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_tensors_are_those_that_the_page_describes():
    inputs = make("char+word").inputs([["bank", "zzz"], [], ["苹果"]])
    assert list(inputs) == ["characters", "lengths", "words"]
    assert [x.dtype for x in inputs.values()] == [paddle.int64] * 3
    assert inputs["lengths"].tolist() == [2, 0, 1]
    assert inputs["words"].tolist() == [[4, 2], [0, 0], [7, 0]]
    assert inputs["characters"].shape == [3, 2, 50]
    bank = [259, *(byte + 1 for byte in b"bank"), 260]
    assert inputs["characters"][0, 0].tolist() == bank + [261] * 44
    assert (inputs["characters"][1].numpy() == 261).all()


def test_what_stands_beyond_a_sentence_is_ignored(kind):
    """So rows of several `inputs` can be put together, whatever they are padded with."""
    elmo = make(kind)
    sentences = [["the", "river"], ["bank"]]
    inputs = elmo.inputs(sentences)
    (expected,), _ = elmo(sentences)
    for name in set(inputs) - {"lengths"}:
        array = inputs[name].numpy()
        wider = np.full((2, 4, *array.shape[2:]), 7, array.dtype)
        wider[:, :2] = array
        wider[1, 1] = -5
        inputs[name] = paddle.to_tensor(wider)
    (vectors,), mask = elmo(inputs)
    np.testing.assert_array_equal(vectors.numpy(), expected.numpy())
    assert mask.tolist() == [[1, 1], [1, 0]]


def test_vectors_do_not_depend_on_the_batch(kind):
    elmo = make(kind)
    sentence = tiny.SENTENCES[2]
    (alone,), _ = elmo(elmo.inputs([sentence]))
    (together,), _ = elmo(elmo.inputs([["a"] * 30, sentence, []]))
    np.testing.assert_allclose(together[1, :7].numpy(), alone[0].numpy(), rtol=1e-5, atol=1e-6)
    assert not together[1, 7:].numpy().any()


def test_arrays_and_int32_will_do(kind):
    elmo = make(kind)
    (expected,), _ = elmo(tiny.SENTENCES)
    inputs = {name: x.numpy().astype(np.int32) for name, x in elmo.inputs(tiny.SENTENCES).items()}
    (vectors,), _ = elmo(inputs)
    np.testing.assert_array_equal(vectors.numpy(), expected.numpy())


def test_unknown_words_are_counted_and_truncated_ones_named(messages):
    elmo = make("char+word")
    elmo.inputs([["the", "zzz", "x" * 60, "bank"]])
    assert elmo.oov_share == 0.5
    assert "truncated" in messages()


def test_characters_of_a_table():
    names = dict(zip(CodePoints.NAMES, range(6), strict=True))
    vocabulary = Vocabulary(tiny.WORDS, alphabet=CodePoints({**names, "b": 6, "a": 7}))
    changes = {"alphabet": "code points", "n_characters": 8, "input": "char+word", "word_dim": 3}
    elmo = ELMo((tiny.random_bilm(**changes), vocabulary), dropout=0.0)
    sentences = [["ab", "a苹"], ["bank", "baa" * 30]]
    (expected,), _ = elmo(sentences)
    (vectors,), _ = elmo(elmo.inputs(sentences))
    np.testing.assert_allclose(vectors.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match="characters are not those"):
        elmo(make("char+word").inputs(sentences))


def changed(name: str, change) -> dict:
    inputs = make("char+word").inputs([["the", "river"], ["bank"]])
    inputs[name] = change(inputs[name].numpy())
    return inputs


def set_to(position, value):
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[position] = value
        return array

    return change


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({}, "found nothing; expected characters, lengths, words"),
        (make().inputs([["the"]]), "found characters, lengths;"),
        ({**make("char+word").inputs([["the"]]), "labels": 1}, "words, labels;"),
        (changed("characters", lambda x: x[..., :30]), "characters has the shape"),
        (changed("characters", lambda x: x[0]), "characters has the shape"),
        (changed("words", lambda x: x[:, :1]), "words has the shape"),
        (changed("words", lambda x: x.astype(np.float32)), "words has float32"),
        (changed("words", lambda x: x.tolist()), "words has list"),
        (changed("words", set_to((0, 1), 12)), "a word is outside 0 to 11"),
        (changed("words", set_to((0, 1), -1)), "a word is outside 0 to 11"),
        (changed("lengths", set_to(0, 3)), "a length is outside 0 to 2"),
        (changed("lengths", set_to(1, -1)), "a length is outside 0 to 2"),
        (changed("lengths", set_to(1, 2)), "characters are not those"),  # it reads padding
        (changed("lengths", lambda x: x[:, None]), "lengths has the shape"),
        (changed("characters", set_to((0, 1, 3), 262)), "characters are not those"),
        (changed("characters", set_to((0, 1, 3), -1)), "characters are not those"),
        (changed("characters", set_to((0, 1, 3), 261)), "characters are not those"),
        (changed("characters", set_to((0, 1, 0), 5)), "characters are not those"),
        (changed("characters", set_to((0, 1, 6), 5)), "characters are not those"),
    ],
)
def test_wrong_tensors_are_named(inputs, named):
    with pytest.raises(UserError, match=named):
        make("char+word")(inputs)


def test_another_model_is_named():
    with pytest.raises(UserError, match="found characters, lengths; expected lengths, words"):
        make("word")(make().inputs([["the"]]))
    smaller = ELMo((tiny.random_bilm(input="word", vocab_size=5), Vocabulary(tiny.WORDS[:5])))
    with pytest.raises(UserError, match="a word is outside 0 to 4"):
        smaller(make("word").inputs([["苹果"]]))


def test_weights_that_were_rounded_are_named():
    elmo = make(trainable=True)
    elmo.to(dtype="bfloat16")
    with pytest.raises(UserError, match="excluded_layers"):
        elmo(elmo.inputs([["the"]]))
