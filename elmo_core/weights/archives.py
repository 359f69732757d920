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
BLOCK = 1 << 20


class Damaged(UserError):
    """Fetching it again may help."""


def is_archive(path: Path) -> bool:
    return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))


@contextmanager
def unpacked(path: Path, beside: Path) -> Iterator[Path]:
    """The folder with an archive's files, a temporary one in the folder `beside`; a path that is no archive as it is."""
    if not is_archive(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=beside) as folder:
        unpack(path, Path(folder))
        yield Path(folder)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive into a folder."""
    left = min(RATIO * archive.stat().st_size + SLACK, shutil.disk_usage(folder).free)
    try:
        for count, (name, file) in enumerate(_members(archive), 1):
            if count > MEMBERS:
                raise UserError(f"{archive} cannot be unpacked: it has more than {MEMBERS:,} files.")
            target = _place(archive, folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with file, target.open("xb") as output:
                while block := file.read(BLOCK):
                    left -= len(block)
                    if left < 0:
                        raise UserError(
                            f"{archive} cannot be unpacked: it would have more bytes than weights have, or than are free in "
                            f"{folder.parent}."
                        )
                    output.write(block)
    except FileExistsError as error:
        raise UserError(f"{archive} cannot be unpacked: it holds {error.filename} twice.") from error
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno is not None:  # the disk's
            raise
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> Damaged:
    return Damaged(f"{archive} cannot be unpacked ({error}). It is truncated or damaged: fetch it again.")


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The names and contents of the files in an archive, one after the other."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                mode = stat.S_IFMT(info.external_attr >> 16)
                if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise UserError(f"{archive} cannot be unpacked: {info.filename!r} in it is a link or a device.")
                if not info.is_dir():
                    yield info.filename, opened.open(info)
        return
    with tarfile.open(archive) as opened:
        for info in opened:
            if not (info.isfile() or info.isdir()):
                raise UserError(f"{archive} cannot be unpacked: {info.name!r} in it is a link or a device.")
            if info.isfile():
                yield info.name, opened.extractfile(info)


def _place(archive: Path, folder: Path, name: str) -> Path:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not path.parts:
        raise UserError(
            f"{archive} cannot be unpacked: {name!r} in it lies outside of the folder that it is unpacked to."
        )
    return folder / path
