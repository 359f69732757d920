"""The parts of a vector file: a folder with one zip file per window of the text.

    run_embed.json    the settings that the vectors and the final file depend on
    000000.zip        the first window, uncompressed:
      arrays          the arrays of its datasets, one after another
      contents.json   their names, types and shapes: as in the final file, except that sentence_to_index has only the
                      window's entries, as bytes

A part appears whole or not at all, so a window is done if its part exists, whichever process wrote it. The zip file's
checksums detect damage by a power failure or a bad disk. NumPy's .npz, with a header per array, takes a tenth more of the
processor time of a whole run, or memory for the whole window.
"""

import json
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import differences
from elmo_core.files import disk
from elmo_core.files.streams import DamagedFile, damage_named
from elmo_core.messages import UserError

SETTINGS = "run_embed.json"


def paths(folder: Path, settings: Mapping[str, Any]) -> list[Path]:
    """The paths of all parts, finished or not."""
    return [folder / f"{number:06}.zip" for number in range(settings["windows"])]


def is_done(path: Path) -> bool:
    """Whether a part exists and is not truncated."""
    return zipfile.is_zipfile(path)


def prepare(folder: Path, settings: Mapping[str, Any]) -> None:
    """Create the folder. Raise if it has parts with other settings."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--output {folder} is a file, but --shard writes a folder. Choose another name.")
    if next(folder.glob("*.zip"), None):
        check_same(folder, settings)
    else:
        disk.write_json(folder / SETTINGS, settings, indent=1)


def read_settings(folder: Path) -> dict[str, Any]:
    return disk.read_json(folder / SETTINGS, "the settings of a folder written with --shard")


def check_same(folder: Path, settings: Mapping[str, Any]) -> None:
    if changes := differences(read_settings(folder), settings):
        changed = "; ".join(changes.values())
        raise UserError(f"{folder} has parts with other settings: {changed}. Use the same ones, or delete the folder.")


def write(path: Path, datasets: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write the datasets of a window, names and arrays."""
    contents = []
    with disk.atomic_write(path, "wb", durable=False) as file, zipfile.ZipFile(file, "w") as part:
        with part.open("arrays", "w", force_zip64=True) as member:
            for name, array in datasets:
                contents.append((name, array.dtype.str, array.shape))
                member.write(np.ascontiguousarray(array))
        part.writestr("contents.json", json.dumps(contents))


def read(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the datasets of a window, names and arrays."""
    advice = "It is deleted. Run the command that wrote it again."
    try:
        with damage_named(path, advice), zipfile.ZipFile(path) as part, part.open("arrays") as member:
            if any(info.file_size > info.compress_size for info in part.infolist()):
                raise ValueError("it is compressed")
            for name, dtype, shape in json.loads(part.read("contents.json")):
                size = math.prod(shape) * np.dtype(dtype).itemsize
                yield name, np.frombuffer(member.read(size), dtype).reshape(shape)
    except DamagedFile:
        path.unlink()
        raise
