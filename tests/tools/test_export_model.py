"""export_model.py: models by path or name, and flags that do not fit them."""

import sys
from pathlib import Path

import pytest
import tiny
from exporting import random_tagger

import export_model
from elmo_core.messages import UserError

SENTENCES = tiny.SENTENCES


def test_a_name_of_two_models_is_explained(tmp_path):
    with pytest.raises(UserError, match=r"parser/en-ewt or tagger/en-ewt"):
        export_model.main(["en-ewt", f"--output={tmp_path / 'exported'}"])


def test_a_users_model_takes_precedence_over_a_name(tmp_path, monkeypatch):
    random_tagger(tmp_path, elmo=False)
    (tmp_path / "tagger").rename(tmp_path / "zh-lac")
    monkeypatch.chdir(tmp_path)
    assert export_model.find_task("zh-lac") == Path("zh-lac")


def test_flags_of_elmo_are_not_a_taggers(tmp_path):
    random_tagger(tmp_path, elmo=False)
    with pytest.raises(UserError, match="--layers"):
        export_model.main(
            [str(tmp_path / "tagger"), f"--output={tmp_path / 'exported'}", "--layers=0"]
        )


def test_without_the_package_onnx(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "elmo_tools.export.onnx_graph", raising=False)
    with pytest.raises(UserError, match="pip install onnx"):
        export_model.main([model, f"--output={tmp_path / 'exported'}", "--onnx"])
