"""Matrix products: in full float32, in TF32 or in bfloat16."""

import contextlib

from elmo_core.machine import versions
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import import_paddle

_bfloat16 = False


def supports_bfloat16() -> bool:
    """Whether the device can make products in bfloat16."""
    paddle = import_paddle()
    return paddle.get_device() == "cpu" or paddle.device.cuda.get_device_capability() >= (8, 0)


def use_bfloat16(wanted: bool) -> None:
    """Make the large products in bfloat16 from here on; everything else stays in float32."""
    global _bfloat16
    if wanted and not supports_bfloat16():
        raise UserError("this GPU cannot make products in bfloat16 (an A100 or later can): leave out --amp.")
    _bfloat16 = wanted


def bfloat16_enabled() -> bool:
    return _bfloat16


def use_tf32(wanted: bool) -> None:
    """Let GPUs make the products of float32 in TF32, with 10 bits behind the point in place of 23, or forbid it.

    Paddle's own choice differs between its versions. NVIDIA_TF32_OVERRIDE=0 in the environment forbids it too.
    """
    versions.allow_tf32(import_paddle(), wanted)


@contextlib.contextmanager
def full_precision():
    """Make all products in full float32 inside, whatever is chosen for training."""
    half, tf32 = _bfloat16, versions.tf32_allowed(import_paddle())
    use_bfloat16(False)
    use_tf32(False)
    try:
        yield
    finally:
        use_bfloat16(half)
        use_tf32(tf32)


def amp_operand(weight):
    """A weight as the products below take it: converted once, where a loop multiplies with it many times."""
    if not _bfloat16 or weight.dtype == import_paddle().bfloat16:
        return weight
    half = weight.astype("bfloat16")
    return half if weight.place.is_gpu_place() else half.astype(weight.dtype)  # a CPU has no such product: it rounds


def amp_matmul(x, weight, transpose_x: bool = False, transpose_y: bool = False):
    """The matrix product of x and an `operand`, in x's own type. A product in bfloat16 is itself rounded to it."""
    matmul = import_paddle().matmul
    if not _bfloat16:
        return matmul(x, weight, transpose_x, transpose_y)
    return amp_operand(matmul(amp_operand(x), amp_operand(weight), transpose_x, transpose_y)).astype(x.dtype)
