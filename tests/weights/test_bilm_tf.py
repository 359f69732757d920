"""bilm-tf's files: imported models compute what they say, exports import unchanged, damage."""

import json
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import reference
import runs
import tiny
from converting import WORD, assert_predicts, config_of, cut, import_flags, refused
from damage import accepted
from foreign import (
    OMIT,
    WORDS,
    C,
    P,
    options_of,
    shapes_of,
    write_bilm,
)
from reference import assert_close

import convert
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint

VARIANTS = {
    "relu, two highways": ({}, {}),
    "tanh, one highway": (
        {"cell_clip": OMIT, "proj_clip": OMIT},
        {"activation": "tanh", "n_highway": 1},
    ),
    "no highway, three layers": ({"n_layers": 3, "proj_clip": None}, {"n_highway": OMIT}),
    "n_characters of training, highways null": (
        {"n_layers": 1},
        {"n_characters": 261, "n_highway": None},
    ),
    "filters that add up to P, no skip": (
        {"use_skip_connections": False},
        {"filters": [[2, 3], [5, 4]]},
    ),
    "P above H": ({"dim": 5, "n_layers": OMIT}, {"activation": "tanh"}),
    "12 characters a token": ({}, {"max_characters_per_token": 12}),
    "words": ({}, WORD),
    "words, one layer, no skip": (
        {"n_layers": 1, "use_skip_connections": OMIT, "cell_clip": 0},
        WORD,
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_imported_model_computes_what_its_files_say(variant, tmp_path):
    options = options_of(*VARIANTS[variant])
    write_bilm(tmp_path, options)
    convert.main(import_flags(tmp_path, tmp_path / "out", vocab="char_cnn" not in options))
    given = {**options, "lstm": {"use_skip_connections": False, **options["lstm"]}}
    (tmp_path / "options.json").write_text(json.dumps(given), encoding="utf-8")
    paths = tmp_path / "options.json", tmp_path / "weights.hdf5"
    tiny.assert_vectors(tmp_path / "out", reference.read_bilm_hdf5(*paths, vocabulary=WORDS))
    assert (tmp_path / "out" / "vocab.txt").exists() == ("char_cnn" not in options)


def single_cells(arrays: dict) -> dict:
    """A dump of a model with one layer: its cells are not in a MultiRNNCell."""
    changes = {}
    for name, array in arrays.items():
        if "MultiRNNCell" in name:
            changes[name] = None
            changes[name.replace("MultiRNNCell/Cell0/", "")] = array
    return changes


def mask_first(name: str):
    return lambda arrays: {name: np.concatenate([np.zeros_like(arrays[name][:1]), arrays[name]])}


def one_more_character(arrays: dict) -> dict:
    return {"char_embed": np.concatenate([arrays["char_embed"], np.ones((1, C), np.float32)])}


def neutral_projection(_: dict) -> dict:
    return {
        "CNN_proj/W_proj": np.eye(P, dtype=np.float32),
        "CNN_proj/b_proj": np.zeros(P, np.float32),
    }


SQUARE = {"filters": [[1, P]]}  # filters that add up to P


SOFTMAX = {"softmax/W": np.ones((9, P)), "softmax/b": np.ones(9)}


SAME = {  # other files that mean the same model, and a word of the remark about them
    "single cells": ({"n_layers": 1}, {}, single_cells, ""),
    "the mask's row": ({}, {}, mask_first("char_embed"), "char_embed has 262 rows"),
    "a character more": ({}, {}, one_more_character, "char_embed has 262 rows"),
    "float64, big-endian": (
        {},
        {},
        lambda arrays: {name: array.astype(">f8") for name, array in arrays.items()},
        "",
    ),
    "AllenNLP's projection": ({}, SQUARE, neutral_projection, ""),
    "compressed": ({}, {}, lambda _: {"packed": True}, ""),
    "more": ({}, {}, lambda _: {"beta1_power": np.ones(1)}, "beta1_power"),
    "a softmax without words": ({}, {}, lambda _: SOFTMAX, "`vocab` is missing"),
}


@pytest.mark.parametrize("way", SAME)
def test_equivalent_files_import_alike(way, tmp_path, caplog):
    lstm, cnn, change, remark = SAME[way]
    options = options_of(lstm, cnn)
    arrays = write_bilm(tmp_path / "plain", options)
    write_bilm(tmp_path / "other", options, **change(arrays))
    for name in ("plain", "other"):
        convert.main(import_flags(tmp_path / name, tmp_path / f"from {name}", vocab=cnn is WORD))
    runs.assert_same(tmp_path / "from plain", tmp_path / "from other", checkpoint.load_params)
    assert config_of(tmp_path / "from plain") == config_of(tmp_path / "from other")
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert any(remark in warning for warning in warnings) if remark else not warnings


def test_lstms_without_projections(tmp_path):
    """bilm-tf leaves projections out if dim is projection_dim, and TensorFlow then clips none."""
    options = options_of({"dim": P}, {})
    arrays = write_bilm(tmp_path, options)
    cells = [name for name in arrays if name.endswith("W_P_0")]
    write_bilm(tmp_path, options, **dict.fromkeys(cells))
    convert.main(import_flags(tmp_path, tmp_path / "out"))
    same = options_of({"dim": P, "proj_clip": None}, {})
    write_bilm(tmp_path, same, **dict.fromkeys(cells, np.eye(P)))
    tiny.assert_vectors(
        tmp_path / "out",
        reference.read_bilm_hdf5(tmp_path / "options.json", tmp_path / "weights.hdf5"),
    )


@pytest.mark.parametrize("cnn", [{}, WORD], ids=["characters", "words"])
@pytest.mark.parametrize("where", ["within", "apart", "beside"])
def test_an_imported_softmax_predicts(cnn, where, tmp_path, capsys):
    arrays = write_bilm(tmp_path, options_of({}, cnn), softmax=True)
    flags = import_flags(tmp_path, tmp_path / "out", vocab=True)
    if where != "within":
        apart = tmp_path / "elmo_softmax_weights.hdf5"  # as AllenNLP released it
        with h5py.File(apart, "w") as file:
            for name in ("softmax/W", "softmax/b"):
                file[name] = arrays[name]
        write_bilm(tmp_path, options_of({}, cnn))
        flags.insert(1, str(apart))
    if where == "beside":
        flags = ["import", str(tmp_path), f"--output={tmp_path / 'out'}"]
    convert.main(flags)
    parameters = reference.read_bilm_hdf5(
        tmp_path / "options.json", tmp_path / "weights.hdf5", vocabulary=WORDS
    )
    parameters.softmax = arrays["softmax/W"].astype(float), arrays["softmax/b"].astype(float)
    assert_predicts(tmp_path / "out", parameters, tmp_path / "text", capsys)


TRIPS = {
    "characters": {},
    "words": {"input": "word", "filters": ((1, 1),)},
    "no softmax": {"vocab_size": 0, "n_highway": 0},
    "tanh, no skip, no clips": {
        "activation": "tanh",
        "use_skip_connections": False,
        "cell_clip": 0.0,
        "proj_clip": 0.0,
    },
    "one layer, filters that add up to P": {"n_layers": 1, "projection_dim": 11, "n_highway": 1},
    "three layers, P above H": {"n_layers": 3, "cell_dim": 5},
}


@pytest.mark.parametrize("trip", TRIPS)
def test_an_export_is_readable_by_others_and_imports_back(trip, tmp_path):
    bilm = tiny.random_bilm(**TRIPS[trip])
    prefix = Path(tiny.save(bilm, tmp_path / "ours"))
    convert.main(["export", str(prefix), f"--output={tmp_path / 'theirs'}"])

    paths = tmp_path / "theirs" / "options.json", tmp_path / "theirs" / "weights.hdf5"
    found, _ = reference.embed(reference.read_bilm_hdf5(*paths, vocabulary=WORDS), tiny.SENTENCES)
    expected, _ = reference.embed(tiny.reference_of(bilm), tiny.SENTENCES)
    assert_close(found, expected)
    options = json.loads(paths[0].read_text(encoding="utf-8"))
    # AllenNLP takes no default
    assert {"cell_clip", "proj_clip", "n_layers", "dim"} <= options["lstm"].keys()
    with h5py.File(paths[1]) as file:
        for name, shape in shapes_of_export(options).items():
            assert file[name].shape == shape and file[name].dtype == "<f4"

    has_words = (tmp_path / "theirs" / "vocab.txt").exists()
    assert has_words == (trip != "no softmax")
    convert.main(import_flags(tmp_path / "theirs", tmp_path / "again", vocab=has_words))
    runs.assert_same(prefix, tmp_path / "again", without_padding)
    unused = {"filters", "character_dim", "n_highway", "activation"} if trip == "words" else set()
    assert config_of(tmp_path / "again", unused) == config_of(tmp_path / "ours", unused)
    if has_words:
        assert Vocabulary.from_file(tmp_path / "again" / "vocab.txt").tokens == WORDS


def without_padding(prefix: Path) -> dict[str, np.ndarray]:
    """The weights, without row 0 of the characters, which is never read and not exported."""
    weights = checkpoint.load_params(prefix)
    table = weights["token_encoder.embedding.weight"]
    if len(table) == 262:
        weights["token_encoder.embedding.weight"] = table[1:]
    return weights


def shapes_of_export(options: dict) -> dict[str, tuple]:
    """The datasets that bilm-tf and AllenNLP require together.

    Character models always have a projection.
    """
    shapes = shapes_of(options)
    if "char_cnn" in options:
        assert options["char_cnn"]["n_characters"] == 262 and "n_highway" in options["char_cnn"]
        features = sum(number for _, number in options["char_cnn"]["filters"])
        shapes["CNN_proj/W_proj"] = (features, options["lstm"]["projection_dim"])
    return shapes


def test_another_forget_bias_is_exported_as_the_same_model(tmp_path):
    prefix = tiny.save(tiny.random_bilm(forget_bias=0.0), tmp_path / "ours")
    convert.main(["export", prefix, f"--output={tmp_path / 'theirs'}"])
    paths = tmp_path / "theirs" / "options.json", tmp_path / "theirs" / "weights.hdf5"
    tiny.assert_vectors(tmp_path / "ours", reference.read_bilm_hdf5(*paths))


OPTIONS = [  # the section, its changes, and what the message names
    ("lstm", {"projection_dim": OMIT}, "projection_dim"),
    ("lstm", {"dim": "11"}, "cell_dim"),
    ("lstm", {"dim": 12}, r"W_0 is \(14, 44\)"),
    ("lstm", {"n_layers": 3}, "no RNN_0/RNN/MultiRNNCell/Cell2"),
    ("char_cnn", {"filters": [[1, 2**20 - 1]]}, "W_cnn_0"),
    ("char_cnn", {"n_highway": 1}, "CNN_high_1"),
    (None, {"char_cnn": OMIT}, "`vocab`"),
]


@pytest.mark.parametrize(("section", "changes", "word"), OPTIONS)
def test_wrong_options(section, changes, word, tmp_path):
    options = options_of({}, {})
    write_bilm(tmp_path, options)
    values = options[section] if section else options
    values.update(changes)
    for name in [name for name, value in changes.items() if value is OMIT]:
        del values[name]
    (tmp_path / "options.json").write_text(json.dumps(options), encoding="utf-8")
    refused(
        import_flags(tmp_path, tmp_path / "out"),
        f"options.json.*{word}|{word}.*options.json",
        tmp_path,
    )


def dataset(name: str, **kinds):
    """Replaces a dataset."""

    def change(path: Path) -> None:
        with h5py.File(path, "a") as file:
            del file[name]
            file.create_dataset(name, **kinds)

    return change


WEIGHTS = {
    "a web page": (lambda p: p.write_bytes(b"<!DOCTYPE html>"), "in HDF5"),
    "truncated": (lambda p: cut(p, 5000), "damaged"),
    "missing": (lambda p: p.unlink(), "no such file"),
    "a pipe": (lambda p: (p.unlink(), os.mkfifo(p)), "pipe"),
    "a row less": (dataset("char_embed", data=np.ones((260, C))), r"char_embed is \(260, 5\)"),
    "integers": (dataset("CNN_proj/b_proj", data=np.ones(P, int)), "CNN_proj/b_proj .* of type"),
    "overflow": (
        dataset("CNN_proj/b_proj", data=np.full(P, 1e300)),
        "CNN_proj/b_proj .* not finite",
    ),
}


@pytest.mark.parametrize("fault", WEIGHTS)
def test_wrong_weights(fault, tmp_path):
    write_bilm(tmp_path, options_of({}, {}))
    change, word = WEIGHTS[fault]
    change(tmp_path / "weights.hdf5")
    refused(import_flags(tmp_path, tmp_path / "out"), f"weights.hdf5.*{word}", tmp_path)


def test_files_that_do_not_belong_together(tmp_path):
    write_bilm(tmp_path, options_of({}, WORD))
    flags = import_flags(tmp_path, tmp_path / "out", vocab=True)
    for words in (WORDS[:-1], WORDS[:-2]):
        (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
        refused(flags, r"embedding is \(12, 7\)", tmp_path)
    shutil.copy(tmp_path / "weights.hdf5", tmp_path / "other.hdf5")
    refused(
        ["import", str(tmp_path), f"--output={tmp_path / 'out'}"],
        r"hdf5 is of another model",
        tmp_path,
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with an export, `theirs`, and the checkpoint that comes back from it, `ours`."""
    folder = tmp_path_factory.mktemp("exported")
    prefix = tiny.save(tiny.random_bilm(filters=((1, 2), (3, 3)), n_highway=1), folder / "first")
    convert.main(["export", prefix, f"--output={folder / 'theirs'}"])
    convert.main(import_flags(folder / "theirs", folder / "ours", vocab=True))
    return folder


def import_all(flags: list[str], output: Path) -> tuple[dict, dict]:
    """Import a model; return its weights and configuration."""
    convert.main(flags)
    try:
        return checkpoint.load_params(output), config_of(output)
    finally:
        shutil.rmtree(output)


@pytest.mark.parametrize("name", ["options.json", "weights.hdf5"])
def test_damage_to_an_export_is_found(name, exported, tmp_path, no_fsync):
    """A damaged file is refused or gives the same model, except for numbers in the options."""
    shutil.copytree(exported / "theirs", tmp_path / "in")
    flags = import_flags(tmp_path / "in", tmp_path / "out", vocab=True)
    path = tmp_path / "in" / name
    results = list(accepted(path, lambda: import_all(flags, tmp_path / "out"), within=6000))
    numbers = set()
    if name == "options.json":
        numbers = {"cell_clip", "proj_clip", "use_skip_connections", "max_characters"}
    weights = checkpoint.load_params(exported / "ours")
    config = config_of(exported / "ours", numbers)
    for _, (found, config_found) in results:
        np.testing.assert_equal(found, weights)
        assert config_found.items() >= config.items()
    assert 0 < len(results) < 100, "most damage matters"


def test_damage_to_weights_without_checksums_never_crashes(tmp_path, no_fsync):
    write_bilm(tmp_path, options_of({}, {"filters": [[1, 2], [3, 3]], "n_highway": 1}))
    path = tmp_path / "weights.hdf5"
    flags = import_flags(tmp_path, tmp_path / "out")
    results = list(accepted(path, lambda: import_all(flags, tmp_path / "out"), within=6000))
    assert results and {length for length, _ in results} == {path.stat().st_size}
    for _, (found, _) in results:
        assert all(np.isfinite(array).all() for array in found.values())
