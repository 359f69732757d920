"""A step of training as a GPU would run it: Paddle's operators, and the LSTM's kernels compiled for this processor.

python tests/support/gpu_steps.py pretraining        (with GLOG_vmodule=api=6, Paddle logs the kernels that it chooses)
"""

import sys
from collections.abc import Callable
from dataclasses import replace

import gpu_kernels
import pytest
import runs

from elmo import ELMoConfig
from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle
from elmo_core.network import char_cnn, fused, gpu_lstm, softmax

sys.path.append(str(runs.PROJECT / "benchmarks"))
import bench

VOCABULARY, CANDIDATES = 20_000, 8192


def pretraining() -> Callable[[], None]:
    """64 x 20 tokens, with the layers and filter widths of `small`; other sizes hardly matter."""
    corpus, vocabulary = bench.training_text(VOCABULARY)
    sizes = {"projection_dim": 5, "cell_dim": 7, "character_dim": 3, "filters": [(width, 2) for width in range(1, 8)]}
    config = replace(ELMoConfig.preset("small", vocab_size=len(vocabulary)), **sizes)
    return bench.same_step(config, corpus, vocabulary, CANDIDATES)


STEPS = {"pretraining": pretraining}  # each makes a function that runs a step, and has already run one


def prepare(name: str, launch: Callable | None, monkeypatch) -> Callable[[], None]:
    """Such a step. launch: runs one of the LSTM's kernels; None: Paddle's operators instead."""
    versions.allow_tf32(paddle, True)  # as on a GPU that has it: both directions share each product
    monkeypatch.setattr(softmax, "LOGITS_PER_SLICE", 16 * softmax.LOGITS_PER_SLICE)
    monkeypatch.setattr(fused, "kernel", lambda: None)
    monkeypatch.setattr(char_cnn, "_argmax_is_slow", lambda x: True)
    monkeypatch.setattr(gpu_lstm, "kernels", lambda device, equations: launch)
    return STEPS[name]()


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as monkeypatch:
        step = prepare(sys.argv[1], gpu_kernels.launcher(), monkeypatch)
        print("BEGIN", file=sys.stderr, flush=True)
        step()
        print("END", file=sys.stderr, flush=True)
