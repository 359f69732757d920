"""The library after `pip install .`: usable from any folder, next to files with the names of ours."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from project import PROJECT, python_blocks

PAGES = [f"docs/{path.name}" for path in sorted(PROJECT.glob("docs/*.md")) if "_zh" not in path.name]
PAGES += ["README_zh.md", "docs/reference_zh.md"]
BEFORE = """\
run_embed.py --init_from_ckpt=checkpoints --input=sentences.txt --output=vectors.hdf5 --device=cpu
run_embed.py --init_from_ckpt=checkpoints --vocab=vocab.txt --output=vocab_vectors.hdf5 --device=cpu
run_tag.py train --train_file=chunks --save_dir=runs/chunks --init_from_ckpt=en-reviews --hidden_dim=32 --epochs=9 --lr=0.01
run_read.py train --train_file=data/reading/dev.json --save_dir=runs/mrc --init_from_ckpt=none --lang=zh --epochs=1
"""
SENT = """
from elmo_tasks import Classifier, Reader, Tagger
tagger = Tagger("runs/chunks")
assert tagger.predict(["The cat sat on the mat .".split()]) == [["B-NP", "I-NP", "O", "O", "B-NP", "I-NP", "O"]]
assert set(Classifier("model").predict(["The breakfast was good."])) <= {"good", "bad"}
print(Reader("runs/mrc").answer("他在哪里？", "他在银行。")[0].text)
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
        "elmo_core/text/shaded.html",
        "elmo_core/models/zh-news/final.pdparams",
        "elmo_core/py.typed",
        "elmo_tasks/py.typed",
    }
    assert data <= set(names) and wheel.stat().st_size <= 32e6


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory) -> Path:
    """The folder of the installed packages."""
    library = tmp_path_factory.mktemp("library")
    zipfile.ZipFile(wheel).extractall(library)
    return library


def test_a_users_script_trains_and_moves_each_kind_of_model(library, tmp_path):
    script = shutil.copy(PROJECT / "tests" / "support" / "user_script.py", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(library)}
    for command in (["-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", script], [script, tmp_path]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "['bad', 'good'] Paris Anna\n"


def test_it_runs_the_python_of_all_pages(library, readers_folder):
    """In a folder with the files of a user, whose names are ours, too; without a network and without the extra packages.

    The README's Chinese page has all examples of the English one, and one of its own.
    """
    Path("chunks").write_text("The B-NP\ncat I-NP\nsat O\non O\nthe B-NP\nmat I-NP\n. O\n\n" * 20, encoding="utf-8")
    for line in BEFORE.splitlines():
        script, *flags = shlex.split(line)
        importlib.import_module(script.removesuffix(".py")).main(flags)
    shutil.copytree("model", "runs/polarity")
    shutil.copytree("runs/chunks", "runs/lac")
    for name in ("dataset", "args", "tasks", "runtime", "checkpoint", "tokens", "config", "text"):
        Path(f"{name}.py").write_text("raise AssertionError('not the library')", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f".{os.pathsep}{library}"}
    done = subprocess.run(
        [sys.executable, PROJECT / "tests" / "support" / "installed.py"],
        input=json.dumps({"sent": [SENT], **{page: python_blocks(page) for page in PAGES}}),
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_same_everywhere():
    version = re.search(r'^version = "(.+)"', (PROJECT / "pyproject.toml").read_text("utf-8"), re.M)[1]
    assert f"\nversion: {version}\n" in (PROJECT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text("utf-8"), re.M)[1] == version


def test_its_dependencies_are_those_of_the_requirements():
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(r'"(.+?)"', "".join(re.findall(r"^(?:dependencies|train) = \[(.*?)^\]", text, re.M | re.S)))
    lines = (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert needed and set(needed) <= {line.partition("#")[0].strip() for line in lines}
