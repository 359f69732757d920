"""The command `elmo`, and how messages name the project's commands."""

import re
import sys

import pytest
from project import PROJECT

import elmo_core
from elmo_core import command
from elmo_core.command import COMMANDS, command_line
from elmo_core.messages import UserError


def run(monkeypatch, *argv: str) -> None:
    monkeypatch.setattr(sys, "argv", ["elmo", *argv])
    command.run_command()


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]])
def test_help_lists_all_commands(monkeypatch, capsys, argv):
    run(monkeypatch, *argv)
    lines = capsys.readouterr().out.splitlines()
    assert set(COMMANDS) <= {line.split()[0] for line in lines if line.strip()}


def test_the_version(monkeypatch, capsys):
    run(monkeypatch, "--version")
    assert elmo_core.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "named"), [("tga", "mean tag"), ("run_tag.py", "mean tag"), ("qqqq", "qqqq")]
)
def test_an_unknown_command_is_named_with_the_one_like_it(monkeypatch, name, named):
    with pytest.raises(UserError, match=named):
        run(monkeypatch, name)


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


def test_messages_name_scripts_that_are_there(monkeypatch):
    """All of them, also those that no test provokes."""
    monkeypatch.setattr(command, "has_command", True)
    paths = list(PROJECT.glob("*.py"))
    for package in ("elmo_core", "elmo_tasks", "elmo_tools"):
        paths += (PROJECT / package).rglob("*.py")
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    scripts = set(re.findall(r"command_line\(f?[\"'](\w+\.py)", code))
    assert "preprocess.py" in scripts
    for script in scripts:
        assert command_line(script).startswith("elmo ")
