"""An exported ELMo: its vectors and its inputs are the embedder's."""

import manylangs_model
import numpy as np
import pytest
import reference
import tiny
from exporting import RUNTIMES, assert_close

import convert
from elmo import ELMoEmbedder

SENTENCES = tiny.SENTENCES


def check(output: np.ndarray, sentences, expected) -> None:
    """Check that the output (..., B, T, 2P) has the expected vectors, and zeros at padding."""
    for row, (sentence, vectors) in enumerate(zip(sentences, expected, strict=True)):
        assert_close(output[..., row, : len(sentence), :], vectors)
        assert not output[..., row, len(sentence) :, :].any()


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"input": "word"},
        {"input": "char+word", "word_dim": 3, "activation": "tanh", "n_highway": 0},
        {
            "max_characters": 20,
            "n_layers": 3,
            "use_skip_connections": False,
            "cell_clip": 0.0,
            "proj_clip": 0.0,
        },
        # As wide as the filters: no projection.
        {"n_layers": 1, "forget_bias": 0.5, "projection_dim": 11},
    ],
)
def test_vectors_are_the_embedders_whatever_the_batch(export, tmp_path, runtime, changes):
    prefix = tiny.save(tiny.random_bilm(**changes), tmp_path / "model")
    exported = export(prefix, runtime)
    expected = ELMoEmbedder(prefix, device="cpu").encode(SENTENCES)
    check(exported(SENTENCES), SENTENCES, expected)
    for sentence, vectors in zip(SENTENCES, expected, strict=True):
        check(exported([sentence]), [sentence], [vectors])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("word_dim", "char_dim"), [(7, 5), (7, 0)])
def test_code_points_and_their_words(export, tmp_path, runtime, word_dim, char_dim):
    tokens, encoder = manylangs_model.write_model(tmp_path / "zhs", word_dim, char_dim)
    convert.main(["import", str(tmp_path / "zhs"), f"--output={tmp_path / 'model'}"])
    sentences = manylangs_model.SENTENCES
    expected = [manylangs_model.expected(tokens, encoder, sentence) for sentence in sentences]
    check(export(tmp_path / "model", runtime)(sentences), sentences, expected)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layers", ["0", "0,1", "average"])
def test_layers(export, model, runtime, layers):
    found = export(model, runtime, f"--layers={layers}")(SENTENCES)
    check(found, SENTENCES, ELMoEmbedder(model, device="cpu", layers=layers).encode(SENTENCES))


def test_the_numbers_of_characters_are_the_references(export, model):
    arrays = export(model, "run_paddle").arrays(SENTENCES)
    for row, sentence in zip(arrays["characters"], SENTENCES, strict=True):
        ids = [reference.char_ids(token) for token in sentence]
        np.testing.assert_array_equal(row[: len(sentence)], np.reshape(ids, [-1, 50]))
        assert (row[len(sentence) :] == 261).all()
