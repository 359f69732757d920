"""An optional accelerator: the hot loops of the LSTM, the character CNN and the softmax in C, for float32 on CPUs.

Built on first use with the machine's C compiler and kept in the user's cache, $XDG_CACHE_HOME/elmo or ~/.cache/elmo. Where
there is neither library nor compiler, or Paddle does not bring MKL, `kernel()` is None and lstmp.py, char_cnn.py and
softmax.py do the same in Paddle's operators. ELMO_FUSED=0 turns it off.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import shlex
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.machine import messages, products, runtime
from elmo_core.machine.runtime import paddle

SOURCE = Path(__file__).with_name("fused.c")
FLAGS = "-O3 -march=native -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math -shared -fPIC"
BUILD_SECONDS = 60
ROW_MAJOR, AS_IS, TRANSPOSED, PACKED, RIGHT_SIDE = 101, 111, 112, 151, 162  # as in fused.c
MAX_COLUMNS = 127  # of character ids: fused.c has room for so many windows of a token


class Kernel:
    """The functions of fused.c over Paddle's tensors. All tensors are on the CPU; see fused.c for what they are."""

    def __init__(self, library: ctypes.CDLL, mkl: ctypes.CDLL):
        self.library, self.sgemm = library, mkl.cblas_sgemm
        functions = [mkl.cblas_sgemm]
        if _packed_products_work(mkl):
            functions += [mkl.cblas_sgemm_alloc, mkl.cblas_sgemm_pack, mkl.cblas_sgemm_compute, mkl.cblas_sgemm_free]
        self.products = (ctypes.c_void_p * 5)(*(ctypes.cast(one, ctypes.c_void_p) for one in functions))  # a blas_t

    def lstmp_forward(self, sizes: Sequence[int], shape: Sequence[int], *arguments) -> None:
        """shape: of the projection's weight, (H, P)."""
        self.library.lstmp_forward(self.products, *_steps(sizes, shape), *map(_argument, arguments))

    def lstmp_backward(self, sizes: Sequence[int], shape: Sequence[int], *arguments) -> None:
        self.library.lstmp_backward(self.products, *_steps(sizes, shape), *map(_argument, arguments))

    def cnn(self, ids: np.ndarray, lengths: np.ndarray, table, widths: Sequence[int], numbers: Sequence[int]) -> "_CNN":
        """The arguments that both functions of the character CNN take: the filters and the tokens."""
        ids, lengths = (np.ascontiguousarray(array, dtype=np.int32) for array in (ids, lengths))
        fits = ids.ndim == 2 and lengths.shape == ids.shape[:1] and max(widths) <= ids.shape[1] <= MAX_COLUMNS
        whole = ids.min(initial=0) >= 0 and ids.max(initial=0) < len(table)
        if not (fits and whole and lengths.min(initial=0) >= 0 and lengths.max(initial=0) <= ids.shape[1]):
            raise ValueError(f"character ids {ids.shape} or their lengths are not those of tokens")
        return _CNN(self.products, ids, lengths, table, widths, numbers)

    def cnn_forward(self, cnn: "_CNN", begin: int, end: int, weights, biases, is_tanh: bool, features, places) -> None:
        groups = _pointers(weights), _pointers(biases)
        rest = (int(is_tanh), *map(_argument, (features, places)))
        if not self.library.cnn_forward(ctypes.byref(cnn), *map(ctypes.c_int64, (begin, end)), *groups, *rest):
            raise MemoryError("no memory for the character CNN")

    def cnn_backward(self, cnn: "_CNN", begin: int, end: int, weights, is_tanh: bool, features, places, d_features, d_table,
                     d_weights, d_biases) -> None:  # fmt: skip
        given = map(_argument, (features, places, d_features, d_table))
        ends = map(ctypes.c_int64, (begin, end))
        groups = _pointers(d_weights), _pointers(d_biases)
        if not self.library.cnn_backward(ctypes.byref(cnn), *ends, _pointers(weights), int(is_tanh), *given, *groups):
            raise MemoryError("no memory for the character CNN")

    def gate_forward(self, begin: int, end: int, x, *arguments) -> None:
        self.library.gate_forward(*map(ctypes.c_int64, (begin, end, x.shape[1])), *map(_argument, (x, *arguments)))

    def gate_backward(self, begin: int, end: int, x, *arguments) -> None:
        self.library.gate_backward(*map(ctypes.c_int64, (begin, end, x.shape[1])), *map(_argument, (x, *arguments)))

    def add_product(self, a, b, c) -> None:
        """c (m, n) += a (m, k) b^T, b being (n, k)."""
        (m, n), k, one = c.shape, a.shape[1], ctypes.c_float(1)
        a, b, c = map(_argument, (a, b, c))
        self.sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, m, n, k, one, a, k, b, k, one, c, n)

    def adagrad(
        self, begin: int, end: int, gradient, rows, scale: float, rate: float, epsilon: float, weight, moment
    ) -> None:
        """Elements begin .. end of a weight; or, where the gradient is of `rows` of it, an int64 array, these rows."""
        numbers = map(ctypes.c_float, (scale, rate, epsilon))
        ends, tensors = map(ctypes.c_int64, (begin, end)), map(_argument, (weight, moment))
        if rows is None:
            self.library.adagrad(*ends, _argument(gradient), *numbers, *tensors)
        else:
            places = _array(rows), ctypes.c_int64(weight.shape[1])
            self.library.adagrad_rows(*ends, *places, _argument(gradient), *numbers, *tensors)

    def softmax_loss(self, h, table, bias, true_logits, hit, candidate, loss, d_h, d_table, d_bias, d_true) -> None:
        sizes = map(ctypes.c_int64, (*h.shape[:1], *table.shape))
        given = map(_argument, (h, table, bias, true_logits))
        hits = (ctypes.c_int64(len(hit)), *map(_array, (hit, candidate)))
        made = map(_argument, (loss, d_h, d_table, d_bias, d_true))
        if not self.library.softmax_loss(self.products, *sizes, *given, *hits, *made):
            raise MemoryError("no memory for the softmax")

    def exponentials(self, logits, highest, total) -> None:
        self.library.exponentials(*map(ctypes.c_int64, logits.shape), *map(_argument, (logits, highest, total)))


def _packed_products_work(mkl: ctypes.CDLL) -> bool:
    """Whether a packed matrix can be multiplied with other numbers of rows than it was packed for.

    fused.c does that, and MKL's manual leaves it open.
    """
    k, n, packed_for = 70, 83, 4
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((9, k), np.float32), generator.standard_normal((k, n), np.float32)
    mkl.cblas_sgemm_alloc.restype = ctypes.c_void_p
    for transposition, matrix, ld in ((AS_IS, b, n), (TRANSPOSED, np.ascontiguousarray(b.T), k)):
        packed = ctypes.c_void_p(mkl.cblas_sgemm_alloc(RIGHT_SIDE, packed_for, n, k))
        if not packed:
            return False
        mkl.cblas_sgemm_pack(ROW_MAJOR, RIGHT_SIDE, transposition, packed_for, n, k, one, _array(matrix), ld, packed)
        products = [np.zeros((m, n), np.float32) for m in (1, packed_for, len(a))]
        for c in products:
            right = PACKED, len(c), n, k, _array(a), k, packed, ld
            mkl.cblas_sgemm_compute(ROW_MAJOR, AS_IS, *right, zero, _array(c), n)
        mkl.cblas_sgemm_free(packed)
        if not all(np.allclose(c, a[: len(c)] @ b, atol=1e-4) for c in products):
            return False
    return True


class _CNN(ctypes.Structure):
    """cnn_t of fused.c."""

    _fields_ = [
        ("products", ctypes.c_void_p),
        ("columns", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("ids", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("n_filters", ctypes.c_int64),
        ("widths", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
    ]

    def __init__(self, products, ids, lengths, table, widths, numbers):
        sizes = [(ctypes.c_int64 * len(values))(*values) for values in (widths, numbers)]
        self.kept = products, ids, lengths, table, sizes  # what the addresses below are of
        addresses = [ctypes.addressof(values) for values in sizes]
        arrays = ids.ctypes.data, lengths.ctypes.data, _argument(table)
        super().__init__(ctypes.addressof(products), ids.shape[1], table.shape[1], *arrays, len(widths), *addresses)


def _steps(sizes: Sequence[int], shape: Sequence[int]) -> tuple:
    cell_dim, projection_dim = shape
    steps = (ctypes.c_int64 * len(sizes))(*sizes)
    return ctypes.c_int64(len(sizes)), steps, ctypes.c_int64(projection_dim), ctypes.c_int64(cell_dim)


def _argument(value):
    """A clip as a number (0, none, is infinity), a tensor by its place in memory, None as a null pointer."""
    if isinstance(value, float | int):
        return ctypes.c_float(value or float("inf"))
    if value is None:
        return ctypes.c_void_p()
    known = value.dtype in (paddle.float32, paddle.int64, paddle.uint8)
    if not known or not value.is_contiguous() or not value.place.is_cpu_place():
        raise TypeError(f"fused.c takes contiguous float32, int64 and uint8 tensors on the CPU, found {value.dtype}")
    return ctypes.c_void_p(value.data_ptr())


def _array(array: np.ndarray):
    """A contiguous NumPy array by its place in memory."""
    return array.ctypes.data_as(ctypes.c_void_p)


def _pointers(tensors: Sequence):
    return (ctypes.c_void_p * len(tensors))(*map(_argument, tensors))


def suits(x: paddle.Tensor) -> bool:
    """Whether there is a kernel, and it can take this tensor's place and type."""
    fits = x.dtype == paddle.float32 and x.place.is_cpu_place() and not products.half_products_wanted()
    return fits and kernel() is not None


@functools.cache
def kernel() -> Kernel | None:
    """The compiled loops, or None."""
    mkl = runtime.mkl()
    if mkl is None or os.environ.get("ELMO_FUSED") == "0":
        return None
    try:
        return Kernel(_library(), mkl)
    except (OSError, subprocess.SubprocessError, AttributeError) as error:
        output = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip().splitlines()[-1:]
        reason = " ".join([str(error), *output])
        messages.log.info(f"without the compiled loops of fused.c, which would be faster: {reason}")
        return None


def _library() -> ctypes.CDLL:
    """The library for this source and processor (a home folder may be shared): from the user's cache, or built."""
    key = hashlib.sha256(b"\0".join([SOURCE.read_bytes(), FLAGS.encode(), runtime.processor().encode()]))
    name = f"fused-{key.hexdigest()[:16]}.so"
    cache = _cache()
    if cache and _is_safe(cache / name):
        with contextlib.suppress(OSError):  # damaged, or made for another C library
            return ctypes.CDLL(str(cache / name))
    keep = cache is not None and os.access(cache, os.W_OK)
    with tempfile.TemporaryDirectory(dir=cache if keep else None) as folder:
        built = Path(folder, name)
        compiler = shlex.split(os.environ.get("CC") or "cc")
        command = [*compiler, *FLAGS.split(), str(SOURCE), "-o", str(built), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=BUILD_SECONDS)
        library = ctypes.CDLL(str(built))
        if keep:
            built.chmod(0o700)
            built.replace(cache / name)
        return library


def _cache() -> Path | None:
    """The user's folder for built libraries; None if there is none, or if others could put a library there."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base if Path(base).is_absolute() else os.path.expanduser("~/.cache"), "elmo")  # noqa: PTH111
    if not folder.is_absolute():  # no home
        return None
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_dir() and not _is_safe(folder):
        messages.log.info(f"{folder} belongs to another user or can be written to by others: it is not used.")
    return folder if _is_safe(folder) else None


def _is_safe(path: Path) -> bool:
    """Whether nobody but this user and root can have written what is there."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
