"""Context-free vectors of a vocabulary in HDF5: dataset `embedding` (V, P), one row per line of the vocabulary file.

The files of bilm-tf's dump_token_embeddings have the same format and are read here. Ours also have checksums, which HDF5
verifies, and a fingerprint of the words.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import h5py
import numpy as np

from elmo_core.files import disk
from elmo_core.files.hdf5_file import open_hdf5
from elmo_core.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokens import BOS, EOS, digest

NAME, WORDS = "embedding", "vocabulary"  # dataset and attribute


def read_words(path: str | Path) -> list[str]:
    """Read the words of a vocabulary file: one per line, in any order, including `<S>` and `</S>`."""
    path, words = Path(path), []
    disk.check_input(path, "a vocabulary, one token per line")
    for line, word in enumerate(read_lines(path), 1):
        if len(tokens := word.split()) != 1:
            raise UserError(f"{path}:{line}: found {word!r:.60}, expected one token per line.")
        words += tokens
    if missing := sorted({BOS, EOS} - set(words)):
        raise UserError(f"{path}: there is no {' and no '.join(missing)}, with which sentences begin and end. Add it.")
    return words


def write_token_vectors(path: Path, words: Sequence[str], width: int, blocks: Iterable[np.ndarray]) -> None:
    """Write a vocabulary's vectors. blocks: consecutive float32 arrays (n, P)."""
    version, row = ("v110", "v110"), 0  # of HDF5, with checksums of its metadata
    with disk.atomic_write(path, "wb") as file, h5py.File(file.name, "w", libver=version) as hdf5:
        table = hdf5.create_dataset(NAME, (len(words), width), "float32", fletcher32=True)
        # fixed-length bytes: HDF5 stores variable-length strings without a checksum
        table.attrs[WORDS] = np.bytes_(digest(words))
        for block in blocks:
            table[row : row + len(block)] = block
            row += len(block)


def read_token_vectors(path: Path, vocabulary: Path, width: int) -> tuple[list[str], np.ndarray]:
    """Read the words of a vocabulary file and their vectors (V, P)."""
    words = read_words(vocabulary)
    with open_hdf5(path, "token vectors, as run_embed.py writes those of a vocabulary") as file:
        vectors = file.take(NAME, (len(words), width), f"the model and {vocabulary}")
        fingerprint = file.arrays[NAME].attrs.get(WORDS)
    if fingerprint is not None and fingerprint != np.bytes_(digest(words)):
        raise UserError(f"{path} was written for other words than those in {vocabulary}.")
    return words, vectors
