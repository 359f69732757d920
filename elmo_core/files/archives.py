"""Archives of others, zip and tar: unpacked whole or not at all."""

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo_core.files.foreign_files import damage_named
from elmo_core.messages import UserError


@contextmanager
def unpacked(path: Path, parent: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `parent` with the files of a zip or tar.

    If the file is neither, yield its path.
    """
    with damage_named(path):
        kind = _kind_of_archive(path)
    if not kind:
        yield path
        return
    if kind == "tar" and not hasattr(tarfile, "data_filter"):
        raise UserError(
            f"{path}: unpacking needs Python 3.10.12, 3.11.4 or later. "
            "Unpack it, and name the folder."
        )
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=parent) as folder:
        with damage_named(path):
            if kind == "tar":
                # nothing is written outside of the folder
                shutil.unpack_archive(path, folder, kind, filter="data")
            else:
                shutil.unpack_archive(path, folder, kind)  # zip needs no filter
        yield Path(folder)


def _kind_of_archive(path: Path) -> str:
    """Return "zip", "tar", or "" for any other file."""
    if zipfile.is_zipfile(path):
        return "zip"
    if tarfile.is_tarfile(path):
        return "tar"
    return ""
