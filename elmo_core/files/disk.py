"""Atomic writes of files and folders, checks of inputs and outputs, and locks."""

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from elmo_core.messages import UserError, log


def user_path(path: str | Path) -> Path:
    """The path, with ~ and ~user as their homes, if there are such users."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  Path.expanduser raises


def cache_path() -> Path:
    """Return where the user's folder for caches is or will be.

    Without a home it is relative, with its ~. A relative XDG_CACHE_HOME is ignored, as its
    specification says.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else user_path("~/.cache")) / "elmo"


def cache_folder() -> Path | None:
    """Return the user's folder for caches.

    None if there is none, or other users could write to it.
    """
    folder = cache_path()
    if not folder.is_absolute():  # no home
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    others = stat.S_IWGRP | stat.S_IWOTH
    is_windows = not hasattr(os, "getuid")
    if is_windows or (status.st_uid in (os.getuid(), 0) and not status.st_mode & others):
        return folder
    log.info(f"{folder} is not used: it belongs to another user, or others can write to it.")
    return None


def check_input(path: Path, expected: str, flag: str = "") -> None:
    """Raise unless the path is a file. expected: describes it in the error message."""
    if not path.is_file():
        problem = f"this is {_describe_kind(path)}" if path.exists() else "there is no such file"
        raise UserError(f"{flag} {path}: {problem}, expected {expected}.".lstrip())


def read_json(path: Path, expected: str) -> dict:
    """Read the object in a JSON file. expected: describes it in the error message."""
    check_input(path, expected)
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: invalid JSON ({error}), expected {expected}.") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: found {values!r:.60}, expected {expected}.")
    return values


def write_json(path: Path | None, values: Any, **options: Any) -> None:
    """Write a JSON file. options: as of `json.dumps`. None is no file."""
    if path:
        with atomic_write(path) as file:
            file.write(json.dumps(values, **options) + "\n")


def check_output(flag: str, path: Path | None, *inputs: Path | None) -> None:
    """Raise, before anything is computed, if a file cannot be written or another flag names it.

    None is no file.
    """
    if path is None:
        return
    _check_is_file(path, f"{flag} {path}")
    _check_writable(flag, path)
    for source in inputs:
        if source is None:
            continue
        is_same_name = source.resolve() == path.resolve()
        if is_same_name or (path.exists() and source.exists() and path.samefile(source)):
            raise UserError(f"{flag} {path} is also the file of another flag. Name a new one.")


def check_output_folder(flag: str, path: Path) -> None:
    """Raise if a folder cannot be created, is not empty, or is the current one.

    The current one cannot be replaced.
    """
    if path.exists():
        is_empty_folder = path.is_dir() and not any(path.iterdir())
        if not is_empty_folder or path.samefile("."):
            raise UserError(
                f"{flag} {path} already exists. "
                f"Name a new folder, or an empty one other than the current."
            )
    if os.path.ismount(path):  # Path.is_mount: on Windows only from Python 3.12 on
        raise UserError(
            f"{flag} {path} is a mount point, which cannot be replaced. Name a folder inside it."
        )
    _check_writable(flag, path)


def _check_writable(flag: str, path: Path) -> None:
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(
            f"{flag} {path}: no file can be written there ({error.strerror})."
        ) from error


def _check_is_file(path: Path, what: str) -> None:
    """Raise if the path is a folder, a device, a pipe or a link to itself."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{what} is a link to itself. Remove it.") from error
    if path.exists() and not path.is_file():
        raise UserError(f"{what} is {_describe_kind(path)}. Expected the name of a file to write.")


def _describe_kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or a pipe"


def sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO]:
    """Open `path` for writing ("w": UTF-8 text, "wb": bytes).

    The file appears when the block ends without an error. A symbolic link is kept, and its target
    is written.
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()
    _check_is_file(path, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with _renamed_to(path) as temporary, temporary.open(mode.replace("w", "x"), **options) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill.

    It is synced and renamed to `path`, which must not exist or be an empty folder.
    overwrite: if there is a folder, it is replaced, all files in it included. A kill between the
    two renames leaves both folders whole, under temporary names, of which that of the replaced one
    ends in .old.
    If the block ends with an error, what was there is there, and nothing else.
    """
    path = path.resolve()
    old = temporary_name(path).with_suffix(".old")
    try:
        with _renamed_to(path) as temporary:
            temporary.mkdir(parents=True)
            yield temporary
            for part in temporary.rglob("*"):
                sync(part)
            sync(temporary)
            with suppress(FileNotFoundError):
                if overwrite:
                    rename(path, old)
                else:
                    path.rmdir()  # an empty folder, which Windows would not replace
    except BaseException:
        if old.exists():
            rename(old, path)
        raise
    if old.exists():
        shutil.rmtree(old)


@contextmanager
def _renamed_to(path: Path) -> Iterator[Path]:
    """Yield a temporary name for a file or folder, which the block creates.

    It is then renamed to `path`, or removed on failure.
    """
    temporary = temporary_name(path)
    try:
        yield temporary
        rename(temporary, path)
    except BaseException as error:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = f"{shutil.disk_usage(path.parent).free / 1e6:,.1f} MB are free in {path.parent}"
        raise UserError(
            f"{path}: the disk is full: {free}. What was there is intact. Free some space."
        ) from error


def temporary_name(path: Path) -> Path:
    """Return a new name beside a path, for what is not complete."""
    return path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")


def rename(temporary: Path, path: Path) -> None:
    """Rename a file or folder, and sync its parent folder to the disk."""
    temporary.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's data, or a folder's list of names, is on the disk."""
    try:
        descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        if path.is_file():
            raise  # Windows and some network file systems cannot sync folders


class FileLocked(UserError):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold a lock file, at most until the process ends.

    If another process holds it, wait, or raise FileLocked.

    The file stays: if it were removed, one process could lock the removed file and another a new
    one.
    """
    _check_is_file(path, str(path))  # opening a pipe would wait
    with path.open("ab") as file:
        if not _lock(file.fileno(), path.parent, wait):
            file.close()  # Windows renames no folder in which a file is open
        yield


def _lock(handle: int, path: Path, wait: bool) -> bool:
    """Lock an open file until this process ends, if the system can; return whether it could.

    If another process has locked it, wait or raise.
    """
    try:
        import fcntl  # not on Windows

        exclusive = fcntl.LOCK_EX
        fcntl.flock(handle, exclusive if wait else exclusive | fcntl.LOCK_NB)
        return True
    except BlockingIOError as error:
        raise FileLocked(
            f"{path} is being written by another process. Wait for it, or stop it."
        ) from error
    except (OSError, ImportError) as error:  # some network file systems have no locks
        log.warning(
            f"{path} cannot be locked ({error}): make sure that no other process writes there."
        )
        return False
