"""Archives from elsewhere: zip, and tar however compressed. What could leave the folder or fill the disk is refused."""

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

MEMBERS = 10_000  # an archive of weights has fewer
RATIO = 50  # weights, and even vocabularies, shrink to more than one in so many
SLACK = 1 << 20  # bytes, beyond that ratio


class Damaged(UserError):
    """Fetching it again may help."""


@contextmanager
def unpacked(path: Path, beside: Path) -> Iterator[Path]:
    """Yield a temporary folder in `beside` with an archive's files; a path that is no archive as it is."""
    if not path.is_file() or not (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=beside) as folder:
        unpack(path, Path(folder))
        yield Path(folder)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive into a folder."""
    left = min(RATIO * archive.stat().st_size + SLACK, shutil.disk_usage(folder).free)
    try:
        for count, (name, size, is_file, file) in enumerate(_members(archive), 1):
            path = PurePosixPath(name.replace("\\", "/"))
            left -= size
            fault = ""
            if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not path.parts:
                fault = f"{name!r} in it lies outside of the folder that it is unpacked to"
            elif not is_file:
                fault = f"{name!r} in it is a link or a device"
            elif (folder / path).exists() or any((folder / parent).is_file() for parent in path.parents):
                fault = f"it holds {name!r} twice"
            elif count > MEMBERS:
                fault = f"it has more than {MEMBERS:,} files"
            elif left < 0:
                fault = f"it would have more bytes than weights have, or than are free in {folder.parent}"
            if fault:
                raise UserError(f"{archive} cannot be unpacked: {fault}.")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with file, (folder / path).open("xb") as output:
                shutil.copyfileobj(file, output)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the disk's
            raise
        raise Damaged(f"{archive} cannot be unpacked ({error}). It is truncated or damaged: fetch it again.") from error


def _members(archive: Path) -> Iterator[tuple[str, int, bool, IO[bytes]]]:
    """Yield whatever is in an archive except folders: name, size, whether it is a file, and its content."""
    if zipfile.is_zipfile(archive):
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
