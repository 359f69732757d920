"""convert.py: what it logs, and the folder that it fills."""

from pathlib import Path

import pytest
from converting import import_flags, refused
from foreign import (
    OMIT,
    options_of,
    write_bilm,
)

import convert
from elmo import load_bilm
from elmo_core.messages import UserError


def test_unusual_options_are_logged(tmp_path, messages):
    options = options_of({"use_skip_connections": OMIT}, {"n_characters": 261})
    write_bilm(tmp_path, options)
    convert.main(import_flags(tmp_path, tmp_path / "out", vocab=True))
    for word in ("use_skip_connections", "needs no words"):
        assert word in messages()
    with pytest.raises(UserError, match="softmax"):
        load_bilm(tmp_path / "out", softmax=True)


def test_an_empty_folder_is_filled_unless_it_is_the_current_one(tmp_path, monkeypatch):
    write_bilm(tmp_path / "in", options_of({}, {}))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    refused(import_flags(tmp_path / "in", Path()), "--output .", tmp_path)
    monkeypatch.chdir(tmp_path)
    convert.main(import_flags(tmp_path / "in", tmp_path / "empty"))
    assert (tmp_path / "empty" / "model.safetensors").exists()
