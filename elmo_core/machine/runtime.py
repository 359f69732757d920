"""Import Paddle with the right environment; choose its device and share work among threads.

Always import Paddle from here: `from elmo_core.machine.runtime import paddle`. Its CPU build reads
the number of threads and the BLAS code path from the environment during the import. The defaults
are one thread and, on AMD processors, a slow path. Both are set here first, unless the user has set
them, and Paddle's start-up messages are suppressed.
"""

import contextlib
import contextvars
import ctypes
import functools
import importlib
import io
import logging
import os
import platform
import signal
import sys
import threading
import warnings
import zlib  # noqa: F401  before Paddle: 2.6 brings another zlib, with which Python's would fail
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import metadata
from pathlib import Path
from typing import Any

from elmo_core.machine import paddle_compat
from elmo_core.messages import UserError, format_count, log

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CGROUPS = Path("/sys/fs/cgroup")
CPU_QUOTAS = (  # of a container: files with quota and period in microseconds, of cgroups 2 and 1
    ("cpu.max",),
    ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),
)
PROCESSOR_LINES = ("vendor_id", "model name", "flags", "Features")  # of /proc/cpuinfo
_DEVICE_LOCK = threading.RLock()
# Held by a training, whose random numbers come from Paddle's generator.
TRAINING = threading.RLock()


def n_cores() -> int:
    """Return the number of cores this process may use: containers and `taskset` can limit it."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    for files in CPU_QUOTAS:
        try:
            texts = [(CGROUPS / file).read_text(encoding="ascii") for file in files]
            quota, period = [int(number) for number in " ".join(texts).split()]
        except (OSError, ValueError):  # another version; or not limited: "max"
            continue
        if quota > 0:  # -1: not limited
            return max(1, min(cores, round(quota / period)))
    return cores


@functools.cache
def processor() -> str:
    """Vendor, model and features of the processor, as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.processor()} {platform.machine()}"
    return "\n".join(sorted({line for line in lines if line.startswith(PROCESSOR_LINES)}))


def n_threads() -> int:
    """Return the number of threads for Paddle's and our own work.

    It is OMP_NUM_THREADS, or 1 if that is not a positive number.
    """
    per_level = os.environ.get("OMP_NUM_THREADS", "").split(",")  # one per nesting level
    outermost = per_level[0].strip()
    if outermost.isdecimal() and len(outermost) < 6:
        return max(1, int(outermost))
    return 1


def rank_and_size() -> tuple[int, int]:
    """Return this process's rank and the number of processes.

    `paddle.distributed.launch` sets both.
    """
    rank = int(os.environ.get("PADDLE_TRAINER_ID") or 0)
    size = int(os.environ.get("PADDLE_TRAINERS_NUM") or 1)
    return rank, size


def local_ranks() -> int:
    """Return the number of this job's processes on this machine.

    `paddle.distributed.launch` lists them.
    """
    endpoints = os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")
    host = os.environ.get("PADDLE_CURRENT_ENDPOINT", "").rpartition(":")[0]
    return max(1, sum(endpoint.rpartition(":")[0] == host for endpoint in endpoints if endpoint))


def prepare_environment() -> None:
    """Set the number of threads and the BLAS code path for Paddle, unless the user has set them."""
    chosen = [name for name in THREAD_VARIABLES if name in os.environ]
    is_launched = "PADDLE_TRAINER_ENDPOINTS" in os.environ
    if is_launched and chosen == ["OMP_NUM_THREADS"] and os.environ["OMP_NUM_THREADS"] == "1":
        # Not the user's choice: Paddle sets it in the launcher, and its children inherit it.
        chosen = []
    if not chosen:
        threads = str(max(1, n_cores() // local_ranks()))
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, threads))
    if "AuthenticAMD" in processor():
        # MKL's code for AVX-512 or AVX2; by default only Intel processors get it.
        os.environ.setdefault("MKL_DEBUG_CPU_TYPE", "7" if "avx512vl" in processor() else "5")
    # Idle BLAS threads must not spin: another direction's threads need the cores, see
    # `run_in_parallel`.
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    os.environ.setdefault("GLOG_minloglevel", "2")


def keep_freed_memory() -> None:
    """Make malloc keep the memory of freed tensors for reuse; only scripts call this.

    By default glibc returns large blocks to the system, which must zero and map every page of the
    next one: 10 % of a training step.
    """
    with contextlib.suppress(AttributeError, TypeError):  # not glibc; Windows
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        mallopt(-4, 0)  # M_MMAP_MAX
        mallopt(-8, 1)  # M_ARENA_MAX


@functools.cache
def import_paddle():
    """Prepare the environment and import Paddle, without its start-up messages."""
    problem = paddle_compat.problem(paddle_compat.installed(), metadata.version("numpy"))
    if problem:
        raise UserError(problem)
    if "paddle" in sys.modules:
        _warn_of_one_thread()
    else:
        prepare_environment()
        _import_quietly()
    _keep_sigterm()
    import paddle  # which is loaded; this statement tells editors what is returned

    return paddle


def _warn_of_one_thread() -> None:
    """Warn if Paddle, which was imported before, uses only one of several cores."""
    if os.environ.get("OMP_NUM_THREADS", "1") == "1" and n_cores() > 1:
        warnings.warn(
            "paddle was imported before elmo and runs on one thread, which is several times "
            "slower. Import elmo first, or set OMP_NUM_THREADS before starting Python.",
            stacklevel=3,
        )


def _import_quietly() -> None:
    """Import Paddle. Its handlers of messages are dropped, or write to the real stderr."""
    handlers = logging.root.handlers[:]
    level = logging.root.level
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()) as stderr:
        warnings.filterwarnings("ignore", message=".*ccache.*")
        importlib.import_module("paddle")
    # Paddle's handlers would also print other libraries' messages.
    logging.root.handlers[:] = handlers
    logging.root.level = level
    for logger in logging.root.manager.loggerDict.values():
        for handler in getattr(logger, "handlers", ()):
            if getattr(handler, "stream", None) is stderr:
                handler.setStream(sys.stderr)


def _keep_sigterm() -> None:
    """Install the program's handler again: Paddle has replaced it by one that reports a crash."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)


def __getattr__(name: str):
    """Import Paddle on the first use of `runtime.paddle`: preparing text does not need it."""
    if name == "paddle":
        return import_paddle()
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")


def set_device(name: str = "auto", tf32: str = "auto") -> str:
    """Set the device: auto, cpu, gpu or gpu:N. Returns Paddle's name for it.

    tf32: auto: GPUs that have TF32 use it for products of float32; off: full float32.
    """
    name = device_name(name)
    paddle = import_paddle()
    paddle.set_device(name)
    if tf32 == "off":
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    paddle_compat.allow_tf32(paddle, paddle_compat.has_tf32(paddle, name))
    if paddle_compat.has_tf32(paddle, name):
        log.info(
            f"{name}: float32 products are computed in TF32 (full float32: NVIDIA_TF32_OVERRIDE=0)"
        )
    return name


def device_name(name: str = "auto") -> str:
    """Paddle's name for auto, cpu, gpu or gpu:N. Raises if there is no such device."""
    paddle = import_paddle()
    name = str(name)
    gpus = paddle.device.cuda.device_count() if paddle.is_compiled_with_cuda() else 0
    if name == "auto":
        name = "gpu" if gpus else "cpu"
    kind, _, number = name.partition(":")
    is_numbered = kind == "gpu" and number.isdecimal() and len(number) < 6
    if name not in ("cpu", "gpu") and not is_numbered:
        raise UserError(
            f"device {name:.80}: expected auto, cpu, gpu or gpu:N (for instance gpu:0)."
        )
    if kind == "gpu" and int(number or 0) >= gpus:
        problem = (
            f"Paddle finds {format_count(gpus, 'GPUs')}. Check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
        if not paddle.is_compiled_with_cuda():
            problem = "this build of Paddle is for CPUs only. Install paddlepaddle-gpu in its place"
        raise UserError(f"device {name}: {problem}, or give cpu as the device.")
    with on_device(name):
        return paddle.get_device()


def portable_device(name: str) -> str:
    """Return the device for a copy of something, perhaps on another machine.

    It is auto, if this is what auto chooses here.
    """
    return "auto" if name == device_name() else name


@contextlib.contextmanager
def on_device(name: str):
    """Use a device inside the block, then restore the previous one.

    The setting is global to the process, as that of TF32: with CUDA, one thread at a time is inside
    such a block.
    """
    paddle = import_paddle()
    with _DEVICE_LOCK if paddle.is_compiled_with_cuda() else contextlib.nullcontext():
        before = paddle.get_device()
        if before == name:
            yield
            return
        paddle.set_device(name)
        try:
            yield
        finally:
            paddle.set_device(before)


def to_tensor(array):
    """Copy a NumPy array to the device.

    Copying an array to a GPU directly would wait until the GPU has finished all queued work. The
    copy of a host tensor is itself queued, and the program continues.
    """
    paddle = import_paddle()
    if paddle.get_device() == "cpu":
        return paddle.to_tensor(array)
    return paddle.to_tensor(array, place=paddle.CPUPlace()).cuda(blocking=False)


@functools.cache
def mkl() -> ctypes.CDLL | None:
    """Paddle's MKL library, which its CPU builds for x86 contain; None if there is none."""
    try:
        libraries = Path(import_paddle().__file__).parent / "libs"
        return ctypes.CDLL(str(libraries / "libmklml_intel.so"))
    except OSError:
        return None


@functools.cache
def _gomp() -> ctypes.CDLL | None:
    """Return the OpenMP library of Paddle's oneDNN, or None; its MKL has another."""
    try:
        return ctypes.CDLL("libgomp.so.1")
    except OSError:
        return None


def _run_on(n: int, task: Callable) -> Any:
    """Run a task with n BLAS threads of the calling thread."""
    gomp = _gomp()
    mkl_threads = mkl().MKL_Set_Num_Threads_Local(n)  # the number before
    gomp_threads = gomp.omp_get_max_threads() if gomp else None
    try:
        if gomp:
            gomp.omp_set_num_threads(n)
        return task()
    finally:
        mkl().MKL_Set_Num_Threads_Local(mkl_threads)
        if gomp:
            gomp.omp_set_num_threads(gomp_threads)


@functools.cache
def _workers(process: int) -> ThreadPoolExecutor:
    """Worker threads of the process with this id: a forked process does not inherit threads."""
    return ThreadPoolExecutor(n_cores(), thread_name_prefix="elmo")


def run_in_parallel(tasks: Sequence[Callable]) -> list:
    """Run independent Paddle tasks and return their results.

    They run in parallel on a CPU with enough threads.

    Paddle's elementwise operators use one thread. Two directions on two threads, each with half of
    the BLAS threads, keep all cores busy. On a GPU the tasks are queued one after another.
    """
    threads_per_task = n_threads() // max(1, len(tasks))
    if (
        len(tasks) < 2
        or not threads_per_task
        or mkl() is None
        or not import_paddle().get_device().startswith("cpu")
    ):
        return [task() for task in tasks]
    workers = _workers(os.getpid())
    others = [
        workers.submit(contextvars.copy_context().run, _run_on, threads_per_task, task)
        for task in tasks[1:]
    ]
    try:
        first = _run_on(threads_per_task, tasks[0])
    finally:
        wait(others)  # no task may outlive this call
    return [first] + [other.result() for other in others]
