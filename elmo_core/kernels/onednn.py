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
CPU, FLOAT32 = 1, 3  # oneDNN's enumerators
CACHED = 100  # compiled computations; its own 1024, one for each number of tokens in a batch, take 5 GB in pretraining
failed = ctypes.c_int(0)  # the last error of a product


@functools.cache
def missing() -> str:
    """Return the part that products in bfloat16 need and this machine lacks; empty if it has all."""
    if "avx512_bf16" not in runtime.processor():
        return "this processor has no bfloat16 products: AVX512_BF16 (AMD Zen 4, Intel Cooper Lake) or AMX (Sapphire Rapids)"
    library = _library()
    if library is None:
        return "this build of Paddle comes without oneDNN (libdnnl.so.3)"
    library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
    version = library.dnnl_version().contents
    return (
        ""
        if version[0] == 3
        else f"Paddle's oneDNN has version {version[0]}.{version[1]}, expected 3"
    )


def addresses() -> list[ctypes.c_void_p]:
    """Return an engine, options that make a product add to its result, and the functions. Only if nothing is missing."""
    library, engine, options, additions = _library(), *(ctypes.c_void_p() for _ in range(3))
    statuses = (
        library.dnnl_engine_create(ctypes.byref(engine), CPU, ctypes.c_size_t(0)),
        library.dnnl_post_ops_create(ctypes.byref(additions)),
        library.dnnl_post_ops_append_sum(additions, ctypes.c_float(1), 0, FLOAT32),
        library.dnnl_primitive_attr_create(ctypes.byref(options)),
        library.dnnl_primitive_attr_set_post_ops(options, additions),
        library.dnnl_set_primitive_cache_capacity(CACHED),
    )
    if any(statuses):
        raise OSError(f"oneDNN: errors {statuses}")
    functions = [ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in FUNCTIONS]
    return [engine, options, *functions, ctypes.cast(ctypes.pointer(failed), ctypes.c_void_p)]


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(Path(paddle.__file__).parent / "libs" / "libdnnl.so.3"))
    except OSError:
        return None
