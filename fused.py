"""An optional accelerator: the LSTMP's loop over the steps in C, for float32 on CPUs.

Built on first use with the machine's C compiler and kept in `.cache/`; where there is no compiler, or Paddle does not
bring MKL, `kernel()` is None and lstmp.py does the same in Paddle's operators. ELMO_FUSED=0 turns it off.
"""

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import runtime
from runtime import paddle

SOURCE = Path(__file__).with_name("fused.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
BUILD_SECONDS = 60


class Kernel:
    """The two loops of fused.c over Paddle's tensors. All tensors are float32 on the CPU; see fused.c for the shapes."""

    def __init__(self, library: ctypes.CDLL, product: ctypes.c_void_p):
        self.library, self.product = library, product

    def forward(self, sizes, inputs, rows, recurrent, projection, clips, h, c, outputs, gates, m, cells) -> None:
        arguments = (inputs, rows, recurrent, projection, *clips, h, c, outputs, gates, m, cells)
        self._call("lstmp_forward", sizes, projection.shape, arguments)

    def backward(self, sizes, recurrent, projection, clips, first_c, outputs, d_outputs, cells, gates, d_h, d_c,
                 d_projected, d_m) -> None:  # fmt: skip
        arguments = (
            recurrent,
            projection,
            *clips,
            first_c,
            outputs,
            d_outputs,
            cells,
            gates,
            d_h,
            d_c,
            d_projected,
            d_m,
        )
        self._call("lstmp_backward", sizes, projection.shape, arguments)

    def _call(self, name: str, sizes, shape, arguments) -> None:
        cell_dim, projection_dim = shape
        steps = (ctypes.c_int64 * len(sizes))(*sizes)
        numbers = [ctypes.c_int64(len(sizes)), steps, ctypes.c_int64(projection_dim), ctypes.c_int64(cell_dim)]
        getattr(self.library, name)(self.product, *numbers, *map(_argument, arguments))


def _argument(value):
    """A clip as a number (0, none, is infinity), a tensor by its place in memory, None as a null pointer."""
    if isinstance(value, float | int):
        return ctypes.c_float(value or float("inf"))
    if value is None:
        return ctypes.c_void_p()
    if value.dtype not in (paddle.float32, paddle.int64) or not value.is_contiguous() or not value.place.is_cpu_place():
        raise TypeError(f"fused.c takes contiguous float32 and int64 tensors on the CPU, found {value.dtype}")
    return ctypes.c_void_p(value.data_ptr())


def suits(x: paddle.Tensor) -> bool:
    """Whether the kernel can take this tensor's place and type."""
    return x.dtype == paddle.float32 and x.place.is_cpu_place() and not runtime.half_products_wanted()


@functools.cache
def kernel() -> Kernel | None:
    """The compiled loops, or None."""
    mkl = runtime.mkl()
    if mkl is None or os.environ.get("ELMO_FUSED") == "0":
        return None
    try:
        return Kernel(ctypes.CDLL(str(_built())), ctypes.cast(mkl.cblas_sgemm, ctypes.c_void_p))
    except (OSError, subprocess.SubprocessError, AttributeError) as error:
        runtime.log.info(f"without the compiled LSTM loop of fused.c, which would be faster: {error}")
        return None


def _built() -> Path:
    """The library for this source, compiler and processor (a home folder may be shared); built if it is not there."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    version = subprocess.run([*compiler, "--version"], capture_output=True, check=True, timeout=BUILD_SECONDS).stdout
    identity = hashlib.sha256(
        b"\0".join([SOURCE.read_bytes(), version, " ".join(FLAGS).encode(), runtime.processor().encode()])
    )
    name = f"fused-{identity.hexdigest()[:16]}.so"
    for folder in (SOURCE.parent / ".cache", Path.home() / ".cache" / "elmo"):
        if (folder / name).exists():
            return folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as room:
                made = Path(room) / name
                command = [*compiler, *FLAGS, str(SOURCE), "-o", str(made), "-lm"]
                subprocess.run(command, check=True, capture_output=True, timeout=BUILD_SECONDS)
                return made.replace(folder / name)
        except OSError:  # a folder that cannot be written to
            continue
    raise OSError("no folder to build in")
