"""Flags of convert.py, and what tests of it look at."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import reference

import convert
import run_eval
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint


def import_flags(folder: Path, output: Path, vocab: bool = False) -> list[str]:
    """The flags that import the folder's options.json and weights.hdf5."""
    options = str(folder / "options.json")
    weights = str(folder / "weights.hdf5")
    flags = ["import", options, weights, f"--output={output}"]
    if vocab:
        flags.append(f"--vocab={folder / 'vocab.txt'}")
    return flags


def config_of(folder: Path, without: set[str] = frozenset()) -> dict:
    config = checkpoint.load_config(folder)["model"]
    return {name: value for name, value in config.items() if name not in without}


WORD = None  # in place of the options of a character CNN


def assert_predicts(
    checkpoint_: Path, parameters: reference.Parameters, text: Path, capsys
) -> None:
    """run_eval.py finds the reference's perplexities of a sentence.

    Their geometric mean is the exponential of the loss.
    """
    text.write_text("the river bank\n", encoding="utf-8")
    row = ["<S>", "the", "river", "bank", "</S>"]
    ids = [0, 3, 6, 4, 1]
    inputs = {"forward": [row[:-1]], "backward": [row[:0:-1]]}
    targets = {"forward": [ids[1:]], "backward": [ids[-2::-1]]}
    loss, _ = reference.lm_loss(parameters, inputs, targets)
    capsys.readouterr()
    run_eval.main(
        [
            f"--dev_data_path={text}",
            f"--init_from_ckpt={checkpoint_}",
            "--device=cpu",
            "--batch_size=3",
        ]
    )
    forward, backward = re.findall(r"ward +(\S+)$", capsys.readouterr().out, re.M)
    assert math.sqrt(float(forward) * float(backward)) == pytest.approx(
        np.exp(loss), rel=1e-3, abs=2e-3
    )


def refused(argv: list[str], word: str, folder: Path) -> None:
    """The flags lead to a message with the word, and the folder does not change."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=word):
        convert.main(argv)
    assert sorted(folder.rglob("*")) == before


def cut(path: Path, n: int) -> None:
    path.write_bytes(path.read_bytes()[:n])
