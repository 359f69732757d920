"""What a step of training asks of a GPU, counted without one: launches, uploads, reads and kernels
that Paddle must have.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gpu_kernels
import gpu_steps
import numpy as np
import pytest
import runs

from elmo_core.machine import paddle_compat, runtime
from elmo_core.machine.runtime import paddle

READS = "numpy", "item", "tolist", "__float__", "__int__", "__bool__", "__array__", "__index__"
LARGE = 64 * 1024  # bytes, from which a copy of ordinary memory may wait for the GPU
STEPS = list(gpu_steps.STEPS)
FLOAT64 = {"sum", "cast"}  # of the softmax's sums on a CPU
PADDLE_3 = {"div_scale"}  # kernels that only Paddle 3 has


@pytest.fixture(autouse=True)
def same_tf32():
    before = paddle_compat.tf32_allowed(paddle)
    yield
    paddle_compat.allow_tf32(paddle, before)


@pytest.mark.parametrize(("with_kernels", "most"), [(True, 800), (False, 3100)])
def test_a_step_launches_few_operators(with_kernels, most, monkeypatch):
    own, launch = Counter(), gpu_kernels.launcher()

    def counted(name, *arguments):
        own[name] += 1
        launch(name, *arguments)

    step = gpu_steps.prepare("pretraining", counted if with_kernels else None, monkeypatch)
    own.clear()
    found = gpu_steps.bench.count_operators(step)
    assert 0 < found["launches"] <= found["operators"] <= most
    assert set(own.values()) == ({40} if with_kernels else set()), (
        "2 layers x 20 steps of each kernel"
    )


@contextmanager
def transfers(monkeypatch) -> Iterator[tuple[list[str], list[np.ndarray], list[str]]]:
    """What the block reads from tensors, what it uploads, and the functions that upload without
    `runtime.to_tensor`.
    """
    reads, uploads, direct, to_tensor = [], [], [], paddle.to_tensor
    tensor_methods = paddle.Tensor.__array__.__code__.co_filename

    def uploading(data, *arguments, **keywords):
        uploads.append(np.asarray(data))
        caller = sys._getframe(1).f_code.co_name
        if caller != runtime.to_tensor.__name__:
            direct.append(caller)
        return to_tensor(data, *arguments, **keywords)

    def reading(name, method):
        def read(*arguments, **keywords):
            frame = sys._getframe(1).f_code
            if frame.co_filename != tensor_methods:  # of Paddle: a read that another has called
                reads.append(f"{name} in {Path(frame.co_filename).name}, {frame.co_name}")
            return method(*arguments, **keywords)

        return read

    with monkeypatch.context() as patched:
        patched.setattr(paddle, "to_tensor", uploading)
        for name in READS:
            patched.setattr(paddle.Tensor, name, reading(name, getattr(paddle.Tensor, name)))
        yield reads, uploads, direct


@pytest.mark.parametrize("name", STEPS)
def test_a_step_reads_nothing_back_and_uploads_little(name, monkeypatch):
    step = gpu_steps.prepare(name, gpu_kernels.launcher(), monkeypatch)
    with transfers(monkeypatch) as (reads, uploads, direct):
        step()
    assert reads == direct == []
    assert uploads and max(array.nbytes for array in uploads) <= LARGE
    assert not [array.shape for array in uploads if array.dtype == np.float64]


@pytest.mark.parametrize("name", STEPS)
def test_a_gpu_has_every_kernel_of_a_step(name):
    """gpu_kernels.json lists the kernels for GPUs in Paddle 2.6.2, with their types."""
    log = {"GLOG_minloglevel": "0", "GLOG_logtostderr": "1", "GLOG_vmodule": "*api=6"}
    support = runs.PROJECT / "tests" / "support"
    log |= {"PYTHONPATH": f"{runs.PROJECT}:{support}"}
    command = [sys.executable, support / "gpu_steps.py", name]
    done = subprocess.run(
        command, env={**os.environ, **log}, capture_output=True, text=True, timeout=120
    )
    text = done.stderr.partition("\nBEGIN\n")[2].partition("\nEND\n")[0]
    found = set(re.findall(r"API kernel key: \[\w+, [^,]+, (\w+)\]\n.*?\] (\w+) kernel: ", text))
    known = json.loads((support / "gpu_kernels.json").read_text(encoding="utf-8"))
    assert len(found) > 20 and {"embedding", "matmul", "concat"} <= {kernel for _, kernel in found}
    missing = [
        (kernel, dtype) for dtype, kernel in found if dtype not in known.get(kernel, "").split()
    ]
    assert [pair for pair in missing if pair[0] not in PADDLE_3] == []
    if name != "tagger":  # whose CRF is in float64
        assert {kernel for dtype, kernel in found if dtype == "float64"} <= FLOAT64
