"""Vectors of words in word2vec's format, or GloVe's, which is the same without the first line."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from elmo_core.machine.messages import UserError, log


def load_word_vectors(path: Path, limit: int | None = None):
    """gensim's KeyedVectors of a file in word2vec's format: binary if its name ends in .bin, else text; or either as .gz.

    GloVe's text, which has no first line of two numbers, is read, too. If only FILE.gz is there, that is read.
    limit: only so many words, the first and most frequent ones.
    """
    from gensim.models import KeyedVectors

    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and packed.is_file():
        log.info(f"word vectors  there is no {path}: {packed} is read")
        path = packed
    if not path.is_file():
        raise UserError(f"{path}: there is no such file of word vectors.")
    binary = path.name.removesuffix(".gz").endswith(".bin")
    try:
        headless = not binary and not _has_header(path)
        vectors = KeyedVectors.load_word2vec_format(str(path), binary=binary, limit=limit, no_header=headless)
        if not np.isfinite(vectors.vectors).all():
            raise ValueError("it has values that are not finite")
        if not len(vectors):
            raise ValueError("it has no words")
        if repeated := len(vectors.index_to_key) - len(vectors.key_to_index):  # gensim leaves empty rows at the end
            log.warning(f"{path}: {repeated:,} words occur more than once; the first vector of each counts.")
            del vectors.index_to_key[-repeated:]
            vectors.vectors = vectors.vectors[:-repeated]
    except MemoryError as error:
        raise UserError(
            f"{path}: its vectors do not fit into memory. Read fewer, with --word_vectors_limit if there is one."
        ) from error
    except (ValueError, OverflowError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is not in word2vec's {'binary' if binary else 'text'} format ({type(error).__name__}: {error}). A line "
            "of text is a word without a space in it and its numbers, perhaps below a line with the number of words and "
            "of dimensions; the binary format's name ends in .bin."
        ) from error
    return vectors


def _has_header(path: Path) -> bool:
    """Whether the first line is the number of words and of dimensions, not already a word."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        return len(file.readline(1 << 20).split()) <= 2
