"""The supported versions of Paddle, and messages about unsupported ones."""

import subprocess
import sys

import pytest
import runs

from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle


@pytest.mark.parametrize("version", ["2.6.2", "3.0.0", "3.0.0rc1", "3.2.2", "3.3.1", "3.3.0.post126"])
def test_versions_in_the_range_are_taken(version):
    assert not versions.problem(version, "1.26.4")


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
    assert said in versions.problem(version, numpy)


def test_a_version_outside_the_range_is_found_before_paddle_is_imported(tmp_path):
    (tmp_path / "paddle" / "version").mkdir(parents=True)
    (tmp_path / "paddle" / "__init__.py").write_text("raise AssertionError('imported')")
    (tmp_path / "paddle" / "version" / "__init__.py").write_text("full_version     = '2.5.2'\n")
    done = subprocess.run(
        [sys.executable, runs.PROJECT / "run_eval.py", "--help"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.startswith("error: paddle 2.5.2") and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("card", "built_for", "said"),
    [
        ((8, 0), [61, 70, 80], ""),
        ((8, 9), [80, 86], ""),
        ((9, 0), [80, 86], "9.0"),
        ((8, 0), [75, 86], "8.0"),
        ((12, 0), [90, 100], "12.0"),
        ((12, 0), [], ""),
    ],
)
def test_a_gpu_without_kernels_is_named_with_those_there_are(monkeypatch, card, built_for, said):
    monkeypatch.setattr(paddle.device.cuda, "get_device_capability", lambda: card)
    monkeypatch.setattr(paddle.version, "cuda_archs", lambda: built_for, raising=False)
    warning = versions.missing_kernels(paddle)
    assert said in warning and bool(said) == bool(warning)
    assert not said or f"{built_for[0] // 10}.{built_for[0] % 10}, " in warning
