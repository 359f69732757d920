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
import re
import shlex
import stat
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

from elmo_core import messages
from elmo_core.machine import products, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.network import onednn

SOURCE = Path(__file__).with_name("fused.c")
FLAGS = "-O3 -march=native -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math -shared -fPIC"
BUILD_SECONDS = 60
ROW_MAJOR, AS_IS, TRANSPOSED, PACKED, RIGHT_SIDE = 101, 111, 112, 151, 162  # as in fused.c
FUNCTION = re.compile(r"^(int|void|rhs_t) \*?(\w+)\((.*?)\) {", re.MULTILINE | re.DOTALL)  # in fused.c, unless static
PARAMETER = re.compile(r"(\w+) ((?:[*\s]|const\b|restrict\b)*)(\w+)(?:,|$)")
NUMBERS = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "float": ctypes.c_float}
DTYPES = {"float": "float32", "uint16_t": "bfloat16"}


class Kernel:
    """The functions of fused.c as methods, with the parameters declared there, except `blas`, that of the current precision.

    A pointer takes a NumPy array or CPU tensor, contiguous and of the declared type, a sequence of integers or of tensors,
    or None. Raises MemoryError if a function runs out of memory.
    """

    def __init__(self, library: ctypes.CDLL, mkl: ctypes.CDLL):
        functions = [mkl.cblas_sgemm]
        if _packed_products_work(mkl):
            functions += [mkl.cblas_sgemm_alloc, mkl.cblas_sgemm_pack, mkl.cblas_sgemm_compute, mkl.cblas_sgemm_free]
        addresses = [ctypes.cast(function, ctypes.c_void_p) for function in functions]
        addresses += [None] * (5 - len(addresses))
        n_onednn = len(onednn.FUNCTIONS) + 3
        self.blas = (ctypes.c_void_p * (5 + n_onednn))(*addresses)  # a blas_t
        self.bfloat16_blas = None if onednn.missing() else type(self.blas)(*addresses, *onednn.addresses())
        for result, name, declared in FUNCTION.findall(SOURCE.read_text(encoding="utf-8")):
            function = getattr(library, name)
            function.restype = {"void": None, "int": ctypes.c_int, "rhs_t": ctypes.c_void_p}[result]
            types = {parameter: (kind, stars.count("*")) for kind, stars, parameter in PARAMETER.findall(declared)}
            function.argtypes = [ctypes.c_void_p if stars else NUMBERS[kind] for kind, stars in types.values()]
            setattr(self, name, functools.partial(self._call, function, types))

    def packs(self, n_products: int, rows: int) -> bool:
        """Whether fused.c packs the right-hand side of so many products with so many rows in total."""
        return products.bfloat16_enabled() or bool(self.blas[1] and n_products > 2 and rows >= 4 * n_products)

    def _call(self, function: Callable, types: dict[str, tuple[str, int]], /, *arguments, **keywords) -> int | None:
        first = (self.bfloat16_blas if products.bfloat16_enabled() else self.blas,) if "blas" in types else ()
        values = {**dict(zip(types, (*first, *arguments), strict=False)), **keywords}
        if len(first) + len(arguments) + len(keywords) != len(types) or values.keys() != types.keys():
            raise TypeError(f"fused.c: expected the arguments {', '.join(types)}")
        result = function(*[_pointer(values[k], *kind) if kind[1] else values[k] for k, kind in types.items()])
        if result == 0:
            raise MemoryError("no memory for the loops of fused.c")
        if error := onednn.failed.value:
            onednn.failed.value = 0
            raise MemoryError(f"oneDNN: error {error}, 1 if there is no memory")
        return result


class Packed:
    """The right-hand side of many products, a matrix or its transpose, packed by fused.c in the current precision."""

    def __init__(self, matrix: paddle.Tensor, transposed: bool, n_products: int, rows: int):
        self.matrix = None if kernel().packs(n_products, rows) else matrix  # not packed: it is read again
        shape = matrix.shape[::-1] if transposed else matrix.shape
        self.address = kernel().create_rhs(TRANSPOSED if transposed else AS_IS, *shape, matrix, n_products, rows)
        weakref.finalize(self, kernel().destroy_rhs, ctypes.c_void_p(self.address)).atexit = False


def _packed_products_work(mkl: ctypes.CDLL) -> bool:
    """Whether MKL can multiply a packed matrix with other numbers of rows than it was packed for.

    fused.c does that; MKL's manual leaves it open.
    """
    k, n, packed_for = 70, 83, 4
    one, zero, address = ctypes.c_float(1), ctypes.c_float(0), lambda array: ctypes.c_void_p(array.ctypes.data)
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((9, k), np.float32), generator.standard_normal((k, n), np.float32)
    mkl.cblas_sgemm_alloc.restype = ctypes.c_void_p
    for transposition, matrix, ld in ((AS_IS, b, n), (TRANSPOSED, np.ascontiguousarray(b.T), k)):
        packed = ctypes.c_void_p(mkl.cblas_sgemm_alloc(RIGHT_SIDE, packed_for, n, k))
        if not packed:
            return False
        shape = packed_for, n, k
        mkl.cblas_sgemm_pack(ROW_MAJOR, RIGHT_SIDE, transposition, *shape, one, address(matrix), ld, packed)
        products = [np.zeros((m, n), np.float32) for m in (1, packed_for, len(a))]
        for c in products:
            right = PACKED, len(c), n, k, address(a), k, packed, ld
            mkl.cblas_sgemm_compute(ROW_MAJOR, AS_IS, *right, zero, address(c), n)
        mkl.cblas_sgemm_free(packed)
        if not all(np.allclose(c, a[: len(c)] @ b, atol=1e-4) for c in products):
            return False
    return True


def _pointer(value, kind: str, stars: int):
    """Convert a value to a C pointer to `kind` with this number of `*`."""
    is_tensor = isinstance(value, paddle.Tensor)
    if is_tensor or isinstance(value, np.ndarray):
        if kind != "void" and _dtype_name(value.dtype) != DTYPES.get(kind, kind.removesuffix("_t")):
            raise TypeError(f"fused.c: found {value.dtype}, expected {kind}.")
        if not (value.is_contiguous() and value.place.is_cpu_place() if is_tensor else value.flags.c_contiguous):
            raise TypeError("fused.c takes contiguous arrays on the CPU only.")
        return value.data_ptr() if is_tensor else value.ctypes.data
    if isinstance(value, Packed):
        return value.address
    if value is None or isinstance(value, ctypes.Array | ctypes.c_void_p):
        return value
    if stars == 1:
        return (NUMBERS[kind] * len(value))(*value)
    return (ctypes.c_void_p * len(value))(*(_pointer(tensor, kind, 1) for tensor in value))


@functools.cache
def _dtype_name(dtype) -> str:
    return str(dtype).removeprefix("paddle.")


def is_supported(x: paddle.Tensor) -> bool:
    """Whether the compiled loops are available and support this tensor's device and dtype."""
    bfloat16 = products.bfloat16_enabled()
    fits = (x.dtype == paddle.float32 or (bfloat16 and x.dtype == paddle.bfloat16)) and x.place.is_cpu_place()
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
        output = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip().splitlines()[-1:]
        reason = " ".join([str(error), *output])
        messages.log.info(f"running without the compiled loops of fused.c (slower): {reason}")
        return None


def _library() -> ctypes.CDLL:
    """Load the library for this source and processor (machines may share a home folder) from the cache, or build it."""
    key = hashlib.sha256(b"\0".join([SOURCE.read_bytes(), FLAGS.encode(), runtime.processor().encode()]))
    name = f"fused-{key.hexdigest()[:16]}.so"
    cache = _cache()
    if cache and _is_safe(cache / name):
        with contextlib.suppress(OSError):  # damaged, or built for another C library
            return ctypes.CDLL(str(cache / name))
    writable = cache is not None and os.access(cache, os.W_OK)
    with tempfile.TemporaryDirectory(dir=cache if writable else None) as folder:
        built = Path(folder, name)
        compiler = shlex.split(os.environ.get("CC") or "cc")
        command = [*compiler, *FLAGS.split(), str(SOURCE), "-o", str(built), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=BUILD_SECONDS)
        library = ctypes.CDLL(str(built))
        if writable:
            built.chmod(0o700)
            built.replace(cache / name)
        return library


def _cache() -> Path | None:
    """The user's folder for built libraries; None if it is missing or other users could write to it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base if Path(base).is_absolute() else os.path.expanduser("~/.cache"), "elmo")  # noqa: PTH111
    if not folder.is_absolute():  # no home
        return None
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_dir() and not _is_safe(folder):
        messages.log.info(f"{folder} is not used: it belongs to another user, or others can write to it.")
    return folder if _is_safe(folder) else None


def _is_safe(path: Path) -> bool:
    """Whether only this user and root can write to the path."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
