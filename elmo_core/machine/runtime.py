"""What must be right before Paddle is imported, then its device and its threads.

Take Paddle from here: `from elmo_core.machine.runtime import paddle`. Its CPU build reads the number of threads and the
BLAS path from the environment while it is being imported, and by itself takes one thread and, on AMD processors, a slow
path. Here both are set first, wherever the user has not set them, and Paddle's start-up chatter is left out.
"""

import contextlib
import ctypes
import functools
import io
import logging
import os
import platform
import signal
import sys
import warnings
import zlib  # noqa: F401  before Paddle: 2.6 brings another zlib, with which Python's would fail
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import metadata
from pathlib import Path

from elmo_core.machine import versions
from elmo_core.machine.messages import UserError, log

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds in so many
OLD_CPU_QUOTA = [Path(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")]  # with cgroups v1
PROCESSOR_LINES = ("vendor_id", "model name", "flags", "Features")  # of /proc/cpuinfo
CHATTER = ("OMP_NUM_THREADS set to", "PLEASE USE OMP_NUM_THREADS WISELY")


def n_cores() -> int:
    """Cores this process may use, which containers and `taskset` make fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        files = [CPU_QUOTA] if CPU_QUOTA.exists() else OLD_CPU_QUOTA
        quota, period = " ".join(path.read_text(encoding="ascii") for path in files).split()
        return cores if quota in ("max", "-1") else max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no such container
        return cores


@functools.cache
def processor() -> str:
    """Vendor, model and abilities of the processor, as the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.processor()} {platform.machine()}"
    return "\n".join(sorted({line for line in lines if line.startswith(PROCESSOR_LINES)}))


def n_threads() -> int:
    """Threads that Paddle's and our own work is shared among: one where OMP_NUM_THREADS says no number above 0."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # a list is of nested levels
    return max(1, int(first)) if first.isdecimal() else 1


def local_ranks() -> int:
    """Processes of this job on this machine, as `paddle.distributed.launch` tells them."""
    endpoints = os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")
    host = os.environ.get("PADDLE_CURRENT_ENDPOINT", "").rpartition(":")[0]
    return max(1, sum(endpoint.rpartition(":")[0] == host for endpoint in endpoints if endpoint))


def prepare_environment() -> None:
    """Set the threads and the BLAS path that Paddle will read, where the user has not chosen them."""
    chosen = [name for name in THREAD_VARIABLES if name in os.environ]
    if "PADDLE_TRAINER_ENDPOINTS" in os.environ and chosen == ["OMP_NUM_THREADS"] and os.environ[chosen[0]] == "1":
        chosen = []  # not the user's choice: the launcher imports Paddle, which sets it for all that follows
    if not chosen:
        threads = str(max(1, n_cores() // local_ranks()))
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, threads))
    if "AuthenticAMD" in processor():  # MKL's code for AVX-512 or AVX2, which it takes by itself on Intel's own only
        os.environ.setdefault("MKL_DEBUG_CPU_TYPE", "7" if "avx512vl" in processor() else "5")
    # an idle BLAS thread that spins would take the core from the other direction's thread (see run_in_parallel)
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    os.environ.setdefault("GLOG_minloglevel", "2")


def keep_freed_memory() -> None:
    """Let this process keep the memory that freed tensors leave, for the next ones. It never shrinks again.

    By default the C library hands large blocks back to the system, which has to zero and map every page of the next one:
    a tenth of a training step. Scripts call this; an import does not, for the process belongs to the user. Without glibc,
    or where the user has set MALLOC_* or GLIBC_TUNABLES, nothing changes.
    """
    most, trim_threshold, mmap_max, arena_max = 2**31 - 1, -1, -4, -8
    chosen = [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]
    if chosen or platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(trim_threshold, most)
    mallopt(mmap_max, 0)
    mallopt(arena_max, 1)


is_script = False  # set by scripts: Paddle's own signal handlers are turned off


@functools.cache
def import_paddle():
    """Import Paddle with the environment prepared and without its start-up chatter."""
    if problem := versions.problem(versions.installed(), metadata.version("numpy")):
        raise UserError(problem)
    if "paddle" in sys.modules:
        if os.environ.get("OMP_NUM_THREADS", "1") == "1" and n_cores() > 1:
            warnings.warn(
                "paddle was imported before elmo and runs on one thread, which is several times slower. "
                "Import elmo first, or set OMP_NUM_THREADS before starting Python.",
                stacklevel=2,
            )
        return sys.modules["paddle"]
    prepare_environment()
    stderr, root = io.StringIO(), (logging.root.handlers[:], logging.root.level)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(stderr):
            warnings.filterwarnings("ignore", message=".*ccache.*")
            import paddle
        if is_script:
            before = signal.getsignal(signal.SIGTERM)
            paddle.disable_signal_handler()
            signal.signal(signal.SIGTERM, before)  # which a script has set, and Paddle has just reset
    finally:
        logging.root.handlers[:] = root[0]  # with Paddle's, other libraries' chatter would be printed
        logging.root.setLevel(root[1])
        loggers = logging.root.manager.loggerDict.values()
        for handler in (handler for logger in loggers for handler in getattr(logger, "handlers", ())):
            if getattr(handler, "stream", None) is stderr:  # Paddle has given its loggers handlers
                handler.setStream(sys.stderr)
        for line in stderr.getvalue().splitlines():
            if not any(words in line for words in CHATTER):
                print(line, file=sys.stderr)
    return paddle


def __getattr__(name: str):
    """`runtime.paddle` imports Paddle when it is first asked for: preparing text never needs it."""
    if name == "paddle":
        return import_paddle()
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")


def set_device(name: str = "auto") -> str:
    """Choose the device: auto, cpu, gpu or gpu:N, with products in full float32. Returns Paddle's name for it."""
    name = device_name(name)
    paddle = import_paddle()
    paddle.set_device(name)
    versions.allow_tf32(paddle, False)
    if name.startswith("gpu") and (warning := versions.missing_kernels(paddle)):
        log.warning(warning)
    return name


def device_name(name: str = "auto") -> str:
    """Paddle's name for auto, cpu, gpu or gpu:N, if there is such a device."""
    paddle = import_paddle()
    gpus = paddle.device.cuda.device_count() if paddle.is_compiled_with_cuda() else 0
    if name == "auto":
        name = "gpu" if gpus else "cpu"
    kind, _, number = str(name).partition(":")
    if name != "cpu" and not (kind == "gpu" and (number.isdigit() or name == "gpu")):
        raise UserError(f"device {name}: expected auto, cpu, gpu or gpu:N (for instance gpu:0).")
    if kind == "gpu" and not paddle.is_compiled_with_cuda():
        raise UserError(
            f"device {name}: this build of Paddle is for CPU only. Install paddlepaddle-gpu as "
            "docs/cluster.md says, or give cpu as the device."
        )
    if kind == "gpu" and int(number or 0) >= gpus:
        raise UserError(
            f"device {name}: Paddle sees {gpus} GPUs. Check nvidia-smi, CUDA_VISIBLE_DEVICES; or cpu as the device."
        )
    with on_device(name):
        return paddle.get_device()


@contextlib.contextmanager
def on_device(name: str):
    """Run what is inside on a device, and go back to the one before. It is all threads': not for two devices at once."""
    paddle = import_paddle()
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
    """A NumPy array on the device.

    Paddle copies an array to a GPU only after the GPU has done all that it has been given. A copy of a tensor in the
    host's memory waits its turn there, while the program goes on.
    """
    paddle = import_paddle()
    if paddle.get_device() == "cpu":
        return paddle.to_tensor(array)
    return paddle.to_tensor(array, place=paddle.CPUPlace()).cuda(blocking=False)


@functools.cache
def mkl() -> ctypes.CDLL | None:
    """The BLAS that Paddle's CPU build brings for Intel and AMD processors; None where it brings another."""
    try:
        return ctypes.CDLL(str(Path(import_paddle().__file__).parent / "libs" / "libmklml_intel.so"))
    except OSError:
        return None


@functools.cache
def _workers(process: int) -> ThreadPoolExecutor:
    """This process's worker threads. Keyed by the process, because a fork does not inherit threads."""
    return ThreadPoolExecutor(n_cores(), thread_name_prefix="elmo")


def run_in_parallel(tasks: Sequence[Callable]) -> list:
    """Results of independent pieces of Paddle work; on a CPU with threads to share they run side by side.

    Paddle's elementwise operators run on one thread. Two directions on two threads, each with half of the BLAS threads,
    keep all cores at work. On a GPU the pieces are queued one after another.
    """
    share = n_threads() // max(1, len(tasks))
    if len(tasks) < 2 or not share or mkl() is None or not import_paddle().get_device().startswith("cpu"):
        return [task() for task in tasks]
    set_threads = mkl().MKL_Set_Num_Threads_Local

    def run(task):
        before = set_threads(share)
        try:
            return task()
        finally:
            set_threads(before)

    others = [_workers(os.getpid()).submit(run, task) for task in tasks[1:]]
    try:
        first = run(tasks[0])
    finally:
        wait(others)  # nobody works on after this returns
    return [first, *(other.result() for other in others)]
