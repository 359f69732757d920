"""CUDA kernels without a compiler: NVRTC, a library of CUDA, compiles a source; the driver loads and launches the result.

Independent of Paddle. Problems are an OSError.
"""

import ctypes
import importlib.util
import struct
from collections.abc import Callable
from pathlib import Path

NAMES = "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"
THREADS, MAX_BLOCKS = 256, 65535
KINDS = {int: "i", float: "f"}  # in C; all else is a pointer


def library() -> ctypes.CDLL:
    """Load NVRTC: that of pip's packages, which Paddle 3 requires, or the system's."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else ()
    paths = [
        str(path) for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*"))
    ]
    for name in (*paths, *NAMES):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("NVRTC was not found. It is part of CUDA; or pip install nvidia-cuda-nvrtc-cu12")


def compile(source: bytes, architecture: str) -> bytes:
    """Compile a CUDA source for an architecture, as in "sm_80". Returns a cubin."""
    nvrtc, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def check(result: int) -> None:
        if result:
            raise OSError(f"NVRTC for {architecture}: {nvrtc.nvrtcGetErrorString(result).decode()}")

    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None))
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
    check(nvrtc.nvrtcCompileProgram(program, len(options), options))
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


class Kernels:
    """The kernels of a cubin, loaded into a device. stream: returns the address of the stream to launch on."""

    def __init__(self, cubin: bytes, device: int, stream: Callable[[], int]):
        self.driver, self.stream, self.functions = ctypes.CDLL("libcuda.so.1"), stream, {}
        context, self.module = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self.driver.cuInit(0))
        self._check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))  # Paddle's
        self._check(self.driver.cuCtxSetCurrent(context))
        self._check(self.driver.cuModuleLoadData(ctypes.byref(self.module), cubin))

    def launch(self, name: str, directions: int, rows: int, width: int, *others) -> None:
        """Launch a kernel, a thread for each unit of each row.

        others: the kernel's further arguments: numbers, and tensors, which are anything with `data_ptr()`.
        """
        arguments = directions, rows, width, *others
        if name not in self.functions:
            function = ctypes.c_void_p()
            self._check(
                self.driver.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode())
            )
            self.functions[name] = (
                function,
                struct.Struct("".join(KINDS.get(type(x), "P") for x in arguments)),
            )
        function, layout = self.functions[name]
        values = [x if type(x) in KINDS else x.data_ptr() for x in arguments]
        packed, size = (
            ctypes.create_string_buffer(layout.pack(*values), layout.size),
            ctypes.c_size_t(layout.size),
        )
        # CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END: quicker than a pointer for each argument
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
        grid, block = (-(-width // THREADS), min(directions * rows, MAX_BLOCKS), 1), (THREADS, 1, 1)
        stream = ctypes.c_void_p(self.stream())
        self._check(self.driver.cuLaunchKernel(function, *grid, *block, 0, stream, None, extra))

    def _check(self, result: int) -> None:
        if result:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(result, ctypes.byref(text))
            raise OSError(f"CUDA error {result}: {(text.value or b'').decode()}")
