"""PyTorch in the place of Paddle: the same runs.

They need an interpreter with PyTorch and requirements.txt. PYTORCH_PYTHON names it; otherwise it is
the one that runs the tests.
"""

import ast
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
from project import PROJECT

from elmo_core.weights import checkpoint

PYTHON = os.environ.get("PYTORCH_PYTHON", sys.executable)
SETTINGS = {
    "adagrad": {"n_negative_samples": 0, "accumulate": 2},
    "adam": {
        "optimizer": "adam",
        "lr": 0.01,
        "warmup_steps": 5,
        "noise": 0.1,
        "input": "char+word",
    },
}
# Named in the library, but not reached: tracing, the compiled loops for CPUs, several
# processes, and `pretrain` called from Python.
NOT_REACHED = {
    "__file__",
    "amax",
    "distributed",
    "empty_like",
    "get_rng_state",
    "in_dynamic_mode",
    "index_select",
    "io",
    "set_rng_state",
    "shape",
    "slice",
    "split",
    "unique",
    "zeros_like",
}
TOLERANCE = 1e-5  # of a loss; they differed by up to 2e-6


@functools.cache
def has_pytorch() -> bool:
    program = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
    return subprocess.run([PYTHON, "-c", program], check=False).returncode == 0


def run_on_pytorch(script: str, argv: list[str]) -> str:
    """What a script prints, with PyTorch in the place of Paddle."""
    stand_in = str(PROJECT / "benchmarks/with_pytorch")
    environment = {**os.environ, "PYTHONPATH": stand_in, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [PYTHON, PROJECT / script, *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def logged(folder: Path) -> dict[str, list[float]]:
    """The losses and the held-out perplexities of a run."""
    found = {"loss": [], "perplexity": []}
    for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if values["event"] == "training":
            found["loss"].append(values["loss"])
        elif values["event"] == "evaluation":
            found["perplexity"].append(values["perplexity"])
    return found


def assert_equal_logs(one: Path, other: Path, steps: int) -> None:
    expected = logged(one)
    found = logged(other)
    assert len(found["loss"]) == steps
    assert found["perplexity"]
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=TOLERANCE)
    np.testing.assert_allclose(found["perplexity"], expected["perplexity"], rtol=10 * TOLERANCE)


def names_of_paddle(path: Path) -> set[str]:
    """The NAMEs of all `paddle.NAME` in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "paddle":
            found.add(node.attr)
    return found


def names_of_stand_in() -> set[str]:
    """The names that the stand-in defines or imports."""
    text = (PROJECT / "benchmarks/with_pytorch/paddle/__init__.py").read_text(encoding="utf-8")
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names)
    return found


def test_it_has_what_the_library_names():
    used = names_of_paddle(PROJECT / "elmo.py")
    for folder in ("elmo_core", "elmo_tools/pretraining"):
        for path in (PROJECT / folder).rglob("*.py"):
            used |= names_of_paddle(path)
    assert used - names_of_stand_in() == NOT_REACHED


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", SETTINGS)
def test_losses_are_those_of_paddle_and_each_resumes_the_others_checkpoints(tmp_path, optimizer):
    if not has_pytorch():
        pytest.skip("no PyTorch")
    corpus = runs.write_corpus(tmp_path)
    common = {**SETTINGS[optimizer], "dropout": 0, "log_freq": 1, "allow_changes": True}

    def flags(name: str, **changes) -> list[str]:
        return runs.flags(corpus, tmp_path / name, **common, **changes)

    start = tmp_path / "start"
    runs.pretrain(flags("start", max_steps=1))
    runs.pretrain(flags("paddle", finetune_from=start, max_steps=20))
    run_on_pytorch("run_pretrain.py", flags("pytorch", finetune_from=start, max_steps=20))
    assert_equal_logs(tmp_path / "paddle", tmp_path / "pytorch", steps=20)

    (tmp_path / "paddle").rename(tmp_path / "then_pytorch")
    (tmp_path / "pytorch").rename(tmp_path / "then_paddle")
    run_on_pytorch("run_pretrain.py", flags("then_pytorch", resume=True, max_steps=25))
    runs.pretrain(flags("then_paddle", resume=True, max_steps=25))
    assert_equal_logs(tmp_path / "then_paddle", tmp_path / "then_pytorch", steps=25)
    assert checkpoint.steps(tmp_path / "then_paddle")[-1] == 25
