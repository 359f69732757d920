"""The benchmark of the LSTM's kernels, which runs them with PyTorch in place of Paddle."""

import ast

from project import PROJECT


def test_it_stands_in_for_what_the_kernels_import():
    tree = ast.parse((PROJECT / "elmo_core/kernels/gpu_lstm.py").read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    text = (PROJECT / "benchmarks/lstm_kernels.py").read_text(encoding="utf-8")
    assert '"elmo_core.kernels.precision"' in text and "paddle_compat=" in text
    for node in imported:
        if node.module in ("elmo_core.machine.runtime", "elmo_core.kernels.matmul"):
            assert f'stand_in("{node.module}"' in text
            assert all(f"{alias.name}=" in text for alias in node.names)
