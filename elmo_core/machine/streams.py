"""Files for reading: gzip, bzip2 and xz are recognised by their first bytes and unpacked, up to a bound."""

import bz2
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from elmo_core.machine.messages import UserError

VARIABLE, RATIO = "ELMO_MAX_RATIO", 20  # unpacked to packed size; text and weights compress less
SLACK = 1 << 26  # bytes that any file may hold beyond that
BLOCK = 1 << 16
FORMATS: dict[bytes, Callable[[], Any]] = {  # by pattern of the first bytes
    rb"\x1f\x8b": lambda: zlib.decompressobj(31),
    rb"BZh[1-9]1A": bz2.BZ2Decompressor,
    rb"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(memlimit=1 << 28),
}


class DamagedFile(UserError):
    """A truncated or damaged file; downloading it again may help."""


def max_ratio(default: int = RATIO) -> int:
    """How many times its size on disk a compressed file may hold."""
    text = os.environ.get(VARIABLE) or str(default)
    if not (text.isdecimal() and 0 < len(text) < 10):
        raise UserError(f"{VARIABLE} is {text!r:.80}, expected a whole number.")
    return int(text)


def check_size(size: float, packed: int, what: str, ratio: int = RATIO, slack: int = SLACK) -> None:
    """Raise if something compressed to `packed` bytes takes more than these can hold."""
    ratio = max_ratio(ratio)
    if size > ratio * packed + slack:
        raise UserError(
            f"{what} unpacks to more than {slack >> 20} MB and {ratio} times its {packed:,} bytes on disk. If you trust it, "
            f"set the environment variable {VARIABLE} to a larger number than {ratio}."
        )


def open_file(path: Path) -> IO[bytes]:
    """Open a file, unpacking it whatever its name. Reading it raises if it is damaged or unpacks to too much."""
    file = path.open("rb")
    begin = file.read(6)
    file.seek(0)
    make = next((make for pattern, make in FORMATS.items() if re.match(pattern, begin)), None)
    return io.BufferedReader(Unpacked(file, path, make), BLOCK) if make else file


class Unpacked(io.RawIOBase):
    """The bytes of a compressed file, which may have several parts, one after another."""

    def __init__(self, file: IO[bytes], path: Path, make: Callable[[], Any]):
        self._file, self._path, self._make = file, path, make
        self._part, self._input, self._length = None, b"", 0
        self._size = path.stat().st_size

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:
        try:
            data = self._unpack(len(buffer))
        except (zlib.error, lzma.LZMAError, EOFError, OSError) as error:
            if getattr(error, "errno", None) is not None:  # an error of the disk
                raise
            raise DamagedFile(f"{self._path}: damaged or incomplete ({error}). Download or create it again.") from error
        self._length += len(data)
        check_size(self._length, self._size, str(self._path))
        buffer[: len(data)] = data
        return len(data)

    def _unpack(self, size: int) -> bytes:
        """Some bytes, at most `size`; none at the end of the file."""
        data = b""
        while not data:
            if not self._part:
                self._input = (self._input or self._file.read(BLOCK)).lstrip(b"\0")  # padding
                if not self._input:
                    return b""
                self._part = self._make()
            data = self._part.decompress(self._input, size)
            self._input = getattr(self._part, "unconsumed_tail", b"")
            if self._part.eof:
                self._input, self._part = self._part.unused_data, None
            elif not data and not self._input:
                self._input = self._file.read(BLOCK)
                if not self._input:
                    raise EOFError("it ends too early")
        return data
