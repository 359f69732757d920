"""Paddle's oneDNN, for products in bfloat16 on processors that have them (AVX512_BF16 or AMX).

The wheel has no header, so the few prototypes are declared in fused.c, for oneDNN 3.
"""

import ctypes
import functools
from pathlib import Path

from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle

FUNCTIONS = (  # of fused.c's blas_t, in this order
    "dnnl_memory_desc_create_with_strides",
    "dnnl_memory_desc_create_with_tag",
    "dnnl_memory_desc_clone",
    "dnnl_memory_desc_get_size",
    "dnnl_primitive_desc_query_md",
    "dnnl_matmul_primitive_desc_create",
    "dnnl_reorder_primitive_desc_create",
    "dnnl_primitive_create",
    "dnnl_memory_create",
    "dnnl_stream_create",
    "dnnl_primitive_execute",
    "dnnl_memory_desc_destroy",
    "dnnl_primitive_desc_destroy",
    "dnnl_primitive_destroy",
    "dnnl_memory_destroy",
    "dnnl_stream_destroy",
)
CPU = 1  # oneDNN's enumerators
FLOAT32 = 3
# Compiled computations that oneDNN keeps. Its own 1024, one for each number of tokens in a batch,
# take 5 GB in pretraining.
CACHED = 100
failed = ctypes.c_int(0)  # the last error of a product


@functools.cache
def missing() -> str:
    """Return what this machine lacks for products in bfloat16; empty if it has all."""
    if "avx512_bf16" not in runtime.processor():
        having = "AVX512_BF16 (AMD Zen 4, Intel Cooper Lake) or AMX (Sapphire Rapids)"
        return f"this processor has no bfloat16 products: {having}"
    library = _library()
    if library is None:
        return "this build of Paddle comes without oneDNN (libdnnl.so.3)"
    library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
    major, minor, _ = library.dnnl_version().contents
    if major != 3:
        return f"Paddle's oneDNN has version {major}.{minor}, expected 3"
    return ""


def addresses() -> list[ctypes.c_void_p]:
    """Return an engine, options that make a product add to its result, and the functions.

    Only if nothing is missing.
    """
    library = _library()
    engine = ctypes.c_void_p()
    options = ctypes.c_void_p()
    additions = ctypes.c_void_p()
    first_engine = ctypes.c_size_t(0)
    factor = ctypes.c_float(1)
    zero_point = 0
    statuses = (
        library.dnnl_engine_create(ctypes.byref(engine), CPU, first_engine),
        library.dnnl_post_ops_create(ctypes.byref(additions)),
        library.dnnl_post_ops_append_sum(additions, factor, zero_point, FLOAT32),
        library.dnnl_primitive_attr_create(ctypes.byref(options)),
        library.dnnl_primitive_attr_set_post_ops(options, additions),
        library.dnnl_set_primitive_cache_capacity(CACHED),
    )
    if any(statuses):
        raise OSError(f"oneDNN: errors {statuses}")
    functions = [ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in FUNCTIONS]
    error = ctypes.cast(ctypes.pointer(failed), ctypes.c_void_p)
    return [engine, options, *functions, error]


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(Path(paddle.__file__).parent / "libs" / "libdnnl.so.3"))
    except OSError:
        return None
