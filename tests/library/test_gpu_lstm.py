"""The GPU kernels of the LSTM: NVRTC compiles them, and a C compiler, to show what they compute, also in test_lstmp.py."""

import gpu_kernels
import pytest

from elmo_core.network import gpu_lstm, nvrtc
from elmo_core.network.lstmp import equations


def test_they_equal_the_equations():
    assert gpu_lstm.difference(gpu_kernels.launcher(), equations) < 2e-6


@pytest.mark.parametrize("kernel", ["cell_forward", "clip_forward", "clip_backward", "cell_backward"])
def test_a_kernel_that_forgets_to_clip_is_not_used(kernel):
    def launch(name, *arguments):
        clip = 1e9 if name == kernel else arguments[7]
        gpu_kernels.launcher()(name, *arguments[:7], clip, *arguments[8:])

    assert gpu_lstm.difference(launch, equations) > 100 * gpu_lstm.TOLERANCE


@pytest.mark.parametrize("architecture", ["sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_nvrtc_compiles_them_without_a_gpu(architecture):
    try:
        nvrtc.library()
    except OSError as error:
        pytest.skip(str(error))
    cubin = nvrtc.compile(gpu_lstm.SOURCE.read_bytes(), architecture)
    names = b"cell_forward", b"clip_forward", b"clip_backward", b"cell_backward"
    assert cubin.startswith(b"\x7fELF") and all(name in cubin for name in names)


def test_an_error_of_the_source_is_named():
    try:
        nvrtc.library()
    except OSError as error:
        pytest.skip(str(error))
    with pytest.raises(OSError, match="NVRTC_ERROR"):
        nvrtc.compile(b"no C", "sm_80")
