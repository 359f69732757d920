"""The command `elmo`: its list of commands, and names that it does not know."""

import sys

import pytest

import elmo_core
from elmo_core import command
from elmo_core.messages import COMMANDS


def run(monkeypatch, *argv: str) -> None:
    monkeypatch.setattr(sys, "argv", ["elmo", *argv])
    command.main()


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]])
def test_help_lists_all_commands(monkeypatch, capsys, argv):
    run(monkeypatch, *argv)
    lines = capsys.readouterr().out.splitlines()
    assert set(COMMANDS) <= {line.split()[0] for line in lines if line.strip()}


def test_the_version(monkeypatch, capsys):
    run(monkeypatch, "--version")
    assert elmo_core.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "named"), [("tga", "tag"), ("run_tag.py", "tag"), ("qqqq", "qqqq")]
)
def test_an_unknown_command_is_named_with_the_one_like_it(monkeypatch, capsys, name, named):
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, name)
    assert stopped.value.code == 2 and named in capsys.readouterr().err
