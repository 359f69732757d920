"""docs/coming-from.md: each example of another ELMo computes what the old code computes, here from
the float64 reference; those of other libraries compute what their variables are named after.
"""

import re

import foreign
import numpy as np
import pytest
import reference
from project import PROJECT
from reference import assert_close

import convert

PAGE = (PROJECT / "docs/coming-from.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of bilm-tf's form, imported, and its parameters as the reference reads them."""
    folder = tmp_path_factory.mktemp("bilm")
    foreign.write_bilm(folder, foreign.options_of({}, {}))
    files = folder / "options.json", folder / "weights.hdf5"
    convert.main(["import", *map(str, files), f"--output={folder / 'out'}"])
    return folder / "out", reference.read_bilm_hdf5(*files)


@pytest.fixture
def example(model):
    """Runs the section's example; returns its variables and the reference's layers of its
    sentences.
    """

    def run(section: str) -> tuple[dict, list[np.ndarray]]:
        space = {}
        for part in ("# Coming", f"## {section}"):
            code = re.search(rf"^{part}.*?^```python\n(.*?)^```", PAGE, re.M | re.S)[1]
            exec(code.replace('"en"', repr(str(model[0]))), space)
        return space, reference.embed(model[1], space["sentences"])[0]

    return run


def test_allennlps_embedder(example):
    space, layers = example("AllenNLP: ElmoEmbedder")
    assert_close(space["vectors"], layers)


def test_allennlps_layer(example):
    """Both representations start from equal weights and are zero at padding."""
    space, layers = example("AllenNLP: Elmo and batch_to_ids")
    for output in (space["at_input"].numpy(), space["at_output"].numpy()):
        for row, expected in zip(
            output, reference.scalar_mix(layers, np.zeros(3), 1.0), strict=True
        ):
            assert_close(row[: len(expected)], expected)
            assert not row[len(expected) :].any()
    assert space["mask"].sum(axis=1).tolist() == [4, 3]


def test_bilm_tfs_weight_layers(example):
    space, layers = example("bilm-tf")
    for row, expected in zip(
        space["weighted"].numpy(), reference.scalar_mix(layers, np.zeros(3), 1.0), strict=True
    ):
        assert_close(row[: len(expected)], expected)


def test_the_outputs_of_tensorflow_hub(example):
    """With weights and scaling other than the initial ones, as a trained module has them."""
    space, layers = example("TensorFlow Hub google/elmo, keras-elmo")
    width = layers[0].shape[2] // 2
    assert_close(space["word_emb"], [array[0, :, :width] for array in layers])
    assert_close(space["lstm_outputs1"], [array[1] for array in layers])
    assert_close(space["lstm_outputs2"], [array[2] for array in layers])
    mix, s = space["elmo"].mixes[0], np.array([0.3, -0.7, 1.1])
    mix.scalars.set_value(s.astype(np.float32))
    mix.gamma.set_value(np.array([1.7], np.float32))
    (default,), _ = space["elmo"](space["sentences"])
    assert_close(
        default.numpy(), [array.mean(axis=0) for array in reference.scalar_mix(layers, s, 1.7)]
    )


def test_flairs_embeddings(example):
    space, layers = example("flair")
    assert_close(space["vectors"], [np.concatenate(array, axis=1) for array in layers])


def test_simple_elmos_averages(example):
    space, layers = example("simple_elmo")
    means = [array.mean(axis=(0, 1)) for array in layers]
    assert_close(space["means"], [mean / np.linalg.norm(mean) for mean in means])


def test_the_hidden_states_of_transformers(example):
    space, layers = example("Hugging Face transformers")
    assert_close(space["last_hidden_state"], [array[2] for array in layers])
    first, second = (offsets.tolist() for offsets in space["offset_mapping"])
    assert first == [[0, 3], [4, 9], [10, 18], [18, 19]]
    assert second == [[0, 6], [7, 10], [10, 11]]


def test_the_embeddings_of_sentence_transformers(example):
    space, layers = example("sentence-transformers")
    means = np.array([array.mean(axis=(0, 1)) for array in layers])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert_close(space["embeddings"], means)
    assert_close(space["similarity"], means @ means.T)


def test_the_heads_of_spacy(example, capsys):
    example("spaCy")
    first, second = capsys.readouterr().out.splitlines()
    assert "('The', 'room'), ('room', 'quiet')" in first and "('quiet', 'ROOT')" in first
    assert "('It', 'rained'), ('rained', 'ROOT')" in second


def test_the_conllu_of_stanza():
    spacy, stanza = (
        re.search(rf"^## {name}.*?^```python\n(.*?)^```", PAGE, re.M | re.S)[1]
        for name in ("spaCy", "stanza")
    )
    space = {}
    exec(spacy, space)
    exec(stanza, space)
    rows = [line.split("\t") for line in space["conllu"].splitlines() if line[:1].isdigit()]
    roots = [row[1] for row in rows if row[7] == "root"]
    assert roots == ["quiet", "rained"]
