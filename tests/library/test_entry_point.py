"""The command `elmo`."""

import sys

import pytest

import elmo_core
from elmo_core import entry_point
from elmo_core.command import COMMANDS
from elmo_core.messages import UserError


def run(monkeypatch, *argv: str) -> None:
    monkeypatch.setattr(sys, "argv", ["elmo", *argv])
    entry_point.run_command()


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
