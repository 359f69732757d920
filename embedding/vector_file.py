"""The HDF5 file with the vectors of a text.

    "0", "1", ...         the vectors of line 0, 1, ..., (layers, n, 2P), as bilm-tf and AllenNLP write them
    "sentence_to_index"   (1,) a string: a JSON object, {sentence: line}, as AllenNLP writes it
    attribute "run_embed" JSON: the settings that the vectors depend on

`sentence_to_index` is a string of fixed length, AllenNLP's of variable length. Both are read as bytes.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_core.config import differences
from elmo_core.files import disk
from elmo_core.messages import UserError, log

ATTRIBUTE, INDEX = "run_embed", "sentence_to_index"
VERSION = ("v108", "v108")  # HDF5 1.8: checksums of its own structures, and groups that need not fit into memory
BYTES_PER_DATASET = 325  # overhead of HDF5, measured
MAX_INDEX_BYTES = 2**31 - 10  # the longest string that NumPy can read


def write(path: Path, settings: Mapping[str, Any], datasets: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write the file. datasets: those of the parts, in any order."""
    index = bytearray()
    with disk.atomic_write(path, "wb") as file, h5py.File(file.name, "w", libver=VERSION) as hdf5:
        hdf5.attrs[ATTRIBUTE] = np.bytes_(json.dumps(settings))
        for name, array in datasets:
            if name != INDEX:
                hdf5.create_dataset(name, data=array)
            elif settings["index_bytes"]:
                index += array.tobytes()
        if index:
            index[:1] = b"{"  # replaces the first entry's comma
            index += b"}"
            hdf5[INDEX] = np.frombuffer(index, h5py.string_dtype("utf-8", len(index)))


def is_finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the file exists. Raise if it has other settings."""
    if not path.exists():
        return False
    try:
        with h5py.File(path, "r") as hdf5:
            saved = dict(json.loads(bytes(hdf5.attrs[ATTRIBUTE])))
    except Exception as error:  # a foreign file can raise anything
        raise UserError(f"{path} exists and was not written by run_embed.py. Choose another --output.") from error
    if changes := differences(saved, settings):
        changed = "; ".join(changes.values())
        raise UserError(f"{path} exists with other settings: {changed}. Choose another --output, or delete it.")
    log.info(f"{path} is complete: nothing to do.")
    return True
