"""Files of made-up vectors. Run as a script: processes that write one and are killed, each at a later call than the last."""

import os
import signal
import sys
from pathlib import Path
from unittest import mock

import numpy as np
from h5py import h5d

from embedding import vector_file
from embedding.vector_file import Window

LENGTHS = [3, 0, 5, 1, 2, 2, 7, 0, 0, 4, 1, 6, 3]
WINDOW = 3
SENTENCES = [[f"w{line}x{k}" for k in range(n)] for line, n in enumerate(LENGTHS)]
SETTINGS = {"shape": [2, None, 4], "dtype": "float32", "sentences": True, "first_line": 0, "lines_in_all": len(LENGTHS)}


def array(line: int) -> np.ndarray:
    return np.random.default_rng(line).standard_normal((2, LENGTHS[line], 4)).astype(np.float32)


def write(path: Path, first: int = 0, end: int = len(LENGTHS), keep_ledger: bool = False, most: int = 99) -> None:
    """Write the lines from `first` to before `end`, or what an interrupted run has left, `most` windows at the most."""
    groups = [range(line, min(line + WINDOW, end)) for line in range(first, end, WINDOW)]
    texts = [vector_file.entries(group[0], [SENTENCES[line] for line in group]) for group in groups]
    windows = [Window(len(group), len(text)) for group, text in zip(groups, texts, strict=True)]
    settings = {**SETTINGS, "first_line": first, "lines": end - first}
    shapes = [(2, n, 4) for n in LENGTHS[first:end]]
    with vector_file.under_way(path, settings, windows, shapes) as file:
        missing = [number for number in range(len(windows)) if not file.is_done(number)]
        for number in missing[:most]:
            file.write(number, ((line, array(line)) for line in reversed(groups[number])), texts[number])
        if len(missing) <= most:
            file.finish(path, keep_ledger)


def killed_at(number: int, path: Path) -> bool:
    """Whether a process that is killed at this call is killed. What it writes there it writes to the half."""
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == signal.SIGKILL
    calls, pwrite = 0, os.pwrite

    def dying(call):
        def dying_call(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls == number:
                if call is pwrite:
                    pwrite(arguments[0], arguments[1][: len(arguments[1]) // 2], arguments[2])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return dying_call

    patched = {"pwrite": dying(os.pwrite), "ftruncate": dying(os.ftruncate), "fsync": dying(os.fsync)}
    with (
        mock.patch.multiple(os, **patched),
        mock.patch.object(Path, "replace", dying(Path.replace)),
        mock.patch.object(h5d, "create", dying(h5d.create)),
        noted(path),
    ):
        write(path)
    os._exit(0)


def noted(path: Path):
    """VectorFile.write, which notes in a file what it has written."""
    whole = vector_file.VectorFile.write

    def write_and_note(file, window, *rest):
        whole(file, window, *rest)
        with Path(f"{path}.done").open("a", encoding="utf-8") as note:
            note.write(f"{window} ")

    return mock.patch.object(vector_file.VectorFile, "write", write_and_note)


def check_nothing_done_is_lost(path: Path) -> None:
    """Every window that was written before the kill is there."""
    note = Path(f"{path}.done")
    if note.exists():
        with vector_file.VectorFile(vector_file.partial_of(path)) as file:
            lost = [window for window in map(int, note.read_text(encoding="utf-8").split()) if not file.is_done(window)]
            assert not lost, f"{path}: windows {lost} were written before the kill"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write(folder / "whole")
    number = 1
    while killed_at(number, folder / str(number)):
        path = folder / str(number)
        if not path.exists():  # else it was killed when all was done
            check_nothing_done_is_lost(path)
            write(path)
        found, expected = path.read_bytes(), (folder / "whole").read_bytes()
        assert found[: len(expected)] == expected, f"killed at call {number}"
        assert not vector_file.partial_of(path).exists()
        number += 1
    print(f"killed {number - 1} times")
