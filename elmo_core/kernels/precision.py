"""The precision of matrix products.

float32, in TF32 where a GPU has it and nothing is scored, or bfloat16.
"""

import contextlib
from contextvars import ContextVar

from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import on_device, paddle

_precision = ContextVar("precision", default="float32")  # of this thread


def use(name: str) -> None:
    """Compute large matrix products in "float32" or "bfloat16" from here on.

    Everything else stays in float32.
    """
    _precision.set(name)


def current() -> str:
    """Return the precision of this thread's large matrix products."""
    return _precision.get()


def bfloat16_enabled() -> bool:
    return _precision.get() == "bfloat16"


@contextlib.contextmanager
def temporarily(name: str):
    """Compute large matrix products inside the block in "float32" or "bfloat16".

    `paddle.amp.auto_cast` has no effect inside: it would round what the compiled loops read as
    float32.
    """
    token = _precision.set(name)
    try:
        with paddle.amp.auto_cast(enable=False):
            yield
    finally:
        _precision.reset(token)


@contextlib.contextmanager
def only(name: str, tf32: bool = False):
    """Compute matrix products inside the block in this precision, whatever training uses.

    tf32: whether those in float32 may use TF32.
    """
    before = paddle_compat.tf32_allowed(paddle)
    paddle_compat.allow_tf32(paddle, tf32)
    try:
        with temporarily(name):
            yield
    finally:
        paddle_compat.allow_tf32(paddle, before)


@contextlib.contextmanager
def inference(device: str, name: str = "float32", tf32: bool = True):
    """Compute on a device, in this precision, without gradients; restores the caller's settings.

    tf32: use TF32 where the device has it.
    """
    with (
        on_device(device),
        only(name, tf32 and paddle_compat.has_tf32(paddle, device)),
        paddle.no_grad(),
    ):
        yield
