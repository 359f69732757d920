"""Runs the project's scripts, one command per line of standard input, without what Windows lacks.

A file or folder that is open can be neither renamed nor deleted, a folder cannot be opened or
replaced. All else is Linux.
"""

import builtins
import ctypes
import errno
import functools
import io
import logging
import multiprocessing
import os
import runpy
import shlex
import shutil
import signal
import sys
import tempfile

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # to import it is an ImportError
for name in ("getuid", "geteuid", "sched_getaffinity", "posix_fallocate", "fork", "mkfifo"):
    delattr(os, name)
del signal.SIGHUP
tempfile.TemporaryFile = tempfile.NamedTemporaryFile
shutil._use_fd_functions = False
# as they are, before some of them are replaced
listdir = os.listdir
readlink = os.readlink
isdir = os.path.isdir


class CDLL(ctypes.CDLL):
    def __init__(self, name, *options, **more):
        if "mklml" in str(name):
            raise OSError(errno.ENOENT, "as on Windows", name)
        super().__init__(name, *options, **more)


ctypes.CDLL = CDLL


def is_of_linux(path, *_, **__) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(("/proc/", "/sys/"))


def is_open(path, **_) -> bool:
    """Whether this process has the file open, or a file in the folder."""
    path = os.path.realpath(path)
    for number in listdir("/proc/self/fd"):
        try:
            opened = readlink(f"/proc/self/fd/{number}")
        except OSError:  # the listing itself
            continue
        if opened == path or opened.startswith(f"{path}/"):
            return True
    return False


def replace_function(module, name: str, refuses, code: int = errno.EACCES) -> None:
    function = getattr(module, name)

    def call(*arguments, **keywords):
        if refuses(*arguments, **keywords):
            raise OSError(code, "as on Windows", str(arguments[0]))
        return function(*arguments, **keywords)

    # not `call` itself: pathlib of Python 3.10 takes a function for a method
    setattr(module, name, functools.partial(call))


for module, name in ((io, "open"), (builtins, "open"), (os, "stat")):
    replace_function(module, name, is_of_linux, errno.ENOENT)
replace_function(os, "open", lambda path, *_, **__: isdir(path))
replace_function(
    os, "replace", lambda source, target, **_: is_open(source) or is_open(target) or isdir(target)
)
replace_function(
    os, "rename", lambda source, target, **_: is_open(source) or os.path.lexists(target)
)
for name in ("unlink", "remove", "rmdir"):
    replace_function(os, name, is_open)

if __name__ == "__main__":  # not in the processes that a script spawns
    from pathlib import Path

    project = Path(__file__).resolve().parents[2]
    assert not Path("/proc/cpuinfo").exists()
    multiprocessing.set_start_method("spawn")
    for line in sys.stdin:
        print(line, end="", flush=True)
        logging.getLogger("elmo").handlers.clear()
        sys.argv = shlex.split(line)
        sys.path[0] = str(project)
        runpy.run_path(str(project / sys.argv[0]), run_name="__main__")
