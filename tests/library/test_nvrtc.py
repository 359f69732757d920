"""CUDA kernels without a GPU: NVRTC compiles them and names errors."""

import pytest

from elmo_core.kernels import gpu_lstm, nvrtc


@pytest.mark.parametrize(
    "architecture", ["sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90"]
)
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
