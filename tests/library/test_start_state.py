"""The start state: the mean of the states behind sentences, as the reference computes them."""

import numpy as np
import pytest
import reference
import tiny

from elmo import ELMoEmbedder, UserError, load_bilm
from elmo_core.encoding.encoder import START_STEPS, START_TOKENS, mean_start_state
from elmo_core.network.bilm import make_bilm, weights_of
from elmo_core.network.start_state import NAMES, StartState
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint

VOCABULARY = Vocabulary(tiny.WORDS)


def states_behind(parameters, sentences: list[list[str]]) -> dict[str, list]:
    """Per direction, of each sentence in a row the (h, c) of each layer behind its last word."""
    found = {}
    for direction in reference.DIRECTIONS:
        state = reference.start_state(parameters, 1)[direction]
        found[direction] = []
        for sentence in sentences:
            words = [reference.BOS, *sentence]
            if direction == "backward":
                words = [reference.EOS, *sentence[::-1]]
            vectors = [reference.token_vectors(parameters, words)]
            _, state = reference.run_layers(parameters, direction, vectors, state)
            found[direction].append(state)
    return found


def expected_start(parameters, rows: list[list[list[str]]], skipped: int) -> list[np.ndarray]:
    """The mean h and c over the sentences of the rows, but for the first ones of each."""
    states = [states_behind(parameters, row) for row in rows]
    means = []
    for part in (0, 1):
        layers = []
        for layer in range(len(parameters.lstm["forward"])):
            sides = []
            for direction in reference.DIRECTIONS:
                values = []
                for row in states:
                    values += [behind[layer][part] for behind in row[direction][skipped:]]
                sides.append(np.concatenate(values).mean(axis=0))
            layers.append(sides)
        means.append(np.array(layers))
    return means


def text(n: int) -> list[list[str]]:
    """Sentences of one to four words."""
    words = tiny.WORDS[3:]
    return [[words[(3 * k + i) % len(words)] for i in range(1 + k % 4)] for k in range(n)]


@pytest.mark.parametrize("input", ["char", "word"])
def test_it_is_the_mean_behind_sentences(input):
    """Two rows; blank sentences are not read, and the first sentence of a row does not count."""
    bilm = tiny.random_bilm(input=input)
    sentences = text(2 * START_STEPS)
    with_blanks = [sentences[0], [], *sentences[1:]]
    start = mean_start_state(bilm, VOCABULARY, with_blanks)
    rows = [sentences[::2], sentences[1::2]]
    h, c = expected_start(tiny.reference_of(bilm), rows, skipped=1)
    np.testing.assert_allclose(start.h, h, atol=1e-5)
    np.testing.assert_allclose(start.c, c, atol=1e-5)
    assert start.h.dtype == np.float32


def test_a_text_of_one_long_sentence_counts_from_its_end():
    bilm = tiny.random_bilm()
    sentence = text(4)[3] * START_TOKENS
    start = mean_start_state(bilm, VOCABULARY, [sentence])
    h, _ = expected_start(tiny.reference_of(bilm), [[sentence[-START_TOKENS:]]], skipped=0)
    np.testing.assert_allclose(start.h, h, atol=1e-5)


def test_a_model_keeps_it(tmp_path):
    bilm = tiny.random_bilm()
    start = mean_start_state(bilm, VOCABULARY, text(9))
    weights = {**weights_of(bilm), **start.arrays()}
    checkpoint.save_model(tmp_path / "model", bilm.config, weights, VOCABULARY)
    loaded, _ = load_bilm(tmp_path / "model", softmax=True)
    np.testing.assert_equal(loaded.start_state.arrays(), start.arrays())
    vectors_only, _ = load_bilm(tmp_path / "model")
    assert vectors_only.start_state is None


def test_a_model_in_float64_begins_with_it_too():
    bilms = [tiny.random_bilm(), tiny.random_bilm("float64")]
    found = []
    for bilm in bilms:
        arrays, _ = tiny.random_start(bilm.config)
        bilm.start_state = StartState(*arrays.values())
        (records,) = ELMoEmbedder((bilm, VOCABULARY), device="cpu").surprisal([["the", "bank"]])
        found.append(records.total())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_a_start_state_of_another_shape_is_an_error():
    bilm = tiny.random_bilm()
    zeros = {name: np.zeros(shape) for name, shape in StartState.shapes(bilm.config).items()}
    zeros[NAMES[1]] = zeros[NAMES[1]][:, :, 1:]
    with pytest.raises(UserError, match=r"a file: .*start\.c"):
        make_bilm(bilm.config, {**weights_of(bilm), **zeros}, "a file")
