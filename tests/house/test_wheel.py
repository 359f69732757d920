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

from elmo_core import __version__, command

PAGES = [
    f"docs/{path.name}" for path in sorted(PROJECT.glob("docs/*.md")) if "_zh" not in path.name
]
PAGES += ["README_zh.md", "docs/reference_zh.md"]
BEFORE = """\
run_embed.py --init_from_ckpt=checkpoints --input=sentences.txt --output=vectors.hdf5 --device=cpu
run_tag.py train --train_file=chunks --save_dir=runs/tagger --init_from_ckpt=en --hidden_dim=32 --epochs=9 --lr=0.01
run_read.py train --train_file=data/reading/dev.json --save_dir=runs/mrc --init_from_ckpt=none --lang=zh --epochs=1
"""
SENT = """
from elmo_tasks import Classifier, Reader, Tagger
tagger = Tagger("runs/tagger")
assert tagger.predict(["The cat sat on the mat .".split()]) == [["B-NP", "I-NP", "O", "O", "B-NP", "I-NP", "O"]]
assert set(Classifier("model").predict(["The breakfast was good."])) <= {"good", "bad"}
print(Reader("runs/mrc").answer("他在哪里？", "他在银行。")[0].text)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A clone, with files of a user."""
    source = tmp_path_factory.mktemp("source")
    for path in (
        *PROJECT.glob("*.py"),
        *(PROJECT / name for name in ("pyproject.toml", "README.md", "LICENSE")),
    ):
        shutil.copy(path, source)
    for path in PROJECT.glob("*/__init__.py"):
        ignored = shutil.ignore_patterns("__pycache__", ".cache")
        shutil.copytree(path.parent, source / path.parent.name, ignore=ignored)
    (source / "mine").mkdir()
    for name in ("scratch.py", "mine/__init__.py", "elmo_tools/senses/notes.txt"):
        (source / name).touch()
    return source


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", output, source], check=True)
    (path,) = output.glob("*.whl")
    return path


def test_the_wheel_holds_the_library_and_the_scripts_in_a_folder(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "elmo",
        "elmo_core",
        "elmo_tasks",
        "elmo_tools",
        "elmo_scripts",
        "elmo_paddle",
    }
    files = {
        "elmo/py.typed",
        "elmo_core/kernels/fused.c",
        "elmo_core/models/zh/model.safetensors",
        "elmo_core/py.typed",
        "elmo_tasks/models/parser/en-ewt/model-33c92b5cfb54.safetensors",
        "elmo_tasks/models/tagger/zh-gsd/README.md",
        "elmo_tasks/py.typed",
        "elmo_tools/senses/page.html",
        "elmo_tools/export/examples/model_io.py",
        "elmo_tools/py.typed",
        *(f"elmo_scripts/{script}.py" for script, _ in command.COMMANDS.values()),
    }
    assert files <= set(names) and wheel.stat().st_size <= 76e6
    assert not [name for name in names if "scratch" in name or "mine" in name or "notes" in name]


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory) -> Path:
    """The folder of the installed packages, without their dependencies."""
    library = tmp_path_factory.mktemp("library")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        library,
        wheel,
    ]
    subprocess.run(pip, check=True)
    # setup.sh adds the project to the path of .venv, where it would supply what the wheel lacks
    code = f"import sys\nsys.path = [path for path in sys.path if path != {str(PROJECT)!r}]\n"
    (library / "sitecustomize.py").write_text(code, encoding="utf-8")
    return library


def run(library: Path | str, *command, **options) -> subprocess.CompletedProcess:
    """Run a command in the current folder, with the installed library."""
    environment = {**os.environ, "PYTHONPATH": str(library)}
    return subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", check=False, **options
    )


def test_the_command_runs_the_scripts(library, tmp_path, monkeypatch):
    """In a folder with a user's module of the name of one of ours."""
    monkeypatch.chdir(tmp_path)
    Path("args.py").write_text("raise AssertionError('not ours')", encoding="utf-8")
    Path("train.txt").write_text("The B-NP\ncat I-NP\nsat O\n\n" * 20, encoding="utf-8")
    elmo = library / "bin" / "elmo"
    flags = [
        "--train_file=train.txt",
        "--save_dir=tagger",
        "--init_from_ckpt=none",
        "--epochs=3",
        "--lr=0.01",
    ]
    done = run(library, elmo, "tag", "train", *flags)
    assert done.returncode == 0, done.stderr
    done = run(
        library, elmo, "tag", "predict", "--model_dir=tagger", "--lang=en", input="The cat sat\n"
    )
    assert done.stdout == "The\tB-NP\ncat\tI-NP\nsat\tO\n\n", done.stderr
    assert "\nzh-gsd" in run(library, elmo, "models").stdout
    done = run(library, elmo, "fintune")
    assert done.returncode == 2 and "did you mean finetune?" in done.stderr


def test_the_command_runs_the_scripts_of_a_clone(source, tmp_path, monkeypatch):
    """After `pip install -e`, in any folder."""
    monkeypatch.chdir(source)
    build = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], capture_output=True, check=True)
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    (entry,) = re.findall(
        r"^elmo = (\S+):main$", next(tmp_path.rglob("entry_points.txt")).read_text(), re.M
    )
    program = f"""
import site, sys
sys.path = [path for path in sys.path if path != {str(PROJECT)!r}]
site.addsitedir({str(tmp_path / "site")!r})
sys.argv = ["elmo", "convert", "list"]
from {entry} import main
main()
"""
    done = run("", sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 0 and "\nzh-gsd" in done.stdout, done.stderr


def test_help_names_the_commands_where_the_scripts_are_not_at_hand(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = """
import sys
from elmo_core.command import COMMANDS, main
for command in COMMANDS:
    sys.argv = ["elmo", command, "--help"]
    try: main()
    except SystemExit: pass
"""
    text = run(library, sys.executable, "-c", program).stdout
    assert all(f"usage: elmo {name} " in text for name in command.COMMANDS)
    assert all(f"\n    elmo {name} " in text for name in command.COMMANDS)
    launched = {Path(path) for path in re.findall(r"launch .* (\S+\.py)", text)}
    assert len(launched) == 3 and all(
        path.parent == library / "elmo_scripts" and path.is_file() for path in launched
    )
    assert not re.search("python (?!exported/)\\w+.py", text)


def test_a_users_script_trains_and_moves_each_kind_of_model(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = shutil.copy(PROJECT / "tests" / "support" / "user_script.py", ".")
    Path("mistake.py").write_text(
        'import elmo\nelmo.ELMoEmbedder("x", poool="mean")\n', encoding="utf-8"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir=cache"]
    assert 'argument "poool"' in run(library, *mypy, "mistake.py").stdout
    for line in ([*mypy, script], [sys.executable, script, "."]):
        done = run(library, *line)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "256 ['bad', 'good'] Paris Anna\n"


def test_it_runs_the_python_of_all_pages(library, readers_folder):
    """In a folder with the files of a user, whose names are ours, too; without a network and without the extra packages.

    The README's Chinese page has all examples of the English one, and one of its own.
    """
    Path("chunks").write_text(
        "The B-NP\ncat I-NP\nsat O\non O\nthe B-NP\nmat I-NP\n. O\n\n" * 20, encoding="utf-8"
    )
    tree = "1 The DET 2 det\n2 room NOUN 4 nsubj\n3 was AUX 4 cop\n4 quiet ADJ 0 root\n5 . PUNCT 4 punct"
    rows = [line.split() for line in tree.split("\n")]
    lines = [
        f"{k}\t{word}\t_\t{tag}\t_\t_\t{head}\t{label}\t_\t_" for k, word, tag, head, label in rows
    ]
    for name in ("train.conllu", "dev.conllu", "test.conllu"):
        Path(name).write_text("\n".join([*lines, "", ""]) * 4, encoding="utf-8")
    for line in BEFORE.splitlines():
        script, *flags = shlex.split(line)
        importlib.import_module(script.removesuffix(".py")).main(flags)
    shutil.copytree("model", "runs/polarity")
    shutil.copytree("runs/tagger", "runs/lac")
    for name in ("dataset", "args", "tasks", "runtime", "checkpoint", "tokens", "config", "text"):
        Path(f"{name}.py").write_text("raise AssertionError('not the library')", encoding="utf-8")
    pages = {
        page: [block for block in python_blocks(page) if "fastapi" not in block] for page in PAGES
    }
    blocks = json.dumps({"sent": [SENT], **pages})
    script = PROJECT / "tests" / "support" / "installed.py"
    done = run(f".{os.pathsep}{library}", sys.executable, script, input=blocks)
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {__version__}\n" in (PROJECT / "CITATION.cff").read_text("utf-8")
    assert (
        re.search(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text("utf-8"), re.M)[1]
        == __version__
    )


def test_its_dependencies_are_those_of_the_requirements():
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(
        r'"(.+?)"', "".join(re.findall(r"^(?:dependencies|train) = \[(.*?)^\]", text, re.M | re.S))
    )
    lines = (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert needed and set(needed) <= {line.partition("#")[0].strip() for line in lines}
