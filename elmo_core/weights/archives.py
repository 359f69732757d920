"""Untrusted archives: zip, and tar with any compression. They cannot write outside the folder or fill the disk."""

import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from elmo_core.machine.messages import UserError

MAX_FILES = 10_000  # archives of weights have fewer
MAX_RATIO = 50  # unpacked to packed size: weights and vocabularies compress less
SLACK = 1 << 20  # bytes allowed beyond that ratio


class DamagedArchive(UserError):
    """A truncated or damaged archive; downloading it again may help."""


@contextmanager
def unpacked(path: Path, parent: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `parent` with an archive's files, or the path itself if it is not an archive."""
    if not path.is_file() or not (_is_zip(path) or tarfile.is_tarfile(path)):
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


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive into a folder."""
    bytes_left = min(MAX_RATIO * archive.stat().st_size + SLACK, shutil.disk_usage(folder).free)
    try:
        for count, (name, size, is_file, file) in enumerate(_members(archive), 1):
            path = PurePosixPath(name.replace("\\", "/"))
            bytes_left -= size
            fault = ""
            if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not path.parts:
                fault = f"{name!r} would be outside the folder"
            elif not is_file:
                fault = f"{name!r} is a link, a pipe or a device"
            elif (folder / path).exists() or any((folder / parent).is_file() for parent in path.parents):
                fault = f"it contains {name!r} twice"
            elif count > MAX_FILES:
                fault = f"it has more than {MAX_FILES:,} files"
            elif bytes_left < 0:
                fault = f"its files are larger than weights compress to, or than the free space in {folder.parent}"
            if fault:
                raise UserError(f"{archive} cannot be unpacked: {fault}.")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with file, (folder / path).open("xb") as output:
                shutil.copyfileobj(file, output)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # an error of the disk
            raise
        raise DamagedArchive(f"{archive} cannot be unpacked ({error}). It is damaged: download it again.") from error


def _members(archive: Path) -> Iterator[tuple[str, int, bool, IO[bytes]]]:
    """Yield everything in an archive except folders: name, size, whether it is a regular file, and its content."""
    if _is_zip(archive):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir():
                    is_file = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
                    yield info.filename, info.file_size, is_file, opened.open(info)
        return
    with tarfile.open(archive) as opened:
        for info in opened:
            if not info.isdir():
                yield info.name, info.size, info.isfile(), opened.extractfile(info) if info.isfile() else None
