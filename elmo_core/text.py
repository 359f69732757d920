"""Text files: UTF-8, plain or gzip, with or without a byte order mark, one sentence a line, tokens apart by white space."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from elmo_core.runtime import UserError

FOREIGN_FORMS = {b"\x1f\x8b": "gzip", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}  # by a file's first bytes
BLOCK = 1 << 22  # bytes of text in hand at once


class NotUTF8(UserError):
    """Text in another encoding, perhaps one of a byte a character."""


def blocks(path: Path, errors: str = "strict", encoding: str = "utf-8") -> Iterator[str]:
    """The text of a file, plain or .gz, in pieces of whole lines. errors: as in `bytes.decode`."""
    line = 1
    try:
        with _opened(path) as file:
            while block := file.read(BLOCK) + file.readline():
                try:
                    text = block.decode(encoding, errors)
                except UnicodeDecodeError as error:
                    line += block.count(b"\n", 0, error.start)
                    kind = UserError if foreign_form(block) else NotUTF8
                    raise kind(
                        f"{path}:{line}: byte 0x{block[error.start]:02x} is not UTF-8. Convert the file, for instance "
                        "with `preprocess.py --encoding`."
                    ) from error
                yield text.removeprefix("\ufeff") if line == 1 else text
                line += block.count(b"\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged or incomplete ({error}). Fetch or make it again.") from error


def _opened(path: Path) -> IO[bytes]:
    """A file, unpacked if it begins as gzip does, whatever its name."""
    file = path.open("rb")
    if foreign_form(file.read(2)) == "gzip":
        file.close()
        return gzip.open(path, "rb")
    file.seek(0)
    return file


def foreign_form(beginning: bytes) -> str | None:
    """What a file's first bytes say that it is, if it is not plain text."""
    return next((form for mark, form in FOREIGN_FORMS.items() if beginning.startswith(mark)), None)


def split_lines(text: str) -> list[str]:
    found = text.split("\n")  # splitlines would also split at characters that are white space within a line
    return found if found[-1] else found[:-1]


def read_lines(path: str | Path, errors: str = "strict", encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file, without their ends."""
    for text in blocks(Path(path), errors, encoding):
        for line in split_lines(text):
            yield line.removesuffix("\r")


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """The tokens of every line of a file. A blank line is an empty sentence, so that the count of lines is kept."""
    for text in blocks(Path(path)):
        yield from map(str.split, split_lines(text))
