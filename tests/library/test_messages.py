"""Messages for users: bars of progress."""

import io

import pytest

from elmo_core.messages import bar


@pytest.mark.parametrize("terminal", [None, False, True])
def test_bars_are_for_terminals(monkeypatch, terminal):
    stream = None if terminal is None else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    if stream is not None:
        stream.isatty = lambda: terminal
    assert bar(None, True).disable == (not terminal) and bar(None, False).disable
    assert list(bar([1, 2], True)) == [1, 2] and not (stream and stream.getvalue())  # it was quick
