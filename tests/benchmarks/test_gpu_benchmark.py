"""benchmarks/gpu.py: it also runs on a CPU."""

import runs

from elmo_core.network import matmul


def test_it_runs_on_a_cpu(tmp_path):
    argv = ["--device=cpu", "--rows=2", "--vocab_size=50", "--candidates=8", "--steps=1"]
    assert runs.start("benchmarks/gpu.py", argv, tmp_path / "output").wait(timeout=60) == 0
    lines = [line.split("|") for line in (tmp_path / "output").read_text(encoding="utf-8").splitlines()]
    speeds = {line[3].strip(): float(line[4].replace(",", "")) for line in lines if line[1:2] == [" tiny "]}
    expected = {"float32", "tf32"} if matmul.bfloat16_problem("cpu") else {"float32", "tf32", "bfloat16"}
    assert speeds.keys() == expected and min(speeds.values()) > 0
