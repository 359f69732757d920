"""Vectors of a fixed vocabulary in HDF5: dataset `embedding` (V, P), a row for each line of the vocabulary's file.

bilm-tf's dump_token_embeddings writes the same, and its files are read here. Ours carry two attributes more, which other
readers pass over: a checksum, and which words they are for.
"""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import h5py
import numpy as np

from elmo_core import disk
from elmo_core.hdf5_file import HDF5File
from elmo_core.runtime import UserError
from elmo_core.text import read_sentences
from elmo_core.tokens import BOS, EOS

NAME = "embedding"
CHECKSUM, WORDS = "crc32", "vocabulary"  # attributes


def read_words(path: str | Path) -> list[str]:
    """The words of a vocabulary's file, one a line, in any order; `<S>` and `</S>` must be among them."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file. Expected a vocabulary, one token a line.")
    words = []
    for line, tokens in enumerate(read_sentences(path), 1):
        if len(tokens) != 1:
            found = f"{' '.join(tokens)!r:.60}" if tokens else "an empty line"
            raise UserError(f"{path}:{line}: found {found}, expected one token a line.")
        words += tokens
    missing = [marker for marker in (BOS, EOS) if marker not in set(words)]
    if missing:
        raise UserError(
            f"{path}: there is no {' and no '.join(missing)}. Sentences begin with {BOS} and end with "
            f"{EOS}, so their vectors are needed: add the lines."
        )
    return words


def write(path: Path, words: Sequence[str], width: int, parts: Iterable[np.ndarray]) -> None:
    """Write a vocabulary's vectors, given as float32 arrays (n, P) that follow one another."""
    shape, row = (len(words), width), 0
    version = ("v108", "v108")  # of HDF5, with checksums of its own structures
    with disk.atomic_write(path, "wb") as file, h5py.File(file.name, "w", libver=version) as hdf5:
        table = hdf5.create_dataset(NAME, shape, "float32")
        checksum = _first_checksum(shape)
        for part in parts:
            table[row : row + len(part)] = part
            checksum, row = zlib.crc32(part, checksum), row + len(part)
        table.attrs[CHECKSUM], table.attrs[WORDS] = checksum, _fingerprint(words)


def read(path: Path, vocabulary: Path, width: int) -> tuple[list[str], np.ndarray]:
    """The words of a vocabulary's file and their vectors (V, P), verified as far as the file lets."""
    words = read_words(vocabulary)
    with HDF5File(path, "token vectors, as `run_embed.py --vocab` writes them") as file:
        file.check(NAME, (len(words), width), f"the model and {vocabulary}")
        vectors = file.array(NAME)
        with file.errors_named(NAME):
            checksum, fingerprint = file.attribute(NAME, CHECKSUM), file.attribute(NAME, WORDS)
            if checksum is not None and int(checksum) != zlib.crc32(vectors, _first_checksum(vectors.shape)):
                raise UserError(f"{NAME} of {path} is damaged: its checksum is wrong. Make the file again.")
            if fingerprint is not None and str(fingerprint) != _fingerprint(words):
                raise UserError(f"{path} was made for other words than those of {vocabulary}.")
    return words, vectors


def _first_checksum(shape: tuple[int, ...]) -> int:
    return zlib.crc32(f"{NAME} {shape}".encode())


def _fingerprint(words: Sequence[str]) -> str:
    """SHA-1 of the words in their order, as a `Vocabulary` has it."""
    return hashlib.sha1("\n".join(words).encode()).hexdigest()
