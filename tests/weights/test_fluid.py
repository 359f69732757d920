"""Paddle Fluid's variables: they compute what Fluid did; mistakes."""

from pathlib import Path

import numpy as np
import pytest
import reference
import tiny
from converting import assert_predicts, config_of, cut, refused
from foreign import (
    WORDS,
    H,
    P,
    fluid_parameters,
    write_fluid,
    write_variable,
)

import convert
from elmo_core.text.vocabulary import Vocabulary


def fluid_flags(folder: Path, output: Path) -> list[str]:
    return ["import", str(folder), f"--vocab={folder.parent / 'vocab.txt'}", f"--output={output}"]


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_fluids_variables_compute_what_fluid_did(n_layers, tmp_path):
    variables = write_fluid(tmp_path / "fluid", n_layers, softmax=n_layers > 1)
    convert.main(fluid_flags(tmp_path / "fluid", tmp_path / "out"))
    config = config_of(tmp_path / "out")
    assert (config["forget_bias"], config["cell_clip"], config["proj_clip"]) == (0, 3, 3)
    parameters = fluid_parameters(variables)
    if n_layers == 2:  # both clips bite
        embeddings, state = reference.embed(parameters, tiny.SENTENCES)
        cells = np.concatenate([cell.ravel() for layers in state.values() for _, cell in layers])
        assert np.abs(cells).max() == 3
        assert max(np.abs(embedding[1]).max(initial=0) for embedding in embeddings) == 3
    tiny.assert_vectors(tmp_path / "out", parameters)
    assert Vocabulary.from_file(tmp_path / "out" / "vocab.txt").tokens == WORDS


def test_fluids_softmax_predicts(tmp_path, capsys):
    variables = write_fluid(tmp_path / "fluid")
    convert.main(fluid_flags(tmp_path / "fluid", tmp_path / "out"))
    assert_predicts(tmp_path / "out", fluid_parameters(variables), tmp_path / "text", capsys)


def test_other_files_in_fluids_folder_are_not_read(tmp_path, messages):
    write_fluid(tmp_path / "fluid", softmax=False)
    write_variable(tmp_path / "fluid" / "learning_rate_0", np.ones((P, 4 * H), np.float32))
    convert.main(fluid_flags(tmp_path / "fluid", tmp_path / "out"))
    assert "clip 3" in messages()


def put(value: bytes, offset: int):
    """Other bytes at an offset."""

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[offset : offset + len(value)] = value
        path.write_bytes(content)

    return change


def shaped(*shape: int, dtype: str = "float32", value: float = 1.0):
    return lambda path: write_variable(path, np.full(shape, value, dtype))


FLUID = [  # a file of the folder, what happens to it, and what the message says of it
    ("bw_layer2_gate_w", Path.unlink, "no bw_layer2_gate_w"),
    ("fw_layer2_gate_w", Path.unlink, "bw_layer2_gate_w"),
    ("embedding_para", shaped(11, P), r"embedding_para is \(11, 7\)"),
    ("lstmp_3.b_0", shaped(1, 7 * H), "expected"),
    ("lstmp_0.w_0", shaped(P, 4 * H, dtype="float64"), "type"),
    ("lstmp_0.w_0", shaped(P, 4 * H, value=np.inf), "not finite"),
    ("lstmp_0.w_0", lambda path: cut(path, 1000), "truncated"),
    ("lstmp_0.w_0", put(b"\xff\xff\xff\xff", 16), "type"),
    ("lstmp_0.w_0", put(b"\1", 0), "versions 1"),
]


@pytest.mark.parametrize(("name", "change", "word"), FLUID)
def test_wrong_variables_of_fluid(name, change, word, tmp_path):
    write_fluid(tmp_path / "fluid")
    change(tmp_path / "fluid" / name)
    refused(fluid_flags(tmp_path / "fluid", tmp_path / "out"), word, tmp_path)
