"""Several processes on gloo: collective calls, and the end of all if one dies."""

import re
import signal

import numpy as np
import pytest
import runs

from elmo_core.weights import checkpoint

pytestmark = pytest.mark.ranks


def test_two_ranks_work_together(tmp_path):
    processes = runs.start_ranks("tests/support/rank_checks.py", [], tmp_path)
    ended = [process.wait(timeout=120) for process in processes]
    for k in range(2):
        output = (tmp_path / f"rank{k}").read_text(encoding="utf-8")
        assert ended[k] == 0 and "all checks passed" in output, output


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    assert (
        runs.start("tests/support/rank_step.py", [str(folder / "step.npz")], folder / "out").wait(
            timeout=120
        )
        == 0
    )
    return np.load(folder / "step.npz")


@pytest.mark.parametrize("n", [2, 4])
def test_ranks_make_the_step_that_one_makes_with_all_their_rows(one_rank, tmp_path, n):
    processes = runs.start_ranks(
        "tests/support/rank_step.py", [str(tmp_path / "step.npz")], tmp_path, n=n
    )
    assert [process.wait(timeout=180) for process in processes] == [0] * n, (
        tmp_path / "rank0"
    ).read_text()
    several = np.load(tmp_path / "step.npz")
    assert several.files == one_rank.files
    for name in several.files:
        expected = one_rank[name]
        if (
            "gradient 1" in name
            or "losses 1" in name
            or {"weight", "optimizer"} & set(name.split())
        ):  # after an update
            tolerance = (
                2e-3 if "adam" in name else 1e-5
            )  # Adam turns a gradient of almost 0 into a whole step
        else:
            tolerance = 1e-6
        error = np.abs(several[name] - expected).max() / max(1, np.abs(expected).max())
        assert error < tolerance, name


@pytest.fixture
def three_ranks(tmp_path):
    """Three ranks in the middle of pretraining."""
    changes = {"dev_data_path": None, "max_steps": 100000, "log_freq": 1}
    argv = runs.flags(runs.write_corpus(tmp_path / "corpus"), tmp_path / "run", **changes)
    processes = runs.start_ranks("run_pretrain.py", argv, tmp_path, n=3)
    runs.wait_for_step(3, processes[0], tmp_path / "rank0")
    return processes


def test_a_rank_that_is_killed_ends_the_others(three_ranks, tmp_path):
    three_ranks[1].kill()
    for k in (0, 2):
        assert three_ranks[k].wait(timeout=60) == 2
        output = (tmp_path / f"rank{k}").read_text(encoding="utf-8")
        assert (
            re.search(r"^error: .* rank was lost.* --resume", output, re.M)
            and "Traceback" not in output
        )
    assert not checkpoint.steps(tmp_path / "run")


def test_a_signal_to_any_rank_stops_all_after_the_same_step(three_ranks, tmp_path):
    three_ranks[2].send_signal(signal.SIGTERM)
    assert [process.wait(timeout=60) for process in three_ranks] == [143] * 3
    assert re.search(
        r"stopped at step (\d+), saved as .*run/\1\.",
        (tmp_path / "rank0").read_text(encoding="utf-8"),
    )
