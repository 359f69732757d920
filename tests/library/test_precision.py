"""The precision of matrix products: TF32 is for work that is not scored."""

import pytest

from elmo import ELMoEmbedder
from elmo_core.kernels import precision
from elmo_core.machine import paddle_compat, runtime
from elmo_core.machine.runtime import paddle


def test_scores_and_cpus_do_without_tf32(monkeypatch):
    core = paddle.base.core
    if not hasattr(core, "get_cublas_switch"):
        pytest.skip(f"this build of paddle {paddle.__version__} has no TF32 to switch")
    paddle_compat.allow_tf32(paddle, True)
    assert core.get_cublas_switch() and core.get_cudnn_switch()
    with precision.only("float32"):
        assert not core.get_cublas_switch() and not core.get_cudnn_switch()
    assert core.get_cublas_switch()
    with precision.inference("cpu"):
        assert not core.get_cublas_switch()
    monkeypatch.setattr(paddle_compat, "has_tf32", lambda paddle, device: True)
    paddle_compat.allow_tf32(paddle, False)
    with precision.inference("cpu"):
        assert core.get_cublas_switch()
    with precision.inference("cpu", tf32=False):
        assert not core.get_cublas_switch()
    monkeypatch.undo()
    runtime.set_device("cpu")
    assert not core.get_cublas_switch() and not core.get_cudnn_switch()


def test_an_embedder_leaves_the_choice_of_tf32_to_the_program():
    core = runtime.paddle.base.core
    if not hasattr(core, "get_cublas_switch"):
        pytest.skip(f"this build of paddle {runtime.paddle.__version__} has no TF32 to switch")
    paddle_compat.allow_tf32(runtime.paddle, True)
    try:
        ELMoEmbedder("en").encode([["good"]])
        assert core.get_cublas_switch() and core.get_cudnn_switch()
    finally:
        paddle_compat.allow_tf32(runtime.paddle, False)
