"""An optional accelerator: the hot loops of the LSTM, the character CNN and the softmax in C.

For float32 on CPUs. Built on first use with the machine's C compiler and cached in
$XDG_CACHE_HOME/elmo or ~/.cache/elmo. Without a compiler, or if Paddle comes without MKL,
`kernel()` is None, and lstmp.py, char_cnn.py and softmax.py use Paddle's operators. ELMO_FUSED=0
turns it off.
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
from pathlib import Path
from typing import Any

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
AS_IS = 111  # as in fused.c
TRANSPOSED = 112
MKL_FUNCTIONS = (  # of fused.c's blas_t, in this order
    "cblas_sgemm",
    "cblas_sgemm_alloc",
    "cblas_sgemm_pack",
    "cblas_sgemm_compute",
    "cblas_sgemm_free",
)
MKL_PACKS = slice(1, len(MKL_FUNCTIONS))  # those that prepare a matrix for many products
N_BLAS = len(MKL_FUNCTIONS) + len(onednn.FUNCTIONS) + 3  # the members of a blas_t
NUMBER = ctypes.c_int64
ADDRESS = ctypes.c_void_p
FLOATS = {"cell_clip", "proj_clip", "scale", "rate", "epsilon"}  # a caller may give whole numbers


class Function:
    """A function of fused.c, which is called with the names of its arguments.

    A pointer takes a NumPy array or CPU tensor, contiguous and of the type in fused.c, a sequence
    of integers or of tensors, or None. `blas`, that of the current precision, is left out. Raises
    MemoryError if the function runs out of memory.
    """

    def __init__(
        self, kernel: "Kernel", function: Any, parameters: str, returns: type | None = None
    ):
        function.restype = returns
        self.kernel = kernel
        self.function = function
        self.names = parameters.split()
        self.all_names = frozenset(self.names)

    def __call__(self, **arguments) -> int | None:
        if self.names[0] == "blas":
            arguments["blas"] = self.kernel.current_blas()
        if arguments.keys() != self.all_names:
            raise TypeError(f"fused.c: expected the arguments {', '.join(self.names)}")
        values = [_to_c(name, arguments[name]) for name in self.names]
        result = self.function(*values)
        if self.function.restype and not result:
            raise MemoryError("no memory for the loops of fused.c")
        error = onednn.failed.value
        if error:
            onednn.failed.value = 0
            raise MemoryError(f"oneDNN: error {error}, 1 if there is no memory")
        return result


class Kernel:
    """The functions of fused.c: their parameters, in the order of the source."""

    def __init__(self, library: ctypes.CDLL, mkl: ctypes.CDLL):
        blas_t = ctypes.c_void_p * N_BLAS
        addresses = [ctypes.cast(getattr(mkl, name), ctypes.c_void_p) for name in MKL_FUNCTIONS]
        self.blas = blas_t(*addresses)
        self.bfloat16_blas = None
        if not onednn.missing():
            self.bfloat16_blas = blas_t(*addresses, *onednn.addresses())

        self.round_to_bfloat16 = Function(self, library.round_to_bfloat16, "n x rounded")
        self.create_rhs = Function(
            self, library.create_rhs, "blas trans k n matrix products rows", returns=ADDRESS
        )
        self.destroy_rhs = Function(self, library.destroy_rhs, "rhs")
        self.multiply = Function(self, library.multiply, "m a b c")
        self.product = Function(self, library.product, "blas trans_a trans_b m n k a b add c")
        self.lstmp_forward = Function(
            self,
            library.lstmp_forward,
            "steps batch_sizes P H gate_inputs indices x recurrent down cell_clip proj_clip h c "
            "outputs preactivations gemm_input cell_output gates cells",
        )
        self.lstmp_backward = Function(
            self,
            library.lstmp_backward,
            "steps batch_sizes P H recurrent up cell_clip proj_clip initial_c outputs d_outputs "
            "cells gates d_h d_c d_projected d_gates d_outgoing d_x d_bias d_cell_output "
            "d_gemm_input",
        )
        self.cnn_forward = Function(
            self,
            library.cnn_forward,
            "columns dim ids lengths table n_widths widths filter_counts begin end filters biases "
            "is_tanh features argmax",
            returns=NUMBER,
        )
        self.cnn_backward = Function(
            self,
            library.cnn_backward,
            "columns dim ids lengths table n_widths widths filter_counts begin end weights is_tanh "
            "features argmax d_features d_table d_weights d_biases",
            returns=NUMBER,
        )
        self.gate_forward = Function(
            self, library.gate_forward, "begin end F x t_bias c_bias t c y"
        )
        self.gate_backward = Function(
            self, library.gate_backward, "begin end F x d_y r g d_x d_t_bias d_c_bias opened"
        )
        self.gather_columns = Function(
            self, library.gather_columns, "rows width n columns matrix chosen"
        )
        self.scatter_columns = Function(
            self, library.scatter_columns, "rows width n columns chosen matrix"
        )
        self.softmax_loss = Function(
            self,
            library.softmax_loss,
            "blas M S P h table bias target_logits n_hits hit_rows hit_candidates loss d_h d_table "
            "d_bias d_target",
            returns=NUMBER,
        )
        self.score_predictions = Function(
            self, library.score_predictions, "n V logits bias targets surprisal entropy rank"
        )
        self.adagrad = Function(
            self, library.adagrad, "begin end rows width g scale rate epsilon weight moment"
        )
        if not self._prepares_correctly():
            self.blas[MKL_PACKS] = [None] * 4

    def current_blas(self) -> ctypes.Array:
        """Return the products of the current precision, a blas_t."""
        return self.bfloat16_blas if precision.bfloat16_enabled() else self.blas

    def _prepares_correctly(self) -> bool:
        """Return whether MKL multiplies a prepared matrix with any number of rows.

        fused.c prepares a matrix for one number of rows and multiplies it with others, which MKL's
        manual leaves open.
        """
        random = np.random.default_rng(0)
        a = random.standard_normal((9, 70), np.float32)
        b = random.standard_normal((70, 83), np.float32)
        errors = []
        with precision.temporarily("float32"):
            for trans, matrix in ((AS_IS, b), (TRANSPOSED, np.ascontiguousarray(b.T))):
                address = self.create_rhs(
                    trans=trans,
                    k=70,
                    n=83,
                    matrix=matrix,
                    products=4,
                    rows=16,  # of all products: 4 in each
                )
                prepared_b = ctypes.c_void_p(address)
                for m in (1, 4, 9):
                    c = np.empty((m, 83), np.float32)
                    self.multiply(m=m, a=a, b=prepared_b, c=c)
                    errors.append(np.abs(c - a[:m] @ b).max())
                self.destroy_rhs(rhs=prepared_b)
        return max(errors) < 1e-4

    def prepares(self, n_products: int, rows: int) -> bool:
        """Return whether fused.c copies a weight for so many products with so many rows in total.

        Otherwise the products read the weight itself.
        """
        if precision.bfloat16_enabled():
            return True
        mkl_prepares = bool(self.blas[1])
        return mkl_prepares and n_products > 2 and rows >= 4 * n_products


class PreparedWeight:
    """The right-hand side of many products, a matrix or its transpose, in the current precision."""

    def __init__(self, matrix: paddle.Tensor, transposed: bool, n_products: int, rows: int):
        is_copied = kernel().prepares(n_products, rows)
        self.matrix = None if is_copied else matrix  # which the products read
        height, width = matrix.shape
        address = kernel().create_rhs(
            trans=TRANSPOSED if transposed else AS_IS,
            k=width if transposed else height,
            n=height if transposed else width,
            matrix=matrix,
            products=n_products,
            rows=rows,
        )
        self.address = ctypes.c_void_p(address)
        finalizer = weakref.finalize(self, kernel().destroy_rhs, rhs=self.address)
        finalizer.atexit = False


def _to_c(name: str, value):
    """Convert the argument of this name."""
    return ctypes.c_float(value) if name in FLOATS else _to_number_or_pointer(value)


def _to_number_or_pointer(value):
    """Convert whole numbers to int64_t, everything else to a pointer."""
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, paddle.Tensor):
        if not (value.is_contiguous() and value.place.is_cpu_place()):
            raise TypeError("fused.c takes contiguous tensors on the CPU only.")
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, PreparedWeight):
        return value.address
    if isinstance(value, list | tuple) and isinstance(value[0], int):
        return (ctypes.c_int64 * len(value))(*value)
    if isinstance(value, list | tuple):
        items = [_to_number_or_pointer(item) for item in value]
        return (type(items[0]) * len(items))(*items)
    return value  # a pointer, or None


def is_supported(x: paddle.Tensor) -> bool:
    """Return whether there are compiled loops, for this tensor's device and dtype."""
    bfloat16 = precision.bfloat16_enabled()
    dtypes = (paddle.float32, paddle.bfloat16) if bfloat16 else (paddle.float32,)
    if x.dtype not in dtypes or not x.place.is_cpu_place() or kernel() is None:
        return False
    return not bfloat16 or kernel().bfloat16_blas is not None


@functools.cache
def kernel() -> Kernel | None:
    """Load the compiled loops, building them if necessary; None if unavailable."""
    mkl = runtime.mkl()
    if mkl is None or os.environ.get("ELMO_FUSED") == "0":
        return None
    try:
        return Kernel(_library(), mkl)
    except (OSError, subprocess.SubprocessError, AttributeError) as error:
        output = getattr(error, "stderr", None) or b""  # of the compiler
        lines = output.decode("utf-8", "replace").strip().splitlines()
        last_line = lines[-1] if lines else ""
        reason = f"{error} {last_line}".rstrip()
        messages.log.info(f"running without the compiled loops of fused.c (slower): {reason}")
        return None


def _library() -> ctypes.CDLL:
    """Load the library for this source and processor from the cache, or build it.

    Machines with other processors may share a home folder. A cached library ends with its SHA-256,
    which the loader does not read: mapping a damaged one would kill the process.
    """
    identity = [SOURCE.read_bytes(), FLAGS.encode(), runtime.processor().encode()]
    key = hashlib.sha256(b"\0".join(identity))
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
