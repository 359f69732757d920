"""The installed library: usable from any folder, next to files with the names of ours."""

import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from environments import install, make_environment, run
from project import PROJECT, python_blocks

from elmo_core import __version__, command
from elmo_core.weights import published
from elmo_tasks.ready import ready_made

# But for the task of one's own in docs/development.md, which tests/tasks/test_own_task.py runs.
ENGLISH = [path.name for path in sorted(PROJECT.glob("docs/*.md")) if "_zh" not in path.name]
# that on Paddle's training has whole programs: tests/scripts/test_pages.py runs them
OTHERS = ("development.md", "paddle-training.md")
PAGES = [f"docs/{name}" for name in ENGLISH if name not in OTHERS]
PAGES += ["README_zh.md", "docs/reference_zh.md"]
STRAY = [  # files of a user in a clone
    "scratch.py",
    "mine/__init__.py",
    "elmo_core_old/old.py",
    "elmo_core_old/__init__.py",
    "elmo_core/models/mine/big.bin",
    "elmo_tools/senses/notes.txt",
    "build/lib/elmo_core/earlier.py",
]
BEFORE = """\
run_embed.py --init_from_ckpt=checkpoints --input=sentences.txt --output=vectors.hdf5 --device=cpu
run_tag.py train --train_file=chunks --save_dir=runs/tagger --init_from_ckpt=en \
    --hidden_dim=32 --epochs=9 --lr=0.01
run_read.py train --train_file=data/reading/dev.json --save_dir=runs/mrc \
    --init_from_ckpt=none --lang=zh --epochs=1
"""
SENT = """
from elmo_tasks import Classifier, Reader, Tagger
tagger = Tagger("runs/tagger")
(labels,) = tagger.predict(["The cat sat on the mat .".split()])
assert labels == ["B-NP", "I-NP", "O", "O", "B-NP", "I-NP", "O"]
assert set(Classifier("model").predict(["The breakfast was good."])) <= {"good", "bad"}
print(Reader("runs/mrc").predict(("他在哪里？", "他在银行。")).text)
"""
FINDS = """
import importlib.util
from elmo import ELMoEmbedder
from elmo_core.config import ELMoConfig
from elmo_tasks import Tagger
from elmo_tools.pretraining import streams
for name in ("args", "dataset", "script", "convert", "run_tag", "setup", "tests", "mine"):
    assert importlib.util.find_spec(name) is None, name
"""
TREE = """\
1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\troom\t_\tNOUN\t_\t_\t4\tnsubj\t_\t_
3\twas\t_\tAUX\t_\t_\t4\tcop\t_\t_
4\tquiet\t_\tADJ\t_\t_\t0\troot\t_\t_
5\t.\t_\tPUNCT\t_\t_\t4\tpunct\t_\t_

"""


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A clone, with files of a user."""
    source = tmp_path_factory.mktemp("source")
    for pattern in ("*.py", "pyproject.toml", "README.md", "LICENSE"):
        for path in PROJECT.glob(pattern):
            shutil.copy(path, source)
    for path in PROJECT.glob("*/__init__.py"):
        ignored = shutil.ignore_patterns("__pycache__", ".cache")
        shutil.copytree(path.parent, source / path.parent.name, ignore=ignored)
    for name in STRAY:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return source


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", output, source], check=True)
    (path,) = output.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The programs of an environment with the wheel."""
    python = make_environment(tmp_path_factory.mktemp("installed") / "environment")
    install(python, wheel)
    return python.parent


@pytest.fixture(scope="module")
def editable(source, tmp_path_factory) -> Path:
    """The programs of an environment with the clone, after `pip install -e .`."""
    python = make_environment(tmp_path_factory.mktemp("editable") / "environment")
    install(python, "--editable", source)
    return python.parent


@pytest.fixture
def programs(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture
def own_folder(tmp_path, monkeypatch) -> Path:
    """The current folder, with a user's modules that have the names of ours."""
    monkeypatch.chdir(tmp_path)
    for name in ("args.py", "dataset.py", "script.py", "convert.py", "export/__init__.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("raise AssertionError('not ours')", encoding="utf-8")
    return tmp_path


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
    models = [model.folder for model in published.models() if model.format == "bundled"]
    models += ready_made()
    files = {
        "elmo/py.typed",
        "elmo_core/kernels/fused.c",
        "elmo_core/py.typed",
        "elmo_tasks/py.typed",
        "elmo_tools/senses/page.html",
        "elmo_tools/experiments/examples/reading_times.py",
        "elmo_tools/export/examples/model_io.py",
        "elmo_tools/py.typed",
        *(f"elmo_scripts/{script}.py" for script, _ in command.COMMANDS.values()),
        *(str((model / "README.md").relative_to(PROJECT)) for model in models),
    }
    assert files <= set(names) and wheel.stat().st_size <= 79e6
    stray = {Path(name).name for name in STRAY} - {"__init__.py"}
    assert not {Path(name).name for name in names} & stray


@pytest.mark.parametrize("programs", ["installed", "editable"], indirect=True)
def test_the_command_runs_the_scripts(programs, own_folder):
    Path("train.txt").write_text("The B-NP\ncat I-NP\nsat O\n\n" * 20, encoding="utf-8")
    elmo = programs / "elmo"
    train = "tag train --train_file=train.txt --save_dir=tagger --init_from_ckpt=none --lr=0.01"
    done = run(elmo, *train.split(), "--epochs=3", path=".")
    assert done.returncode == 0, done.stderr
    done = run(elmo, "tag", "predict", "--model_dir=tagger", "--lang=en", input="The cat sat\n")
    assert done.stdout == "The\tB-NP\ncat\tI-NP\nsat\tO\n\n", done.stderr
    assert "\nzh-lac" in run(elmo, "models", path=".").stdout
    done = run(elmo, "fintune")
    assert done.returncode == 2 and "did you mean finetune?" in done.stderr
    done = run(elmo, "eval", "--init_from_ckpt=none", "--dev_data_path=train.txt")
    assert done.returncode == 2 and "`elmo convert list`" in done.stderr


@pytest.mark.parametrize("programs", ["installed", "editable"], indirect=True)
def test_a_users_script_finds_the_library_alone(programs, tmp_path):
    """A script in any folder; no other file of a clone can be in the way of a user's modules."""
    script = tmp_path / "own_script.py"
    script.write_text(FINDS, encoding="utf-8")
    done = run(programs / "python", script, cwd="/")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("programs", ["installed", "editable"], indirect=True)
def test_help_names_the_commands(programs, own_folder):
    for name in command.COMMANDS:
        text = run(programs / "elmo", name, "--help").stdout
        assert f"usage: elmo {name} " in text and f"\n    elmo {name} " in text
        assert "docs/" not in text, "a wheel has no pages"
        assert not re.search(r"python (?!exported/)\w+\.py", text)
        launched = [Path(path) for path in re.findall(r"launch .* (\S+\.py)", text)]
        assert len(launched) == {"pretrain": 2, "eval": 1, "surprisal": 1, "embed": 1}.get(name, 0)
        assert all(path.is_absolute() and path.is_file() for path in launched)


def test_a_users_script_trains_and_moves_each_kind_of_model(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = shutil.copy(PROJECT / "tests" / "support" / "user_script.py", ".")
    mistake = 'import elmo\nelmo.ELMoEmbedder("x", poool="mean")\n'
    Path("mistake.py").write_text(mistake, encoding="utf-8")
    python = installed / "python"
    mypy = [python, "-m", "mypy", "--strict", "--cache-dir=cache"]
    assert 'argument "poool"' in run(*mypy, "mistake.py").stdout
    for line in ([*mypy, script], [python, script, "."]):
        done = run(*line)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "256 ['bad', 'good'] Paris Anna\n"


def test_it_runs_the_python_of_all_pages(installed, readers_folder):
    """In a user's folder whose files have names of ours, without a network and the extra packages.

    The README's Chinese page has all examples of the English one, and one of its own.
    """
    chunks = "The B-NP\ncat I-NP\nsat O\non O\nthe B-NP\nmat I-NP\n. O\n\n"
    Path("chunks").write_text(chunks * 20, encoding="utf-8")
    for name in ("train.conllu", "dev.conllu", "test.conllu"):
        Path(name).write_text(TREE * 4, encoding="utf-8")
    for line in BEFORE.splitlines():
        script, *flags = shlex.split(line)
        importlib.import_module(script.removesuffix(".py")).main(flags)
    shutil.copytree("model", "runs/polarity")
    shutil.copytree("runs/tagger", "runs/lac")
    for name in ("dataset", "args", "tasks", "runtime", "checkpoint", "tokens", "config", "text"):
        Path(f"{name}.py").write_text("raise AssertionError('not the library')", encoding="utf-8")
    blocks = {"sent": [SENT]}
    for page in PAGES:
        blocks[page] = [block for block in python_blocks(page) if "fastapi" not in block]
    script = PROJECT / "tests" / "support" / "installed.py"
    done = run(installed / "python", script, path=".", input=json.dumps(blocks))
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
