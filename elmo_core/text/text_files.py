"""Text files: UTF-8, plain or gzip, with or without a byte order mark.

A corpus has one sentence per line, tokens separated by spaces.
"""

import codecs
import glob
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo_core.command import command_line
from elmo_core.files import disk, foreign_files
from elmo_core.messages import UserError, join_names, log

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
BLOCK_BYTES = 1 << 22  # in memory at once
MAX_LINE = 1 << 26  # bytes


def text_files(source: str | Path, recursive: bool = False) -> list[Path]:
    """The files of a path, a folder or a glob, sorted, without hidden ones.

    recursive: include a folder's subfolders.
    """
    path = disk.user_path(source)
    if path.is_file():
        return [path]
    pattern = str(path)
    if path.is_dir():
        pattern = str(Path(glob.escape(pattern), "**" if recursive else "*"))
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207
    files = []
    folders = []
    for match in sorted(Path(name) for name in names):
        if match.is_symlink() and not match.exists():
            raise UserError(
                f"{match} is a link to {match.readlink()}, which does not exist. Remove or fix it."
            )
        if match.is_file():
            files.append(match)
        elif match.is_dir():
            folders.append(match.name)
    if folders and "**" not in pattern:
        log.warning(f"{path} has subfolders, which are skipped: {join_names(folders, 3)}.")
    if not files:
        raise UserError(
            f"no file matches {pattern!r}, seen from {Path.cwd()}. "
            "Check it; quote a glob: 'corpus/*'."
        )
    return files


def blocks(path: Path) -> Iterator[str]:
    """Yield the text of a file, plain or gzip, in blocks of whole lines."""
    for line, block, _ in byte_blocks(path, BLOCK_BYTES):
        yield decode(block, path, line)


def byte_blocks(path: Path, size: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield a file, plain or gzip, in blocks of whole lines.

    Of each block: the number of its first line, its bytes, and their size on disk.
    """
    with foreign_files.damage_named(path), foreign_files.open_file(path) as file:
        line = 1
        position = 0
        while True:
            block = file.read(size)
            rest_of_line = file.readline(MAX_LINE)
            block += rest_of_line
            if not block:
                return
            n_lines = block.count(b"\n")
            if len(rest_of_line) == MAX_LINE:
                raise UserError(
                    f"{path}:{line + n_lines}: a line of more than {MAX_LINE:,} bytes. "
                    "Expected shorter lines."
                )
            end = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            yield line, block, end - position
            line += n_lines
            position = end


def decode(data: bytes, path: Path, line: int, encoding: str = "UTF-8") -> str:
    """Decode bytes that begin at a line of a file, without its byte order mark.

    Errors name the line and the cause.
    """
    if b"\0" in data and not data.startswith(UTF16):
        line += data.count(b"\n", 0, data.index(b"\0"))
        raise UserError(
            f"{path}:{line}: a NUL byte. This does not look like a text file. "
            "If it is one: tr -d '\\000'."
        )
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise UserError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is not {encoding}. "
            f"{_encoding_advice(data, encoding)}"
        ) from error
    return text.removeprefix("\ufeff") if line == 1 else text


def _encoding_advice(data: bytes, encoding: str) -> str:
    """Say what to do with bytes that are not in an encoding."""
    likely = _likely_encoding(data)
    if likely == "UTF-8":
        if codecs.lookup(encoding).name != "utf-8":
            return "It looks like UTF-8."
        return (
            "The text is damaged: a character is incomplete. "
            "Create it again, or repair it with iconv -c."
        )
    looks = f"It looks like {likely}. " if likely else ""
    advice = (
        f"{looks}Save it as UTF-8: in an editor, in Excel as CSV UTF-8, "
        f"or with iconv -f {likely or 'NAME'} -t utf-8."
    )
    if likely != "UTF-16":
        command = command_line("preprocess.py text")
        advice += f" Only the text of `{command}` and `pretrain` may have another `encoding`."
    return advice


def _likely_encoding(data: bytes) -> str | None:
    """Recognise an encoding.

    UTF-16 by its mark, UTF-8 by its characters, most of them whole, GB18030 by its pairs of bytes.
    """
    if data.startswith(UTF16):
        return "UTF-16"
    text = data.decode("utf-8", "replace")
    n_not_ascii = sum(not character.isascii() for character in text)
    if n_not_ascii > 4 * text.count("\ufffd"):
        return "UTF-8"
    try:
        data.decode("gb18030")
    except UnicodeDecodeError:
        return None
    n_pairs = len(re.findall(rb"[\x80-\xff]{2}", data))
    # like latin-1's accents
    n_alone = len(re.findall(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])", data))
    return "GB18030" if n_pairs > n_alone else None


def parse_json(text: str) -> Any:
    """Parse JSON; raise a ValueError if it is none. Lone surrogates become U+FFFD."""
    try:
        return _without_surrogates(json.loads(text))
    except RecursionError as error:
        raise ValueError("brackets within brackets, more than a thousand") from error


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {
            _without_surrogates(name): _without_surrogates(item) for name, item in value.items()
        }
    return value


def split_lines(text: str) -> list[str]:
    """Split at line feeds only; `splitlines` also splits at other characters."""
    return text.removesuffix("\n").split("\n") if text else []


def read_lines(path: str | Path | None) -> Iterator[str]:
    """Yield the lines of a file, or of standard input, without line ends."""
    if path is None:
        is_open = sys.stdin is not None  # `<&-` closes it
        for number, line in enumerate(sys.stdin.buffer if is_open else (), 1):
            yield decode(line, Path("standard input"), number).removesuffix("\n").removesuffix("\r")
        return
    for text in blocks(Path(path)):
        for line in split_lines(text):
            yield line.removesuffix("\r")


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """Yield the tokens of every line of a file.

    A blank line is an empty sentence, which keeps the number of lines.
    """
    for text in blocks(Path(path)):
        for line in split_lines(text):
            yield line.split()
