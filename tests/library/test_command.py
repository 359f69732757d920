"""How messages name the project's commands."""

import ast
import re
from pathlib import Path

import pytest
from project import PROJECT

from elmo_core import command
from elmo_core.command import command_line


@pytest.mark.parametrize(
    ("words", "with_elmo"),
    [
        ("run_parse.py", "elmo parse"),
        ("preprocess.py vocab 'a  b/*'", "elmo preprocess vocab 'a  b/*'"),
        ("convert.py import convert.py", "elmo convert import convert.py"),
    ],
)
def test_messages_name_what_the_user_types(monkeypatch, words, with_elmo):
    assert command_line(words) == f"python {words}"
    monkeypatch.setattr(command, "has_command", True)
    assert command_line(words) == with_elmo


def product() -> list[Path]:
    paths = list(PROJECT.glob("*.py"))
    for package in ("elmo_core", "elmo_tasks", "elmo_tools"):
        paths += (PROJECT / package).rglob("*.py")
    return paths


def test_messages_name_scripts_that_are_there(monkeypatch):
    """All of them, also those that no test provokes."""
    monkeypatch.setattr(command, "has_command", True)
    code = "\n".join(path.read_text(encoding="utf-8") for path in product())
    scripts = set(re.findall(r"command_line\(f?[\"'](\w+\.py)", code))
    assert "preprocess.py" in scripts
    for script in scripts:
        assert command_line(script).startswith("elmo ")


@pytest.mark.parametrize("path", product(), ids=lambda path: str(path.relative_to(PROJECT)))
def test_messages_cite_no_page_and_call_command_line(path):
    """An installed library has neither pages nor scripts at hand.

    Only docstrings and comments may name them: those of the scripts are adapted by the command.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = [
        ast.get_docstring(x, clean=False) for x in ast.walk(tree) if isinstance(x, documented)
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if node.value not in docstrings:
            assert "docs/" not in node.value
            assert not re.search(r"\bpython \w+\.py\b", node.value)
