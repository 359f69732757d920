"""Text files: UTF-8, plain or gzip, with or without a byte order mark; one sentence per line, tokens separated by spaces."""

import codecs
import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo_core.files import disk, streams
from elmo_core.messages import UserError, join_names, log

UTF16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
BIG5 = ("big5", "cp950", "big5-hkscs")  # cp950 is that of Windows
BLOCK_BYTES = 1 << 22  # in memory at once
MAX_ENTRIES = 2_500_000  # of a dictionary, which takes up to 200 bytes each in memory


class NotUTF8(UserError):
    """Raised for text in another encoding."""

    likely: str | None = None  # the encoding that it seems to have


def text_files(source: str | Path, recursive: bool = False) -> list[Path]:
    """The files of a path, a folder or a glob, sorted, without hidden ones. recursive: include a folder's subfolders."""
    path = Path(source)
    with suppress(RuntimeError):  # no such user, hence no such file
        path = path.expanduser()
    if path.is_file():
        return [path]
    pattern = str(Path(glob.escape(str(path)), "**" if recursive else "*") if path.is_dir() else path)
    matches = sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
    files = [match for match in matches if match.is_file()]
    if dangling := [match for match in matches if match.is_symlink() and not match.exists()]:
        raise UserError(f"{dangling[0]} is a link to {dangling[0].readlink()}, which does not exist. Remove or fix it.")
    if path.is_dir() and not recursive and (folders := [match.name for match in matches if match.is_dir()]):
        log.warning(f"{path} has subfolders, which are skipped: {join_names(folders, 3)}.")
    if not files:
        raise UserError(f"no file matches {pattern!r}, seen from {Path.cwd()}. Check it; quote a glob: 'corpus/*'.")
    return files


def blocks(path: Path, encoding: str = "UTF-8") -> Iterator[str]:
    """Yield the text of a file, plain or gzip, in blocks of whole lines."""
    line = 1
    for block, _ in byte_blocks(path, BLOCK_BYTES):
        yield decode(block, path, line, encoding)
        line += block.count(b"\n")


def byte_blocks(path: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes of a file, plain or gzip, in blocks of whole lines, each with its size on disk."""
    with streams.damage_named(path), streams.open_file(path) as file:
        position = 0
        while block := file.read(size) + file.readline():
            end = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            yield block, end - position
            position = end


def decode(data: bytes, path: Path, line: int, encoding: str = "UTF-8") -> str:
    """Decode bytes that begin at a line of a file, without its byte order mark. Errors name the line and the cause."""
    if b"\0" in data and not data.startswith(UTF16):
        line += data.count(b"\n", 0, data.index(b"\0"))
        raise UserError(f"{path}:{line}: a NUL byte. This does not look like a text file. If it is one: tr -d '\\000'.")
    try:
        text = data.decode(encoding)
        return text.removeprefix("\ufeff") if line == 1 else text
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        if codecs.lookup(encoding).name == "utf-8" and _is_damaged_utf8(data):
            raise UserError(
                f"{path}:{line}: the UTF-8 text is damaged: a character is incomplete. Create or download it again."
            ) from error
        likely = None if data.startswith(UTF16) else _likely_encoding(data, encoding)
        name = "UTF-16" if data.startswith(UTF16) else likely
        looks = f"It looks like {name}. " if name else ""
        advice = f"{looks}Convert it with iconv -f {name or 'NAME'} -t utf-8."
        not_utf8 = NotUTF8(f"{path}:{line}: byte 0x{data[error.start]:02x} is not {encoding}. {advice}")
        not_utf8.likely = likely
        raise not_utf8 from error


def _likely_encoding(data: bytes, wrong: str) -> str | None:
    """Guess the encoding of bytes that are not in the encoding `wrong`."""
    alone = len(re.findall(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])", data))  # like latin-1 accents
    paired = len(re.findall(rb"[\x80-\xff]{2}", data))  # like most Chinese characters
    chinese = ("gb18030", *BIG5) if _is_simplified(data) else (*BIG5, "gb18030")
    for name in ("utf-8", *(chinese if paired > alone else ("latin-1",))):
        with suppress(UnicodeDecodeError):
            data.decode(name)
            if codecs.lookup(name) != codecs.lookup(wrong):
                return name
    return None


def _is_damaged_utf8(data: bytes) -> bool:
    """Whether most bytes beyond ASCII are whole characters of UTF-8, which they are in no other encoding."""
    text = data.decode("utf-8", "replace")
    return sum(not character.isascii() for character in text) > 4 * text.count("\ufffd")


def _is_simplified(data: bytes) -> bool:
    """Whether bytes are simplified Chinese. In gb18030 they are then characters of GB2312; those of Big5 often are not."""
    characters = [character for character in data.decode("gb18030", "replace") if not character.isascii()]
    return len("".join(characters).encode("gb2312", "ignore")) > 1.8 * len(characters)


def parse_json(text: str) -> Any:
    """Parse JSON. Lone surrogates in the strings of objects become U+FFFD."""

    def whole(value: Any) -> Any:
        is_text = isinstance(value, str)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if is_text else value

    return disk.parse_json(text, object_pairs_hook=lambda pairs: {name: whole(value) for name, value in pairs})


def write_table(path: Path | None, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as tab-separated columns. White space in a value becomes a space. None is no file."""
    if path:
        with disk.atomic_write(path) as file:
            file.writelines("\t".join(" ".join(str(value).split()) for value in row) + "\n" for row in rows)


def split_lines(text: str) -> list[str]:
    lines = text.split("\n")  # splitlines would also split at characters that are white space within a line
    return lines if lines[-1] else lines[:-1]


def read_lines(path: str | Path, encoding: str = "UTF-8") -> Iterator[str]:
    """Yield the lines of a file, without line ends."""
    for text in blocks(Path(path), encoding):
        for line in split_lines(text):
            yield line.removesuffix("\r")


def read_entries(path: str | Path) -> list[str]:
    """Read the lines of a vocabulary or another dictionary."""
    lines: list[str] = []
    for text in blocks(Path(path)):
        lines += split_lines(text.replace("\r\n", "\n"))
        if len(lines) > MAX_ENTRIES:
            raise UserError(f"{path} has more than {MAX_ENTRIES:,} lines. No vocabulary has so many.")
    return lines


def line_groups(path: Path | None) -> Iterator[list[str]]:
    """Yield lists of lines of a file or of standard input, without line ends; each list holds all that have arrived."""
    for text in blocks(path) if path else _stdin_blocks():
        yield [line.removesuffix("\r") for line in split_lines(text)]


def _stdin_blocks() -> Iterator[str]:
    """Yield the input that has arrived at standard input, in blocks of whole lines. Waits only if there is nothing."""
    rest, line, data = b"", 1, b"\n"
    while data:
        data = sys.stdin.buffer.read1(BLOCK_BYTES)
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        if block := b"\n".join([*lines, b""] if data else lines):
            yield decode(block, Path("standard input"), line)
            line += block.count(b"\n")


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """Yield the tokens of every line of a file. A blank line is an empty sentence, which keeps the number of lines."""
    for text in blocks(Path(path)):
        yield from map(str.split, split_lines(text))
