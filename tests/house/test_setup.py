"""setup.sh: it changes neither other folders nor Paddle's GPU build."""

import subprocess
import sys
from pathlib import Path

from project import PROJECT


def setup(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    command = ["sh", str(PROJECT / "setup.sh"), "requirements.txt", str(folder)]
    return subprocess.run(command, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True)


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
    (tmp_path / "bin" / "python").write_text('#!/bin/sh\ncase "$*" in *" install "*) exit 1 ;; esac\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    done = setup(tmp_path)
    assert done.returncode == 1 and "wheels (docs/faq.md)" in done.stderr
    for page in ("docs/faq.md", "docs/faq_zh.md"):
        assert "`pip wheel -r requirements.txt -w wheels`" in (PROJECT / page).read_text(encoding="utf-8")


def test_the_gpu_build_is_not_overwritten(tmp_path):
    """With a fake Python that has Paddle 2.6.2, which needs an older NumPy."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\necho Version: 2.6.2\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    assert setup(tmp_path).returncode == 0
    installed = (tmp_path / "packages.txt").read_text()
    assert "numpy" in installed and "paddlepaddle" not in installed
    assert (tmp_path / "calls").read_text().splitlines()[-2].endswith("packages.txt numpy<2")
