"""Takes from this process what Windows lacks, when imported before anything else. The rest is still Linux."""

import builtins
import ctypes
import io
import os
import shutil
import signal
import sys
import tempfile

sys.modules |= dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios"))  # to import them is an ImportError
for name in ("getuid", "geteuid", "sched_getaffinity", "posix_fallocate", "sysconf", "fork", "mkfifo", "statvfs"):
    delattr(os, name)
del signal.SIGHUP
tempfile.TemporaryFile = tempfile.NamedTemporaryFile
shutil._use_fd_functions = False
listdir, readlink, realpath = os.listdir, os.readlink, os.path.realpath


def is_hidden(path) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(("/proc/", "/sys/"))


def is_open(path) -> bool:
    """Whether this process has the file open, or any file in the folder."""
    path = realpath(path)
    links = []
    for number in listdir("/proc/self/fd"):
        try:
            links.append(readlink(f"/proc/self/fd/{number}"))
        except OSError:  # that of the listing itself
            continue
    return any(link == path or link.startswith(f"{path}/") for link in links)


def replacement(function, refuses, error):
    def call(*arguments, **keywords):
        if refuses(*arguments, **keywords):
            raise error(13, "as on Windows", str(arguments[0]))
        return function(*arguments, **keywords)

    return call


def is_mkl(name=None, *_, **__) -> bool:
    return "mkl" in str(name)


def hidden(path, *_, **__) -> bool:
    return is_hidden(path)


def open_or_folder(source, target, **_) -> bool:
    return is_open(source) or is_open(target) or os.path.isdir(target)


io.open = builtins.open = replacement(open, hidden, FileNotFoundError)
os.stat = replacement(os.stat, hidden, FileNotFoundError)
os.open = replacement(os.open, lambda path, *_, **__: os.path.isdir(path), PermissionError)
os.replace = replacement(os.replace, open_or_folder, PermissionError)
os.rename = replacement(os.rename, lambda source, target, **_: is_open(source) or os.path.exists(target), FileExistsError)
os.unlink = os.remove = replacement(os.unlink, lambda path, **_: is_open(path), PermissionError)
os.rmdir = replacement(os.rmdir, lambda path, **_: is_open(path), PermissionError)
