"""The HDF5 file with the vectors of a text.

    "0", "1", ...         the vectors of line 0, 1, ..., (layers, n, 2P), as bilm-tf and AllenNLP write them
    "sentence_to_index"   (1,) a string: a JSON object, {sentence: line}, as AllenNLP writes it
    attribute "run_embed" JSON: the settings that the vectors depend on

`sentence_to_index` is a fixed-length string: HDF5 would hold AllenNLP's variable-length one in memory several times.
Both are read as bytes.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from elmo_core.config import differences
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log

ATTRIBUTE, INDEX = "run_embed", "sentence_to_index"
VERSION = ("v108", "v108")  # HDF5 1.8: checksums of its own structures, and groups that need not fit into memory
BYTES_PER_DATASET = 325  # overhead of HDF5, measured
MAX_INDEX_BYTES = 2**31 - 10  # the longest string that NumPy can read


def write(
    path: Path, settings: Mapping[str, Any], vectors: Iterable[tuple[int, np.ndarray]], entries: Iterable[bytes]
) -> None:
    """Write the file. vectors: line numbers and arrays, in any order. entries: see `index_entries`."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    dtype = h5t.py_create(np.dtype(settings["dtype"]))
    with disk.atomic_write(path, "wb") as file:
        with h5py.File(file.name, "w", libver=VERSION) as hdf5:
            hdf5.attrs[ATTRIBUTE] = np.bytes_(json.dumps(settings))
            for line, array in vectors:  # several times faster than h5py's create_dataset
                dataset = h5d.create(hdf5.id, str(line).encode(), dtype, h5s.create_simple(array.shape), properties)
                dataset.write(h5s.ALL, h5s.ALL, array)
            if settings["index_bytes"]:
                string = h5t.C_S1.copy()
                string.set_size(settings["index_bytes"] + len("{}"))
                string.set_cset(h5t.CSET_UTF8)
                offset = h5d.create(hdf5.id, INDEX.encode(), string, h5s.create_simple((1,)), properties).get_offset()
        if settings["index_bytes"]:  # HDF5 cannot write a string piece by piece
            file.seek(offset)
            file.write(b"{")
            file.writelines(entries)
            file.write(b"}")
            file.seek(offset + 1)
            file.write(b" ")  # replaces the first entry's comma


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
