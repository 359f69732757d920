"""Files that appear whole or not at all, outputs checked before anything is computed, locks."""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from elmo_core.machine.messages import UserError, log

TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<id>[0-9a-f]{16})\.tmp")


def check_input(path: Path, expected: str, flag: str = "") -> None:
    """Refuse a path that is not a file. expected: what should be there, for the message."""
    if not path.is_file():
        found = f"this is {_describe_kind(path)}" if path.exists() else "there is no such file"
        raise UserError(f"{flag} {path}: {found}, expected {expected}.".lstrip())


def read_json(path: Path, expected: str) -> dict:
    """The object in a JSON file. expected: what should be there, for the message."""
    check_input(path, expected)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: no valid JSON ({error}), expected {expected}.") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: found {values!r:.60}, expected {expected}.")
    return values


def check_output(flag: str, path: Path, *inputs: Path | None) -> None:
    """Refuse, before anything is computed, a file that could not be written in the end, or that is also an input."""
    _check_is_file(path, f"{flag} {path}")
    _check_writable(flag, path)
    if any(path.exists() and source and source.exists() and path.samefile(source) for source in inputs):
        raise UserError(f"{flag} {path} is also an input. Name another file.")


def check_output_folder(flag: str, path: Path) -> None:
    """Refuse a folder that cannot be made, is not empty, or is the current one, which cannot be replaced."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir()) and not path.samefile(".")):
        raise UserError(f"{flag} {path} exists already. Name a new folder, or an empty one that is not the current.")
    if path.is_mount():
        raise UserError(f"{flag} {path} is a mount point, which cannot be replaced. Name a folder in it.")
    _check_writable(flag, path)


def _check_writable(flag: str, path: Path) -> None:
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{flag} {path}: no file can be written there ({error.strerror}).") from error


def _check_is_file(path: Path, what: str) -> None:
    """Refuse to write to a folder, a device or a pipe."""
    if path.exists() and not path.is_file():
        raise UserError(f"{what} is {_describe_kind(path)}. Expected the name of a file to write.")


def _describe_kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or a pipe"


@contextmanager
def atomic_write(path: str | Path, mode: str = "w", durable: bool = True) -> Iterator[IO]:
    """Open `path` to write ("w": UTF-8 text, "wb": bytes). The file appears once the block has ended without error.

    A link stays, and the file that it leads to is written.
    durable: wait until it is on the disk; otherwise a power failure may damage it.
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()
    _check_is_file(path, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path, os.urandom(8))
    with cleanup_on_failure(path, [temporary]):
        with create(temporary, mode, durable) as file:
            yield file
        rename(temporary, path)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, under a temporary name. It appears as `path` once the block has ended without error."""
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def temporary_name(path: Path, save_id: bytes) -> Path:
    return path.with_name(f".{path.name}.{save_id.hex()}.tmp")


def temporaries(folder: Path) -> list[tuple[Path, re.Match]]:
    found = ((path, TEMPORARY.fullmatch(path.name)) for path in folder.iterdir())
    return [(path, parts) for path, parts in found if parts]


@contextmanager
def create(temporary: Path, mode: str, durable: bool = True) -> Iterator[IO]:
    """Create a new file. If `durable`, its content is on the disk when the block ends."""
    with temporary.open(mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())


def rename(temporary: Path, path: Path) -> None:
    """Give a file or folder its name, for good: its folder is on the disk, too."""
    temporary.replace(path)
    with suppress(OSError):  # some network file systems refuse
        number = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def cleanup_on_failure(path: Path, temporaries: Collection[Path]) -> Iterator[None]:
    """Remove the temporary files if the block fails. If the disk is full, the error says how much is free."""
    try:
        yield
    except BaseException as error:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = f"{shutil.disk_usage(path.parent).free / 1e6:,.1f} MB are free in {path.parent}"
        raise UserError(
            f"{path} could not be written, the disk is full: {free}. What was there before is intact. Make room or choose "
            "another folder."
        ) from error


class FileLocked(UserError):
    """Another process writes there."""


def lock(handle: int, path: Path, wait: bool = False) -> None:
    """Refuse, or wait for, an open file or folder that another process has locked.

    The lock ends with the process, however it ends.
    """
    try:
        import fcntl  # which Windows lacks

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise FileLocked(f"{path} is being written by another process. Wait until it has ended, or end it.") from error
    except (OSError, ImportError) as error:  # some network file systems have no locks
        log.warning(f"{path} cannot be locked ({error}): make sure that no other process writes there.")
