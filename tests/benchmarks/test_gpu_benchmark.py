"""benchmarks/gpu.py: it also runs on a CPU."""

import json

import pytest
import runs

from elmo_core.kernels import matmul


def test_it_runs_on_a_cpu(tmp_path):
    argv = ["--device=cpu", "--rows=2", "--vocab_size=50", "--candidates=8", "--steps=1"]
    assert runs.start("benchmarks/gpu.py", argv, tmp_path / "output").wait(timeout=60) == 0
    lines = [
        line.split("|") for line in (tmp_path / "output").read_text(encoding="utf-8").splitlines()
    ]
    speeds = {
        line[3].strip(): float(line[4].replace(",", ""))
        for line in lines
        if line[1:2] == [" tiny "]
    }
    expected = (
        {"float32", "tf32"} if matmul.bfloat16_problem("cpu") else {"float32", "tf32", "bfloat16"}
    )
    assert speeds.keys() == expected and min(speeds.values()) > 0


@pytest.mark.slow
def test_all_checks_run_on_a_cpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = runs.start("benchmarks/gpu.py", ["--check", "--device=cpu"], tmp_path / "output")
    assert process.wait(timeout=300) == 0, (tmp_path / "output").read_text(encoding="utf-8")
    found = json.loads((tmp_path / "gpu-check.json").read_text(encoding="utf-8"))
    results = {name: check["result"] for name, check in found["checks"].items()}
    assert {name for name, result in results.items() if result != "PASS"} <= {
        "kernels",
        "no waits",
        "exchange",
    }
    assert len(results) == 10 and {row["model"] for row in found["speeds"]} == {"tiny"}
