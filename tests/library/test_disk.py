"""Files and folders: atomic, locked, and in one place for all caches."""

import subprocess
import sys
from pathlib import Path

import pytest
from project import PROJECT

from elmo_core.files import disk
from elmo_core.weights import published


def test_a_folder_appears_when_complete_and_replaces_nothing(tmp_path):
    with pytest.raises(KeyError), disk.atomic_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("1")
        raise KeyError
    assert not list(tmp_path.iterdir())
    with disk.atomic_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("1")
    with pytest.raises(OSError), disk.atomic_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("2")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["a", "a/x"]
    assert (tmp_path / "a" / "x").read_text() == "1"


@pytest.mark.parametrize("folder", ["rel/cache", "", None])
def test_one_folder_for_all_caches(tmp_path, monkeypatch, folder):
    """A relative XDG_CACHE_HOME is ignored, for models as for compiled code."""
    monkeypatch.delenv("ELMO_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own") if folder is None else folder)
    expected = tmp_path / ("own" if folder is None else ".cache") / "elmo"
    assert disk.cache_folder() == expected and published.home() == expected / "models"


HOLD = """
import os, sys
from pathlib import Path
from elmo_core.files import disk

held, inside = 0, Path(sys.argv[1]) / "inside"
while held < 2500:
    try:
        with disk.locked(Path(sys.argv[1]) / ".lock"):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            inside.unlink()
            held += 1
    except disk.FileLocked:
        pass
"""


def test_of_10_000_locks_none_overlap(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=PROJECT) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]


def test_a_lock_ends_with_its_process(tmp_path):
    path = tmp_path / ".lock"
    killed = "import os, sys, pathlib; from elmo_core.files import disk\n"
    killed += "with disk.locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", killed, str(path)], cwd=PROJECT).returncode == -9
    with disk.locked(Path(path)), pytest.raises(disk.FileLocked), disk.locked(path):
        pass
