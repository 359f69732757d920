"""Virtual environments that have the packages of this one, but not this project."""

import os
import site
import subprocess
import sys
from pathlib import Path


def make_environment(folder: Path) -> Path:
    """Make a virtual environment, and return its Python.

    Its packages are found by a path file, which does not read the path files there: one of them may
    lead to a project that pip has installed with --editable.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    lines = "\n".join(site.getsitepackages())
    (packages / "packages-of-the-tests.pth").write_text(lines, encoding="utf-8")
    return folder / "bin" / "python"


def install(python: Path, *arguments: str | Path) -> None:
    """Install this project in an environment, with what pip takes for it, without a network."""
    pip = [python, "-m", "pip", "install", "--quiet", "--ignore-installed", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", *arguments], check=True)


def run(*command: str | Path, path: str = "", **options) -> subprocess.CompletedProcess:
    """Run a command, with $PYTHONPATH, and return it with its output."""
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
        **options,
    )
