"""Text files: UTF-8, plain or gzip, with or without a byte order mark; sentences as lines, tokens split by white space."""

import codecs
import glob
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from elmo_core.machine.messages import UserError, join_names, log

FOREIGN_FORMS = {b"\x1f\x8b": "gzip", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}  # by a file's first bytes
BLOCK = 1 << 22  # bytes of text in memory at once


class NotUTF8(UserError):
    """Text in another encoding, `likely` this one."""

    likely: str | None = None


def text_files(source: str | Path, recursive: bool = False) -> list[Path]:
    """The files of a path, a folder or a glob, sorted, without hidden ones.

    recursive: of a folder, also the files in all folders below it.
    """
    path = Path(source)
    with suppress(RuntimeError):  # no such user, hence no such file
        path = path.expanduser()
    if path.is_file():
        return [path]
    pattern = str(Path(glob.escape(str(path)), "**" if recursive else "*") if path.is_dir() else path)
    found = sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
    files = [match for match in found if match.is_file()]
    if dangling := [match for match in found if match.is_symlink() and not match.exists()]:
        raise UserError(f"{dangling[0]} is a link to {dangling[0].readlink()}, which does not exist. Remove or fix it.")
    if path.is_dir() and not recursive and (folders := [match.name for match in found if match.is_dir()]):
        log.warning(f"{path} has folders in it, which are skipped: {join_names(folders, 3)}.")
    if not files:
        raise UserError(
            f"no file matches {pattern!r}, seen from {Path.cwd()}. Check the path; quote a glob: 'corpus/*'."
        )
    return files


def blocks(path: Path, errors: str = "strict", encoding: str = "UTF-8") -> Iterator[str]:
    """The text of a file, plain or .gz, in pieces of whole lines. errors: as in `bytes.decode`."""
    line = 1
    for block, _ in byte_blocks(path, BLOCK):
        text = decode(block, path, line, encoding, errors)
        yield text.removeprefix("\ufeff") if line == 1 else text
        line += block.count(b"\n")


def byte_blocks(path: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """The bytes of a file, plain or .gz, in pieces of whole lines, each with its size on the disk."""
    try:
        with _opened(path) as file:
            position = 0
            while block := file.read(size) + file.readline():
                end = os.lseek(file.fileno(), 0, os.SEEK_CUR)
                yield block, end - position
                position = end
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged or incomplete ({error}). Fetch or make it again.") from error


def decode(data: bytes, path: Path, line: int, encoding: str = "UTF-8", errors: str = "strict") -> str:
    """Bytes that begin with a line of a file as text, or an error that names the line and guesses the encoding."""
    if b"\0" in data and foreign_form(data) != "UTF-16":
        line += data.count(b"\n", 0, data.index(b"\0"))
        raise UserError(f"{path}:{line}: a NUL byte. This does not look like a text file. If it is one: tr -d '\\000'.")
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        likely = _likely_encoding(data, encoding)
        refused = NotUTF8(f"{path}:{line}: byte 0x{data[error.start]:02x} is not {encoding}. {_advice(data, likely)}")
        refused.likely = likely
        raise refused from error


def _likely_encoding(data: bytes, wrong: str) -> str | None:
    """The encoding of bytes that are not in the encoding they were read in, if it can be told."""
    if foreign_form(data):
        return None
    alone = len(re.findall(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])", data))  # as accents are in latin-1
    paired = len(re.findall(rb"[\x80-\xff]{2}", data))  # as most Chinese characters are
    for name in ("utf-8", "gb18030", "big5") if paired > alone else ("utf-8", "latin-1"):
        with suppress(UnicodeDecodeError):
            data.decode(name)
            if codecs.lookup(name) != codecs.lookup(wrong):
                return name
    return None


def _advice(data: bytes, likely: str | None) -> str:
    if foreign_form(data) == "UTF-16":
        return "The file looks like UTF-16. Convert it with iconv -f utf-16 -t utf-8."
    looks = f"It looks like {likely}. " if likely else ""
    name = likely or "NAME"
    return f"{looks}Convert it with iconv -f {name} -t utf-8, or read it by `preprocess.py text --encoding {name}`."


def _opened(path: Path) -> IO[bytes]:
    """A file, unpacked if it begins as gzip does, whatever its name."""
    file = path.open("rb")
    if foreign_form(file.read(2)) == "gzip":
        file.close()
        return io.BufferedReader(gzip.GzipFile(path, "rb"))
    file.seek(0)
    return file


def parse_json(text: str) -> Any:
    """The value of JSON. Half an emoji, which strings of objects may hold, becomes U+FFFD."""

    def whole(value: Any) -> Any:
        is_text = isinstance(value, str)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if is_text else value

    return json.loads(text, object_pairs_hook=lambda pairs: {name: whole(value) for name, value in pairs})


def foreign_form(beginning: bytes) -> str | None:
    """The format that a file's first bytes announce, if it is not plain text."""
    return next((form for mark, form in FOREIGN_FORMS.items() if beginning.startswith(mark)), None)


def split_lines(text: str) -> list[str]:
    found = text.split("\n")  # splitlines would also split at characters that are white space within a line
    return found if found[-1] else found[:-1]


def read_lines(path: str | Path, errors: str = "strict", encoding: str = "UTF-8") -> Iterator[str]:
    """The lines of a file, without their ends."""
    for text in blocks(Path(path), errors, encoding):
        for line in split_lines(text):
            yield line.removesuffix("\r")


def stdin_lines() -> Iterator[str]:
    """The lines of standard input, without their ends, as they come."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        yield decode(line, Path("standard input"), number).removeprefix("\ufeff").rstrip("\r\n")


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """The tokens of every line of a file. A blank line is an empty sentence, so that the count of lines is kept."""
    for text in blocks(Path(path)):
        yield from map(str.split, split_lines(text))
