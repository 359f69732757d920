"""Files for reading: gzip, bzip2 and xz are recognised by their first bytes and unpacked, up to a bound."""

import bz2
import errno
import gzip
import io
import lzma
import os
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from elmo_core.messages import UserError

VARIABLE, RATIO = "ELMO_MAX_RATIO", 20  # unpacked to packed size; text and weights compress less
SLACK = 1 << 26  # bytes that any file may hold beyond that
DAMAGE = None, errno.EINVAL  # numbers of errors that are not the disk's: none, and that of an impossible offset
FORMATS = {rb"\x1f\x8b": gzip.open, rb"BZh[1-9]1A": bz2.open, rb"\xfd7zXZ\0": lzma.open}  # by their first bytes


class DamagedFile(UserError):
    """A truncated or damaged file; downloading it again may help."""


@contextmanager
def damage_named(what: object, advice: str = "Download or create it again.") -> Iterator[None]:
    """A block that reads a file, in which damage can raise anything: turn that into a DamagedFile that names it."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in DAMAGE:
            raise
        is_clear = isinstance(error, OSError | ValueError | EOFError | pickle.UnpicklingError)
        reason = str(error) if is_clear else f"{type(error).__name__} {error}"
        raise DamagedFile(f"{what} cannot be read: it is truncated or damaged ({reason}). {advice}") from error


def check_size(size: float, packed: int, what: str, ratio: int = RATIO) -> None:
    """Raise if something compressed to `packed` bytes takes more than these can hold. ratio: unless VARIABLE is set."""
    text = os.environ.get(VARIABLE) or str(ratio)
    if not (text.isdecimal() and 0 < len(text) < 10):
        raise UserError(f"{VARIABLE} is {text!r:.80}, expected a whole number.")
    if size > int(text) * packed + SLACK:
        raise UserError(
            f"{what} unpacks to more than {SLACK >> 20} MB and {text} times its {packed:,} bytes on disk. If you trust it, "
            f"set the environment variable {VARIABLE} to a larger number than {text}."
        )


def open_file(path: Path) -> IO[bytes]:
    """Open a file, unpacking it whatever its name. Reading it raises if it is damaged or unpacks to too much."""
    file = path.open("rb")
    begin = file.read(6)
    file.seek(0)
    kind = next((kind for pattern, kind in FORMATS.items() if re.match(pattern, begin)), None)
    return io.BufferedReader(Unpacked(path, file, kind(file)), 1 << 16) if kind else file


class Unpacked(io.RawIOBase):
    """The bytes of a compressed file, up to the bound. content: all of them."""

    def __init__(self, path: Path, file: IO[bytes], content: IO[bytes]):
        self._path, self._file, self._content, self._length = path, file, content, 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:
        with damage_named(self._path):
            n = self._content.readinto(buffer)
        self._length += n
        check_size(self._length, os.fstat(self.fileno()).st_size, str(self._path))
        return n
