"""benchmarks/gpu.py: it also runs on a CPU, and its counted cost is the model's."""

import sys

import runs

from elmo import BiLM, ELMoConfig

sys.path.insert(0, str(runs.PROJECT / "benchmarks"))
import bench
import gpu


def test_it_runs_on_a_cpu(tmp_path):
    argv = ["--device=cpu", "--rows=2", "--vocab_size=50", "--candidates=8", "--steps=1"]
    assert runs.start("benchmarks/gpu.py", argv, tmp_path / "output").wait(timeout=60) == 0
    lines = [line.split("|") for line in (tmp_path / "output").read_text(encoding="utf-8").splitlines()]
    speeds = {line[3].strip(): float(line[4].replace(",", "")) for line in lines if line[1:2] == [" tiny "]}
    assert speeds.keys() == {"float32", "tf32", "bfloat16"} and min(speeds.values()) > 0


def test_the_cost_of_a_step_is_that_of_the_model():
    config = ELMoConfig.preset("tiny", vocab_size=10, n_highway=2)
    tables = ("softmax.weight", "softmax.bias", "token_encoder.embedding.weight")
    weights = BiLM(config).named_parameters()
    assert gpu.dense_weights(config) == sum(weight.size for name, weight in weights if name not in tables)
    original = ELMoConfig.preset("original")
    flop = gpu.cost(original, 128, 8192, gpu.DISTINCT_TOKENS[128]).flop
    assert flop["LSTM"] == 3 * bench.lstm_flop(original) * 128 * 20
    assert round(flop["LSTM"] + flop["softmax"], -11) == 1.3e12


def test_what_it_expects_is_what_the_page_says(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--expect"])
    gpu.main()
    page = (runs.PROJECT / "docs" / "scale.md").read_text(encoding="utf-8").replace("`", "")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| small", "| original"))]
    assert len(lines) == 20 and all(line in page for line in lines)
