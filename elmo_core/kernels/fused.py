"""An optional accelerator: the hot loops of the LSTM, the character CNN and the softmax in C, for float32 on CPUs.

Built on first use with the machine's C compiler and cached in $XDG_CACHE_HOME/elmo or ~/.cache/elmo. Without a compiler,
or if Paddle comes without MKL, `kernel()` is None, and lstmp.py, char_cnn.py and softmax.py use Paddle's operators.
ELMO_FUSED=0 turns it off.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

from elmo_core import messages
from elmo_core.files import disk
from elmo_core.kernels import onednn, precision
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle

SOURCE = Path(__file__).with_name("fused.c")
FLAGS = (
    "-O3 -march=native -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math -shared -fPIC"
)
BUILD_SECONDS = 60
DIGEST_BYTES = hashlib.sha256().digest_size
AS_IS, TRANSPOSED = 111, 112  # as in fused.c
NUMBER, ADDRESS = ctypes.c_int64, ctypes.c_void_p
CNN = "columns dim ids lengths table n_widths widths filter_counts begin end"
FLOATS = {
    "cell_clip",
    "proj_clip",
    "scale",
    "rate",
    "epsilon",
}  # parameters that a caller may give as whole numbers
SIGNATURES = {  # what fused.c's functions return, and their parameters, in order
    "round_to_bfloat16": (None, "n x rounded"),
    "create_rhs": (ADDRESS, "blas trans k n matrix products rows"),
    "destroy_rhs": (None, "rhs"),
    "multiply": (None, "m a b c"),
    "product": (None, "blas trans_a trans_b m n k a b add c"),
    "lstmp_forward": (
        None,
        "steps batch_sizes P H gate_inputs indices x recurrent down cell_clip proj_clip h c outputs preactivations "
        "gemm_input cell_output gates cells",
    ),
    "lstmp_backward": (
        None,
        "steps batch_sizes P H recurrent up cell_clip proj_clip initial_c outputs d_outputs cells gates d_h d_c "
        "d_projected d_gates d_outgoing d_x d_bias d_cell_output d_gemm_input",
    ),
    "cnn_forward": (NUMBER, f"{CNN} filters biases is_tanh features argmax"),
    "cnn_backward": (
        NUMBER,
        f"{CNN} weights is_tanh features argmax d_features d_table d_weights d_biases",
    ),
    "gate_forward": (None, "begin end F x t_bias c_bias t c y"),
    "gate_backward": (None, "begin end F x d_y r g d_x d_t_bias d_c_bias"),
    "softmax_loss": (
        NUMBER,
        "blas M S P h table bias target_logits n_hits hit_rows hit_candidates loss d_h d_table d_bias d_target",
    ),
    "score_predictions": (None, "n V logits bias targets surprisal entropy rank"),
    "adagrad": (None, "begin end rows width g scale rate epsilon weight moment"),
}


class Kernel:
    """The functions of fused.c as methods; `blas`, that of the current precision, is left out.

    A pointer takes a NumPy array or CPU tensor, contiguous and of the type in fused.c, a sequence of integers or of tensors,
    or None. Raises MemoryError if a function runs out of memory.
    """

    def __init__(self, library: ctypes.CDLL, mkl: ctypes.CDLL):
        names = (
            "cblas_sgemm",
            "cblas_sgemm_alloc",
            "cblas_sgemm_pack",
            "cblas_sgemm_compute",
            "cblas_sgemm_free",
        )
        addresses = [ctypes.cast(getattr(mkl, name), ctypes.c_void_p) for name in names]
        self.blas = (ctypes.c_void_p * (len(names) + len(onednn.FUNCTIONS) + 3))(
            *addresses
        )  # a blas_t
        self.bfloat16_blas = (
            None if onednn.missing() else type(self.blas)(*addresses, *onednn.addresses())
        )
        for name, (result, parameters) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            setattr(self, name, functools.partial(self._call, function, parameters.split()))
        if not self._packs_correctly():
            self.blas[1:5] = [None] * 4

    def _packs_correctly(self) -> bool:
        """Return whether MKL can multiply a packed matrix with other numbers of rows than it was packed for.

        fused.c does that; MKL's manual leaves it open.
        """
        random = np.random.default_rng(0)
        a, b = (
            random.standard_normal((9, 70), np.float32),
            random.standard_normal((70, 83), np.float32),
        )
        errors = []
        with precision.temporarily("float32"):
            for trans, matrix in ((AS_IS, b), (TRANSPOSED, np.ascontiguousarray(b.T))):
                packed = ctypes.c_void_p(
                    self.create_rhs(trans, *b.shape, matrix, 4, 16)
                )  # for 4 rows
                for m in (1, 4, 9):
                    c = np.empty((m, 83), np.float32)
                    self.multiply(m, a, packed, c)
                    errors.append(np.abs(c - a[:m] @ b).max())
                self.destroy_rhs(packed)
        return max(errors) < 1e-4

    def packs(self, n_products: int, rows: int) -> bool:
        """Return whether fused.c packs the right-hand side of so many products with so many rows in total."""
        return precision.bfloat16_enabled() or bool(
            self.blas[1] and n_products > 2 and rows >= 4 * n_products
        )

    def _call(self, function: Callable, names: list[str], /, *arguments, **keywords) -> int | None:
        if names[0] == "blas":
            arguments = (
                self.bfloat16_blas if precision.bfloat16_enabled() else self.blas,
                *arguments,
            )
        if len(arguments) + len(keywords) != len(names):
            raise TypeError(f"fused.c: expected the arguments {', '.join(names)}")
        values = dict(zip(names, arguments, strict=False)) | keywords
        result = function(
            *[_to_c(float(values[name]) if name in FLOATS else values[name]) for name in names]
        )
        if function.restype and not result:
            raise MemoryError("no memory for the loops of fused.c")
        if error := onednn.failed.value:
            onednn.failed.value = 0
            raise MemoryError(f"oneDNN: error {error}, 1 if there is no memory")
        return result


class Packed:
    """The right-hand side of many products, a matrix or its transpose, packed by fused.c in the current precision."""

    def __init__(self, matrix: paddle.Tensor, transposed: bool, n_products: int, rows: int):
        self.matrix = (
            None if kernel().packs(n_products, rows) else matrix
        )  # not packed: it is read again
        shape = matrix.shape[::-1] if transposed else matrix.shape
        address = kernel().create_rhs(
            TRANSPOSED if transposed else AS_IS, *shape, matrix, n_products, rows
        )
        self.address = ctypes.c_void_p(address)
        weakref.finalize(self, kernel().destroy_rhs, self.address).atexit = False


def _to_c(value):
    """Convert an argument: whole numbers to int64_t, others to float, everything else to a pointer."""
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_float(value)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, paddle.Tensor):
        if not (value.is_contiguous() and value.place.is_cpu_place()):
            raise TypeError("fused.c takes contiguous tensors on the CPU only.")
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, Packed):
        return value.address
    if isinstance(value, list | tuple) and isinstance(value[0], int):
        return (ctypes.c_int64 * len(value))(*value)
    if isinstance(value, list | tuple):
        items = list(map(_to_c, value))
        return (type(items[0]) * len(items))(*items)
    return value  # a pointer, or None


def is_supported(x: paddle.Tensor) -> bool:
    """Return whether the compiled loops are available and support this tensor's device and dtype."""
    bfloat16 = precision.bfloat16_enabled()
    fits = (
        x.dtype == paddle.float32 or (bfloat16 and x.dtype == paddle.bfloat16)
    ) and x.place.is_cpu_place()
    return fits and kernel() is not None and not (bfloat16 and kernel().bfloat16_blas is None)


@functools.cache
def kernel() -> Kernel | None:
    """Load the compiled loops, building them if necessary; None if unavailable."""
    mkl = runtime.mkl()
    if mkl is None or os.environ.get("ELMO_FUSED") == "0":
        return None
    try:
        return Kernel(_library(), mkl)
    except (OSError, subprocess.SubprocessError, AttributeError) as error:
        output = (
            (getattr(error, "stderr", None) or b"")
            .decode("utf-8", "replace")
            .strip()
            .splitlines()[-1:]
        )
        reason = " ".join([str(error), *output])
        messages.log.info(f"running without the compiled loops of fused.c (slower): {reason}")
        return None


def _library() -> ctypes.CDLL:
    """Load the library for this source and processor (machines may share a home folder) from the cache, or build it.

    A cached library ends with its SHA-256, which the loader does not read: mapping a damaged one would kill the process.
    """
    key = hashlib.sha256(
        b"\0".join([SOURCE.read_bytes(), FLAGS.encode(), runtime.processor().encode()])
    )
    name = f"fused-{key.hexdigest()[:16]}.so"
    cache = disk.cache_folder()
    if cache and _is_complete(cache / name):
        with contextlib.suppress(OSError):  # built for another C library
            return ctypes.CDLL(str(cache / name))
    writable = cache is not None and os.access(cache, os.W_OK)
    with tempfile.TemporaryDirectory(dir=cache if writable else None) as folder:
        built = Path(folder, name)
        compiler = shlex.split(os.environ.get("CC") or "cc")
        command = [*compiler, *FLAGS.split(), str(SOURCE), "-o", str(built), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=BUILD_SECONDS)
        if writable:
            with built.open("rb+") as file:
                digest = hashlib.sha256(file.read()).digest()
                file.write(digest)
                file.flush()
                os.fsync(file.fileno())
            built = built.replace(cache / name)
        return ctypes.CDLL(str(built))


def _is_complete(library: Path) -> bool:
    """Return whether the file is there and ends with the SHA-256 of what precedes it."""
    content = library.read_bytes() if library.is_file() else b""
    return hashlib.sha256(content[:-DIGEST_BYTES]).digest() == content[-DIGEST_BYTES:]
