"""Messages for users: commands of an installed library, bars of progress."""

import io

import pytest

from elmo_core import messages as messages_module
from elmo_core.messages import bar


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Run `preprocess.py text`.", "Run `elmo preprocess text`."),
        ("python convert.py get en, or run_parse.py.", "elmo convert get en, or elmo parse."),
        ("/home/me/convert.py: not there", "/home/me/convert.py: not there"),
        ("my-convert.py and convert.py.bak", "my-convert.py and convert.py.bak"),
    ],
)
def test_an_installed_library_names_commands_and_leaves_paths_alone(
    tmp_path, monkeypatch, message, shown
):
    monkeypatch.setattr(messages_module, "SCRIPTS", tmp_path)
    assert messages_module.with_commands(message) == shown


@pytest.mark.parametrize("terminal", [None, False, True])
def test_bars_are_for_terminals(monkeypatch, terminal):
    stream = None if terminal is None else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    if stream is not None:
        stream.isatty = lambda: terminal
    assert bar(None, True).disable == (not terminal) and bar(None, False).disable
    assert list(bar([1, 2], True)) == [1, 2] and not (stream and stream.getvalue())  # it was quick
