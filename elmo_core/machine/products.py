"""The precision of matrix products: full float32, TF32 or bfloat16."""

import contextlib

from elmo_core.machine import versions
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import on_device, paddle

_bfloat16 = False


def supports_bfloat16() -> bool:
    """Whether the device can compute products in bfloat16."""
    return paddle.get_device() == "cpu" or paddle.device.cuda.get_device_capability() >= (8, 0)


def use_bfloat16(enabled: bool) -> None:
    """Compute large products in bfloat16 from now on; everything else stays in float32."""
    global _bfloat16
    if enabled and not supports_bfloat16():
        raise UserError("this GPU has no bfloat16 (an A100 or later has): omit `amp`.")
    _bfloat16 = enabled


def bfloat16_enabled() -> bool:
    return _bfloat16


def use_tf32(allowed: bool) -> None:
    """Allow GPUs to compute float32 products in TF32, with 10 bits of mantissa instead of 23, or forbid it.

    Paddle's default depends on its version. NVIDIA_TF32_OVERRIDE=0 in the environment also forbids it.
    """
    versions.allow_tf32(paddle, allowed)


@contextlib.contextmanager
def full_precision():
    """Compute all products inside the block in full float32, whatever training uses."""
    bfloat16, tf32 = _bfloat16, versions.tf32_allowed(paddle)
    use_bfloat16(False)
    use_tf32(False)
    try:
        yield
    finally:
        use_bfloat16(bfloat16)
        use_tf32(tf32)


@contextlib.contextmanager
def inference(device: str):
    """Compute on a device, in full float32, without gradients; restores the caller's settings."""
    with on_device(device), full_precision(), paddle.no_grad():
        yield


def amp_operand(weight):
    """Convert a weight for `amp_matmul`: once, if a loop multiplies with it many times."""
    if not _bfloat16 or weight.dtype == paddle.bfloat16:
        return weight
    rounded = weight.astype("bfloat16")
    return rounded if weight.place.is_gpu_place() else rounded.astype(weight.dtype)  # a CPU only rounds its operands


def amp_matmul(x, weight, transpose_x: bool = False, transpose_y: bool = False):
    """Matrix product of x and a weight or `amp_operand`, in x's type. In bfloat16, the result is rounded too."""
    if not _bfloat16:
        return paddle.matmul(x, weight, transpose_x, transpose_y)
    return amp_operand(paddle.matmul(amp_operand(x), amp_operand(weight), transpose_x, transpose_y)).astype(x.dtype)
