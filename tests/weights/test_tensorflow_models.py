"""TensorFlow's checkpoints: folders and modules import as the same numbers in HDF5 do; damage.

The files are written by support/tensorflow_writer.py and, where ../shared/data is at hand, by
TensorFlow itself.
"""

import json
import shutil
from pathlib import Path

import foreign
import numpy as np
import pytest
import reference
import runs
import tensorflow_writer as writer
import tiny
from damage import accepted
from foreign import P, options_of
from project import PROJECT
from reference import assert_close

import convert
import run_eval
from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint
from elmo_core.weights.tensorflow import read_tensorflow

SHARED = PROJECT.parent / "shared/data/tensorflow"


CLIPS = {"cell_clip": 3, "proj_clip": 3}  # google/elmo's


SMALL = {"filters": [[1, 2], [3, 3]], "n_highway": 1}


VARIANTS = {  # lstm, char_cnn, number of shards
    "characters": ({}, {"max_characters_per_token": 12}, 1),
    "words, two shards": ({}, None, 2),
    "one layer, no highway": (
        {"n_layers": 1, "use_skip_connections": False},
        {"n_highway": 0, "activation": "tanh"},
        3,
    ),
    "three layers, no CNN_proj": ({"n_layers": 3}, {"filters": [[2, 3], [5, 4]]}, 1),
    "no projection": ({"dim": P}, None, 1),
}


def write_dump(
    folder: Path, lstm: dict, cnn: dict | None, softmax: bool = True
) -> dict[str, np.ndarray]:
    """Write a model in HDF5, as bilm-tf dumps it. Returns its arrays."""
    options = options_of(lstm, cnn)
    projections = [name for name in foreign.shapes_of(options) if name.endswith("W_P_0")]
    left_out = projections if lstm.get("dim") == P else []
    return foreign.write_bilm(folder, options, softmax, **dict.fromkeys(left_out))


def imported(*paths: Path, to: Path, vocab: Path | None = None) -> Path:
    """Import files, and return the new folder."""
    flags = ["import", f"--output={to}"]
    if vocab:
        flags.append(f"--vocab={vocab}")
    convert.main(flags + [str(path) for path in paths])
    return to


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_training_folder_imports_as_its_dump_does(variant, tmp_path):
    lstm, cnn, shards = VARIANTS[variant]
    arrays = write_dump(tmp_path / "dump", lstm, cnn)
    training = tmp_path / "training"
    writer.write_training(training, arrays, 20, shards, one_layer=lstm.get("n_layers") == 1)
    writer.write_options(training, lstm, cnn and {**cnn, "n_characters": 261})
    ours = imported(training, to=tmp_path / "ours", vocab=tmp_path / "dump/vocab.txt")
    theirs = imported(tmp_path / "dump", to=tmp_path / "from the dump")
    runs.assert_same(ours, theirs, checkpoint.load_params)
    assert checkpoint.load_config(ours) == checkpoint.load_config(theirs)


def test_one_of_several_checkpoints_is_named(tmp_path):
    arrays = write_dump(tmp_path, {}, None)
    writer.write_training(tmp_path / "in", arrays, 20)
    zeros = {name: np.zeros_like(array) for name, array in arrays.items()}
    writer.write_training(tmp_path / "in", zeros, 7)
    writer.write_options(tmp_path / "in", {}, None)
    refused(tmp_path / "in", r"model\.ckpt-20\.index")
    ours = imported(
        tmp_path / "in/model.ckpt-20.index", to=tmp_path / "ours", vocab=tmp_path / "vocab.txt"
    )
    np.testing.assert_equal(checkpoint.load_params(ours)["softmax.weight"], arrays["softmax/W"])


@pytest.mark.parametrize("cnn", [{}, None], ids=["characters", "words"])
def test_a_vocabulary_in_bilm_tfs_order(cnn, tmp_path):
    """Special tokens anywhere, and a skipped line.

    Ours begins with them, and all rows are those of their words.
    """
    arrays = write_dump(tmp_path / "dump", {}, cnn)
    expected = imported(tmp_path / "dump", to=tmp_path / "expected")
    order = [3, 1, 4, 0, 5, 2, *range(6, len(foreign.WORDS))]
    theirs = {
        name: array[order] if len(array) == len(order) else array for name, array in arrays.items()
    }
    writer.write_training(tmp_path / "in", theirs)
    writer.write_options(tmp_path / "in", {}, cnn)
    words = [foreign.WORDS[row] for row in order]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join([*words[:2], "!!!MAXTERMID", *words[2:]]), encoding="utf-8")
    ours = imported(tmp_path / "in", to=tmp_path / "ours", vocab=vocab)
    runs.assert_same(ours, expected, checkpoint.load_params)
    assert (ours / "vocab.txt").read_text("utf-8").split() == foreign.WORDS
    for wrong in ([*words, "<S>"], words[1:], [w for w in words if w != "<UNK>"], words[:2]):
        vocab.write_text("\n".join(wrong), encoding="utf-8")
        with pytest.raises(UserError, match="vocab"):
            imported(tmp_path / "in", to=tmp_path / "out", vocab=vocab)


def test_an_embedding_that_is_also_the_softmax(tmp_path):
    arrays = write_dump(tmp_path, {}, None)
    del arrays["softmax/W"]
    writer.write_training(tmp_path / "in", arrays)
    writer.write_options(tmp_path / "in", {}, None, share_embedding_softmax=True)
    ours = imported(tmp_path / "in", to=tmp_path / "ours", vocab=tmp_path / "vocab.txt")
    np.testing.assert_equal(checkpoint.load_params(ours)["softmax.weight"], arrays["embedding"])


@pytest.mark.parametrize("with_options", [True, False])
def test_a_modules_outputs(with_options, tmp_path):
    lstm = {"cell_clip": 0.4} if with_options else CLIPS
    scalars = [0.3, -0.7, 1.1]
    scaling = 1.7
    arrays = write_dump(tmp_path / "dump", lstm, {}, softmax=False)
    writer.write_module(tmp_path / "module", arrays, (scalars, scaling), shards=2)
    files = tmp_path / "dump/options.json", tmp_path / "dump/weights.hdf5"
    if with_options:
        shutil.copy(files[0], tmp_path / "module")
    ours = imported(tmp_path / "module", to=tmp_path / "ours")
    parameters = reference.read_bilm_hdf5(*files)
    tiny.assert_vectors(ours, parameters)
    layers, _ = reference.embed(parameters, tiny.SENTENCES)
    expected = reference.scalar_mix(layers, np.array(scalars), np.array(scaling))
    assert_close(ELMoEmbedder(ours, layers="mix", device="cpu").encode(tiny.SENTENCES), expected)
    pooled = ELMoEmbedder(ours, layers="mix", pool="mean", device="cpu").encode(tiny.SENTENCES)
    assert_close(pooled, [array.sum(axis=0) / max(1, len(array)) for array in expected])
    convert.main(["half", str(ours), f"--output={tmp_path / 'half'}"])
    assert checkpoint.load_config(tmp_path / "half") == checkpoint.load_config(ours)


def test_a_module_of_words(tmp_path):
    arrays = write_dump(tmp_path, CLIPS, None, softmax=False)
    writer.write_module(tmp_path / "module", arrays, ([0.0, 0.0, 0.0], 1.0))
    ours = imported(tmp_path / "module", to=tmp_path / "ours", vocab=tmp_path / "vocab.txt")
    files = tmp_path / "options.json", tmp_path / "weights.hdf5"
    tiny.assert_vectors(ours, reference.read_bilm_hdf5(*files, vocabulary=foreign.WORDS))


def refused(folder: Path, word: str) -> None:
    with pytest.raises(UserError, match=word):
        imported(folder, to=folder.parent / "out")
    assert not (folder.parent / "out").exists()


def test_damage_is_an_error_or_changes_numbers(tmp_path, no_fsync):
    writer.write_training(tmp_path / "in", write_dump(tmp_path, {}, SMALL, softmax=False))
    path = tmp_path / "in/model.ckpt-20.index"

    def read() -> list[np.ndarray]:
        return [np.array(array) for array in read_tensorflow(path).values()]

    assert list(accepted(path, read, times=300))


def test_wrong_folders(tmp_path):
    arrays = write_dump(tmp_path, {}, SMALL, softmax=False)
    writer.write_training(tmp_path / "in", arrays, shards=2)
    refused(tmp_path / "in", "options.json")
    writer.write_options(tmp_path / "in", {"dim": 12}, SMALL)
    refused(tmp_path / "in", r"W_0 is \(14, 44\)")
    writer.write_options(tmp_path / "in", {}, SMALL)
    (tmp_path / "in/model.ckpt-20.data-00001-of-00002").unlink()
    refused(tmp_path / "in", "data-00001-of-00002")
    writer.write(tmp_path / "in/model.ckpt-20", {"dense/kernel": np.ones((2, 2), np.float32)})
    refused(tmp_path / "in", "dense/kernel")


@pytest.fixture
def shared():
    if not SHARED.is_dir():
        pytest.skip("needs ../shared/data")
    return SHARED


def expected_of(folder: Path) -> tuple[list[list[str]], dict[str, np.ndarray]]:
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    return sentences, np.load(folder / "expected.npz")


@pytest.mark.parametrize("name", ["train-char", "train-word"])
def test_bilm_tfs_own_vectors_and_perplexity(name, shared, tmp_path, capsys):
    sentences, expected = expected_of(shared / name)
    ours = imported(shared / name, to=tmp_path / "ours")
    layers = ELMoEmbedder(ours, device="cpu").encode(sentences)
    assert_close(layers, [expected[f"sent{k}_layers"] for k in range(len(sentences))])
    run_eval.main(
        [
            f"--dev_data_path={shared / name / 'heldout.txt'}",
            f"--init_from_ckpt={ours}",
            "--batch_size=1",
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    numbers = [line.split()[-1] for line in lines if line.startswith("perplexity")]
    for number, of in zip(numbers[:2], ("forward", "backward"), strict=True):
        assert float(number) == pytest.approx(float(expected[f"ppl_{of}_batch1"]), abs=6e-4)


def test_the_hubs_own_outputs(shared, tmp_path):
    sentences, expected = expected_of(shared / "hub")
    ours = imported(shared / "hub", to=tmp_path / "ours")
    layers = ELMoEmbedder(ours, device="cpu").encode(sentences)
    pooled = ELMoEmbedder(ours, device="cpu", layers="mix", pool="mean")
    found = {
        "word_emb": [array[0, :, : array.shape[2] // 2] for array in layers],
        "lstm_outputs1": [array[1] for array in layers],
        "lstm_outputs2": [array[2] for array in layers],
        "elmo": ELMoEmbedder(ours, device="cpu", layers="mix").encode(sentences),
        "default": pooled.encode(sentences),
    }
    for output, arrays in found.items():
        assert_close(arrays, [expected[f"sent{k}_{output}"] for k in range(len(sentences))], 1e-4)
