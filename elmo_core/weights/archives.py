"""Untrusted archives: zip, and tar, plain or compressed. They cannot write outside the folder or fill memory or disk."""

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from elmo_core.files.streams import check_size, damage_named, open_file
from elmo_core.messages import UserError

MAX_FILES = 10_000  # archives of weights have fewer
MAX_NAME = 255  # bytes
MAX_HEADERS = {b"g": 128, **dict.fromkeys((b"L", b"K", b"x", b"X"), 1 << 12)}  # bytes, by type


class Header(tarfile.TarInfo):
    """A tar file's header, which cannot declare a name of gigabytes."""

    @classmethod
    def frombuf(cls, *arguments) -> "Header":
        header = super().frombuf(*arguments)
        if header.size > MAX_HEADERS.get(header.type, header.size):
            raise tarfile.ReadError(f"a name or header of {header.size:,} bytes")
        return header


@contextmanager
def unpacked(path: Path, parent: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `parent` with an archive's files, or the path itself if it is not an archive."""
    if not path.is_file() or not (_is_zip(path) or _is_tar(path)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=parent) as folder:
        unpack(path, Path(folder))
        try:
            yield Path(folder)
        except UserError as error:  # which names a file in the temporary folder
            raise UserError(str(error).replace(folder, str(path))) from error


def _is_zip(path: Path) -> bool:
    """Whether a file begins as zip archives do, even if it is truncated."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4"


def _is_tar(path: Path) -> bool:
    """Whether a file begins with a tar file's header, which has a checksum."""
    with open_file(path) as file:
        try:
            tarfile.TarInfo.frombuf(file.read(tarfile.BLOCKSIZE), "utf-8", "replace")
        except tarfile.TarError:
            return False
        return True


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive into a folder."""
    packed, bytes_free, total = archive.stat().st_size, shutil.disk_usage(folder).free, 0
    with damage_named(archive):
        for count, (name, size, is_file, file) in enumerate(_members(archive), 1):
            path = PurePosixPath(name.replace("\\", "/"))
            total += size
            check_size(total, packed, str(archive))
            fault = ""
            if count > MAX_FILES:
                fault = f"it has more than {MAX_FILES:,} files"
            elif is_file is None:  # a folder
                continue
            elif len(os.fsencode(name)) > MAX_NAME:
                fault = f"the name {name!r:.80} is too long"
            elif path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not path.parts:
                fault = f"{name!r:.200} would be outside the folder"
            elif not is_file:
                fault = f"{name!r:.200} is a link, a pipe, a device, or compressed in a rare way"
            elif (folder / path).exists() or any((folder / parent).is_file() for parent in path.parents):
                fault = f"it contains {name!r:.200} twice"
            elif total > bytes_free:
                fault = f"its files take {total:,} bytes, but only {bytes_free:,} are free in {folder.parent}"
            if fault:
                raise UserError(f"{archive} cannot be unpacked: {fault}.")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with file, (folder / path).open("xb") as output:
                shutil.copyfileobj(file, output)


def _members(archive: Path) -> Iterator[tuple[str, int, bool | None, IO[bytes] | None]]:
    """Yield the members of an archive: name, size, whether it is a regular file (None: a folder), and its content."""
    if _is_zip(archive):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                is_file = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
                is_file &= info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                content = opened.open(info) if is_file else None
                yield info.filename, info.file_size, None if info.is_dir() else is_file, content
        return
    with open_file(archive) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=Header) as opened:
        for info in opened:
            content = opened.extractfile(info) if info.isfile() else None
            yield info.name, info.size, None if info.isdir() else info.isfile(), content
