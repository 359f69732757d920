"""setup.sh: what it installs is found; it changes no other folder, and not Paddle's GPU build."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from environments import make_environment, run
from project import PROJECT


def setup(
    folder: Path | str, project: Path = PROJECT, **environment: str
) -> subprocess.CompletedProcess:
    command = ["sh", str(project / "setup.sh"), "requirements.txt", str(folder)]
    environment["PATH"] = "/usr/bin:/bin"
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_a_folder_that_is_no_environment_is_left_as_it_is(tmp_path):
    (tmp_path / "thesis.txt").write_text("the only copy")
    done = setup(tmp_path, PYTHON=sys.executable)
    assert done.returncode == 1 and f"error: {tmp_path} " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_python_that_is_not_there_is_named(tmp_path):
    done = setup(tmp_path / "env", PYTHON="/none")
    assert done.returncode == 1 and "/none" in done.stderr and not (tmp_path / "env").exists()


def test_a_failed_installation_says_what_to_do_without_a_network(tmp_path):
    """With a fake Python that has no Paddle, and whose pip installs nothing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(
        '#!/bin/sh\ncase "$*" in *" install "*) exit 1 ;; esac\n'
    )
    (tmp_path / "bin" / "python").chmod(0o755)
    done = setup(tmp_path)
    assert done.returncode == 1 and "wheels (docs/faq.md)" in done.stderr
    for page in ("docs/faq.md", "docs/faq_zh.md"):
        assert "`pip wheel -r requirements.txt -w wheels`" in (PROJECT / page).read_text(
            encoding="utf-8"
        )


def test_the_gpu_build_is_not_overwritten(tmp_path):
    """With a fake Python that has Paddle 2.6.2, which needs an older NumPy."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\necho Version: 2.6.2\n'
    )
    (tmp_path / "bin" / "python").chmod(0o755)
    assert setup(tmp_path).returncode == 0
    installed = (tmp_path / "packages.txt").read_text()
    assert "numpy" in installed and "paddlepaddle" not in installed
    call = (tmp_path / "calls").read_text().splitlines()[-2]
    assert call.endswith("packages.txt numpy<2")
    assert " pip>=21.3 " in call  # older ones cannot install with --editable


@pytest.fixture
def project(tmp_path) -> Path:
    """A small copy of the project, with a .venv that has the packages of this environment."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("setup.sh", "setup.py", "pyproject.toml", "requirements.txt", "README.md"):
        shutil.copy(PROJECT / name, project)
    (project / "elmo.py").write_text("")
    (project / "args.py").write_text("")
    (project / "elmo_core").mkdir()
    shutil.copy(PROJECT / "elmo_core" / "__init__.py", project / "elmo_core")
    make_environment(project / ".venv")
    return project


def finds(project: Path, name: str = "elmo") -> bool:
    """Whether a script in another folder finds a module of the project."""
    script = project.parent / "mine.py"
    script.write_text(f"import {name}")
    done = run(project / ".venv" / "bin" / "python", script, cwd="/")
    return done.returncode == 0


def test_a_script_in_another_folder_finds_the_library(project):
    assert not finds(project)
    done = setup(".venv", project, PIP_NO_INDEX="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert finds(project) and finds(project, "elmo_core") and not finds(project, "args")
    assert (project / ".venv" / "bin" / "elmo").is_file()


def test_a_folder_that_is_moved_is_found_after_another_run(project):
    assert setup(".venv", project, PIP_NO_INDEX="1").returncode == 0
    moved = project.rename(project.with_name("moved 项目"))
    assert not finds(moved)
    assert setup(".venv", moved).returncode == 0 and finds(moved)
    program = moved / ".venv" / "bin" / "elmo"
    assert "moved 项目" in program.read_text(encoding="utf-8")
    before = program.stat().st_mtime_ns
    assert setup(".venv", moved).returncode == 0
    assert program.stat().st_mtime_ns == before, "it was installed again"


def test_other_environments_do_not_get_the_project(project):
    (project / ".venv").rename(project / "other")
    assert setup("other", project, PIP_NO_INDEX="1").returncode == 0
    (project / ".venv").symlink_to("other")
    assert setup(".venv", project, PIP_NO_INDEX="1").returncode == 0 and not finds(project)
