"""The HDF5 file of the vectors of a text's lines.

    "0", "1", ...         the vectors of line 0, 1, ..., (layers, n, 2P), as bilm-tf and AllenNLP write them
    "sentence_to_index"   (1,) a string: a JSON object, {sentence: line}, as AllenNLP writes it
    attribute "run_embed" JSON: the settings that the vectors depend on

`sentence_to_index` is a string of fixed length, because HDF5 holds one of variable length, which AllenNLP writes, in memory
several times. Reading the dataset gives bytes in either case.
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
VERSION = ("v108", "v108")  # of HDF5, with checksums of its own structures, and groups that need not fit into memory
PER_LINE = 325  # bytes that HDF5 adds for each dataset, measured
LONGEST_INDEX = 2**31 - 10  # bytes of a string that NumPy can read


def write(
    path: Path, settings: Mapping[str, Any], vectors: Iterable[tuple[int, np.ndarray]], entries: Iterable[bytes]
) -> None:
    """Write lines' numbers and arrays, in any order, and the entries of `sentence_to_index` (see `index_entries`)."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    number = h5t.py_create(np.dtype(settings["dtype"]))
    with disk.atomic_write(path, "wb") as file:
        with h5py.File(file.name, "w", libver=VERSION) as hdf5:
            hdf5.attrs[ATTRIBUTE] = np.bytes_(json.dumps(settings))
            for line, array in vectors:  # h5py's create_dataset takes several times as long
                dataset = h5d.create(hdf5.id, str(line).encode(), number, h5s.create_simple(array.shape), properties)
                dataset.write(h5s.ALL, h5s.ALL, array)
            if settings["index_bytes"]:
                string = h5t.C_S1.copy()
                string.set_size(settings["index_bytes"] + len("{}"))
                string.set_cset(h5t.CSET_UTF8)
                place = h5d.create(hdf5.id, INDEX.encode(), string, h5s.create_simple((1,)), properties).get_offset()
        if settings["index_bytes"]:  # piece by piece, which HDF5 cannot do
            file.seek(place)
            file.write(b"{")
            file.writelines(entries)
            file.write(b"}")
            file.seek(place + 1)
            file.write(b" ")  # for the first entry's comma


def is_finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the file exists. If it has other settings, that is an error."""
    if not path.exists():
        return False
    try:
        with h5py.File(path, "r") as hdf5:
            saved = dict(json.loads(bytes(hdf5.attrs[ATTRIBUTE])))
    except Exception as error:  # a foreign file can raise any
        raise UserError(f"{path} exists, and was not written by run_embed.py. Choose another --output.") from error
    if changes := differences(saved, settings):
        changed = "; ".join(changes.values())
        raise UserError(f"{path} exists, with other settings: {changed}. Choose another --output, or delete it.")
    log.info(f"{path} is finished, nothing is left to do.")
    return True
