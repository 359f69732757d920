"""The kernels of gpu_lstm.c without a GPU: compiled by a C compiler."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_core.kernels import gpu_lstm


@functools.cache
def launcher() -> Callable:
    """A function with the arguments of `nvrtc.Kernels.launch`.

    Skips the test without a C compiler.
    """
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "kernels.so")
        flags = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
        command = [compiler, *flags, gpu_lstm.SOURCE, "-o", built, "-lm"]
        subprocess.run(command, check=True)
        library = ctypes.CDLL(str(built))

    def launch(name: str, *arguments) -> None:
        values = [_c_value(argument) for argument in arguments]
        getattr(library, name)(*values)

    return launch


def _c_value(argument):
    if isinstance(argument, int | float):
        return ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_float(argument)
    assert argument.is_contiguous()
    return ctypes.c_void_p(argument.data_ptr())
