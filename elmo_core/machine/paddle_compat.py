"""The versions of Paddle, 2.6.2 to 3.3: checks and differences.

Features are detected, not inferred from the version.
"""

import functools
import importlib.util
import inspect
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

FIRST = (2, 6, 2)
TOO_NEW = (3, 4)


def installed() -> str | None:
    """Return the installed Paddle's version without importing it; None if not installed."""
    package = importlib.util.find_spec("paddle")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).parent / "version" / "__init__.py"
    text = file.read_text(encoding="utf-8")
    return re.search(r"full_version\s*=\s*'([^']*)'", text)[1]


def problem(version: str | None, numpy_version: str) -> str:
    """Why these versions of Paddle and NumPy do not work, and the remedy; empty if they do."""
    if version is None:
        return "Paddle is not installed. Install it: pip install 'paddlepaddle>=2.6.2,<3.4'"
    if not FIRST <= _numbers(version) < TOO_NEW:
        return (
            f"paddle {version}: expected 2.6.2 to 3.3. "
            f"Install one of these: pip install 'paddlepaddle>=2.6.2,<3.4'"
        )
    if _numbers(version) < (3,) and _numbers(numpy_version) >= (2,):
        return (
            f"paddle {version} does not work with numpy {numpy_version}. "
            f"Install another: pip install 'numpy<2'"
        )
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.match(r"\d+(?:\.\d+)*", version)[0].split("."))


def has_tf32(paddle, device: str) -> bool:
    """Return whether a device can multiply float32 matrices in TF32, and may.

    GPUs from the A100 on can.
    """
    is_forbidden = os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"
    return device.startswith("gpu") and not is_forbidden and capability(paddle, device) >= (8, 0)


def capability(paddle, device: str) -> tuple[int, int]:
    """Return the compute capability of a GPU, such as gpu:0."""
    return paddle.device.cuda.get_device_capability(int(device.partition(":")[2] or 0))


def tf32_allowed(paddle) -> bool:
    """Return whether GPUs may multiply float32 matrices in TF32.

    CPU builds before Paddle 3 lack this setting.
    """
    switch = getattr(paddle.base.core, "get_cublas_switch", None)
    return bool(switch and switch())


def allow_tf32(paddle, allowed: bool) -> None:
    """Allow GPUs to compute float32 products in TF32, or forbid it.

    TF32 has 10 bits of mantissa instead of 23. Paddle's default depends on its version.
    """
    for name in ("set_cublas_switch", "set_cudnn_switch"):
        switch = getattr(paddle.base.core, name, None)
        if switch:
            switch(allowed)


def current_stream(paddle) -> int:
    """Return the address of the CUDA stream on which Paddle runs its operators."""
    return paddle.base.core._get_current_stream(-1).cuda_stream


def adam_update(
    paddle, weight, gradient, lr, moments: Sequence, powers: Sequence, numbers: Sequence[float]
) -> None:
    """Apply one step of Adam in place.

    moments: the first and the second; powers: beta1^t, beta2^t; numbers: beta1, beta2, epsilon.
    """
    has_amsgrad = _has_amsgrad(paddle.optimizer.Adam)
    # The operator takes its arguments by position only.
    arguments = [weight, gradient, lr]
    arguments += moments
    if has_amsgrad:
        arguments.append(None)  # the third moment
    arguments += powers
    arguments.append(None)  # master_param
    arguments.append(None)  # skip_update
    arguments += numbers
    arguments.append(False)  # lazy_mode
    arguments.append(1000)  # min_row_size
    arguments.append(False)  # multi_precision
    arguments.append(False)  # use_global_beta_pow
    if has_amsgrad:
        arguments.append(False)  # amsgrad
    paddle._C_ops.adam_(*arguments)


@functools.cache
def _has_amsgrad(adam: type) -> bool:
    """Return whether Adam has a third moment, as in Paddle 3."""
    return "amsgrad" in inspect.signature(adam).parameters


def random_states(paddle) -> list[list]:
    """Save the states of the device's random generators, as JSON has them.

    Empty in Paddle 2.6, which hides them.
    """
    states = [state.__getstate__() for state in paddle.get_rng_state()]
    return [list(state) for state in states if isinstance(state[-1], list)]


def set_random_states(paddle, saved: Sequence[list]) -> None:
    """Restore the states that `random_states` has returned."""
    kind = type(paddle.get_rng_state()[0])
    states = []
    for values in saved:
        state = kind.__new__(kind)
        state.__setstate__(tuple(values))
        states.append(state)
    paddle.set_rng_state(states)


def to_array(x) -> np.ndarray:
    """Return a tensor as a NumPy array, without a copy if Paddle (from 3 on) can share it."""
    if x.place.is_cpu_place() and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return x.numpy()
