"""Runs of preprocess.py, and the files that they write."""

from pathlib import Path

import preprocess


def run(*argv) -> None:
    preprocess.main([str(arg) for arg in argv])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
