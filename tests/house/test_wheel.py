"""The library after `pip install .`: usable from any folder, next to files with the names of ours."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tiny
from project import PROJECT

PROGRAM = """
import sys
import elmo_tasks.reading.reader
import elmo_tasks.tagging.tagger
from elmo import ELMo, ELMoEmbedder

sentences = [["The", "first", "sentence", "."], ["Second", "one", "."]]
for text, emb in zip(sentences, ELMoEmbedder(sys.argv[1]).encode(sentences)):
    print(emb.shape)
(mixed,), mask = ELMo(sys.argv[1])(sentences)
print(list(mixed.shape), list(mask.shape))
print(ELMo("zh-news").dim)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("elmo.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    for name in ("elmo_core", "elmo_tasks"):
        shutil.copytree(PROJECT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", ".cache"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", output, source], check=True)
    (path,) = output.glob("*.whl")
    return path


def test_the_wheel_holds_the_library_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "elmo.py",
        "elmo_core",
        "elmo_tasks",
        "elmo_paddle",
    }
    data = {
        "elmo_core/network/fused.c",
        "elmo_core/models/zh-news/final.pdparams",
        "elmo_core/py.typed",
        "elmo_tasks/py.typed",
    }
    assert data <= set(names) and wheel.stat().st_size <= 32e6


def test_it_works_beside_files_with_the_names_of_ours(wheel, tmp_path):
    prefix = tiny.save(tiny.random_bilm(), tmp_path / "checkpoints")
    folder, library = tmp_path / "a project", tmp_path / "library"
    folder.mkdir()
    for name in ("dataset", "args", "runtime", "checkpoint", "tokens", "config", "text"):
        (folder / f"{name}.py").write_text("raise AssertionError('not the library')", encoding="utf-8")
    zipfile.ZipFile(wheel).extractall(library)
    environment = {
        **os.environ,
        "PYTHONPATH": str(library),
        "ELMO_HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", PROGRAM, prefix]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(3, 4, 14)", "(3, 3, 14)", "[2, 4, 14] [2, 4]", "256"]


def test_the_version_is_the_same_everywhere():
    version = re.search(r'^version = "(.+)"', (PROJECT / "pyproject.toml").read_text("utf-8"), re.M)[1]
    assert f"\nversion: {version}\n" in (PROJECT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text("utf-8"), re.M)[1] == version


def test_its_dependencies_are_those_of_the_requirements():
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(r'"(.+?)"', "".join(re.findall(r"^(?:dependencies|train) = \[(.*?)^\]", text, re.M | re.S)))
    lines = (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert needed and set(needed) <= {line.partition("#")[0].strip() for line in lines}
