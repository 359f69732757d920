"""The parts of a vector file: a folder with one zip file per window of the text.

    run_embed.json    the settings that the vectors and the final file depend on
    000000.zip        the first window, uncompressed:
      lines             (n, 2) int64: line number and number of tokens, longest line first
      vectors           these lines' arrays, one after another
      index             the lines' entries in sentence_to_index

A part appears whole or not at all, so a window is done if its part exists, whichever process wrote it. The zip file's
checksums detect damage by a power failure or a bad disk.
"""

import json
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import differences
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError

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
        check_same(folder, read_settings(folder), settings)
    else:
        with disk.atomic_write(folder / SETTINGS) as file:
            json.dump(settings, file, indent=1)


def read_settings(folder: Path) -> dict[str, Any]:
    return disk.read_json(folder / SETTINGS, "the settings of a folder written with --shard")


def check_same(folder: Path, saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    if changes := differences(saved, settings):
        changed = "; ".join(changes.values())
        raise UserError(f"{folder} has parts with other settings: {changed}. Use the same ones, or delete the folder.")


def write(path: Path, lines: Sequence[tuple[int, int]], arrays: Iterable[np.ndarray], entries: bytes) -> None:
    """Write a part. lines: line number and number of tokens per array. entries: see `index_entries`."""
    with disk.atomic_write(path, "wb", durable=False) as file, zipfile.ZipFile(file, "w") as part:
        part.writestr("lines", np.array(lines, np.int64).tobytes())
        part.writestr("index", entries)
        with part.open("vectors", "w", force_zip64=True) as member:
            for array in arrays:
                member.write(np.ascontiguousarray(array))


def read_vectors(path: Path, settings: Mapping[str, Any]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield a part's line numbers and arrays."""
    dtype = np.dtype(settings["dtype"])
    with _verified(path) as part:
        lines = np.frombuffer(part.read("lines"), np.int64).reshape(-1, 2).tolist()
        with part.open("vectors") as member:
            for line, n_tokens in lines:
                shape = [n_tokens if size is None else size for size in settings["shape"]]
                yield line, np.frombuffer(member.read(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


def read_entries(path: Path) -> bytes:
    with _verified(path) as part:
        return part.read("index")


@contextmanager
def _verified(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as part:
            yield part
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged file can raise anything
        path.unlink()
        raise UserError(f"{path} was damaged ({error}) and is deleted. Run the command that wrote it again.") from error
