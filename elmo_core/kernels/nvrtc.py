"""CUDA kernels without a compiler.

NVRTC, a library of CUDA, compiles a source; the driver loads and launches the result. Independent
of Paddle. Problems are an OSError.
"""

import ctypes
import importlib.util
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

NAMES = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"]
THREADS = 256  # of a block
MAX_BLOCKS = 65535
KINDS = {int: "i", float: "f"}  # in C; all else is a pointer


def library() -> ctypes.CDLL:
    """Load NVRTC: that of pip's packages, which Paddle 3 requires, or the system's."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else ()
    found: list[str] = []
    for folder in folders:
        found.extend(str(path) for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")))
    for name in found + NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("NVRTC was not found. It is part of CUDA; or pip install nvidia-cuda-nvrtc-cu12")


def compile(source: bytes, architecture: str) -> bytes:
    """Compile a CUDA source for an architecture, as in "sm_80". Returns a cubin."""
    nvrtc = library()
    program = ctypes.c_void_p()
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def check(result: int) -> None:
        if result:
            reason = nvrtc.nvrtcGetErrorString(result).decode()
            raise OSError(f"NVRTC for {architecture}: {reason}")

    # without a name, headers and their names
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None))
    option = f"--gpu-architecture={architecture}"
    options = (ctypes.c_char_p * 1)(option.encode())
    check(nvrtc.nvrtcCompileProgram(program, len(options), options))
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


class _Kernel(NamedTuple):
    """A loaded kernel, and how its arguments lie in memory."""

    function: ctypes.c_void_p
    layout: struct.Struct


class Kernels:
    """The kernels of a cubin, loaded into a device.

    stream: returns the address of the stream to launch on.
    """

    def __init__(self, cubin: bytes, device: int, stream: Callable[[], int]):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.stream = stream
        self.module = ctypes.c_void_p()
        self.loaded: dict[str, _Kernel] = {}
        context = ctypes.c_void_p()
        self._check(self.driver.cuInit(0))
        self._check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))  # Paddle's
        self._check(self.driver.cuCtxSetCurrent(context))
        self._check(self.driver.cuModuleLoadData(ctypes.byref(self.module), cubin))

    def launch(self, name: str, directions: int, rows: int, width: int, *others) -> None:
        """Launch a kernel, a thread for each unit of each row.

        others: the kernel's further arguments: numbers, and tensors, which are anything with
        `data_ptr()`.
        """
        arguments = directions, rows, width, *others
        if name not in self.loaded:
            self.loaded[name] = self._load(name, arguments)
        function, layout = self.loaded[name]
        values = [x if type(x) in KINDS else x.data_ptr() for x in arguments]
        buffer = ctypes.create_string_buffer(layout.pack(*values), layout.size)
        size = ctypes.c_size_t(layout.size)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END: faster than a pointer per argument
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        blocks_per_row = -(-width // THREADS)
        result = self.driver.cuLaunchKernel(
            function,
            # the grid, in blocks
            blocks_per_row,
            min(directions * rows, MAX_BLOCKS),
            1,
            # a block, in threads
            THREADS,
            1,
            1,
            # bytes of shared memory
            0,
            ctypes.c_void_p(self.stream()),
            # no pointers to arguments, which are in `extra`
            None,
            extra,
        )
        self._check(result)

    def _load(self, name: str, arguments: Sequence) -> _Kernel:
        """Find a kernel in the module. Its arguments are always of the same types."""
        function = ctypes.c_void_p()
        pointer = ctypes.byref(function)
        self._check(self.driver.cuModuleGetFunction(pointer, self.module, name.encode()))
        kinds = [KINDS.get(type(argument), "P") for argument in arguments]
        return _Kernel(function, struct.Struct("".join(kinds)))

    def _check(self, result: int) -> None:
        if result:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(result, ctypes.byref(text))
            raise OSError(f"CUDA error {result}: {(text.value or b'').decode()}")
