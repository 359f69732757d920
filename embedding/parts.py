"""The parts of a vector file: a folder with one NumPy .npz file per window of the text.

    run_embed.json    the settings that the vectors and the final file depend on
    000000.npz        the first window, uncompressed: its datasets by name, as in the final file, except for
      sentence_to_index   (n,) uint8: the window's entries, see `index_entries`

A part appears whole or not at all, so a window is done if its part exists, whichever process wrote it. The .npz file's
checksums detect damage by a power failure or a bad disk.
"""

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import differences
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError

SETTINGS = "run_embed.json"


def paths(folder: Path, settings: Mapping[str, Any]) -> list[Path]:
    """The paths of all parts, finished or not."""
    return [folder / f"{number:06}.npz" for number in range(settings["windows"])]


def is_done(path: Path) -> bool:
    """Whether a part exists and is not truncated."""
    return zipfile.is_zipfile(path)


def prepare(folder: Path, settings: Mapping[str, Any]) -> None:
    """Create the folder. Raise if it has parts with other settings."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--output {folder} is a file, but --shard writes a folder. Choose another name.")
    if next(folder.glob("*.npz"), None):
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


def write(path: Path, datasets: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write a part, array by array: `np.savez` would need all of them at once."""
    with disk.atomic_write(path, "wb", durable=False) as file, zipfile.ZipFile(file, "w") as part:
        for name, array in datasets:
            with part.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the datasets of a part: name and array."""
    try:
        with np.load(path) as part:
            yield from part.items()
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged file can raise anything
        path.unlink()
        raise UserError(f"{path} was damaged ({error}) and is deleted. Run the command that wrote it again.") from error
