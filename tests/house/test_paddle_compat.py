"""The supported versions of Paddle, and messages about unsupported ones."""

import subprocess
import sys

import pytest
import runs

from elmo_core.machine import paddle_compat


@pytest.mark.parametrize(
    "version", ["2.6.2", "3.0.0", "3.0.0rc1", "3.2.2", "3.3.1", "3.3.0.post126"]
)
def test_versions_in_the_range_are_taken(version):
    assert not paddle_compat.problem(version, "1.26.4")


@pytest.mark.parametrize(
    ("version", "numpy", "said"),
    [
        (None, "2.1.0", "not installed"),
        ("2.5.2", "1.26.4", "2.6.2 to 3.3"),
        ("3.4.0", "2.1.0", "2.6.2 to 3.3"),
        ("0.0.0", "2.1.0", "2.6.2 to 3.3"),
        ("2.6.2", "2.0.0", "numpy<2"),
    ],
)
def test_others_are_an_error_that_says_what_to_install(version, numpy, said):
    assert said in paddle_compat.problem(version, numpy)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["run_eval.py", "--init_from_ckpt=en", "--dev_data_path=text", "--device=cpu"], 2),
        (["benchmarks/bench.py"], 1),  # imports Paddle before it runs
    ],
)
def test_a_version_outside_the_range_is_found_before_paddle_is_imported(tmp_path, argv, code):
    (tmp_path / "paddle" / "version").mkdir(parents=True)
    (tmp_path / "paddle" / "__init__.py").write_text("raise AssertionError('imported')")
    (tmp_path / "paddle" / "version" / "__init__.py").write_text("full_version     = '2.5.2'\n")
    done = subprocess.run(
        [sys.executable, runs.PROJECT / argv[0], *argv[1:]],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode == code
        and done.stderr.startswith("error: paddle 2.5.2")
        and "Traceback" not in done.stderr
    )
