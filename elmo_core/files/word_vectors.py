"""Word vectors in word2vec's format, or GloVe's, which is the same without the first line."""

from pathlib import Path

import numpy as np

from elmo_core.checks import import_optional
from elmo_core.files.disk import check_input, user_path
from elmo_core.files.foreign_files import damage_named, open_file
from elmo_core.messages import format_count, log


def load_word_vectors(path: str | Path, limit: int | None = None):
    """Load gensim's KeyedVectors from a file in word2vec's format.

    It is binary if its name ends in .bin or .bin.gz, else text. GloVe's text, which lacks the first
    line of two numbers, is recognised. If only FILE.gz exists, that is read.
    limit: maximum number of words, which are the most frequent; the rest of the file is not read.
    """
    KeyedVectors = import_optional("gensim.models", "reading word vectors").KeyedVectors

    path = _existing(user_path(path))
    check_input(path, "word vectors")
    binary = path.name.removesuffix(".gz").endswith(".bin")
    kind = "binary" if binary else "text"
    advice = (
        "Lines are a word and its values; the first may have the numbers of words and dimensions. "
        "Binary: .bin."
    )
    with damage_named(f"{path} with {kind} word vectors", advice):
        with open_file(path) as file:
            has_header = binary or len(file.readline().split()) == 2
        encoding = "utf-8" if binary else "utf-8-sig"  # with or without a byte order mark
        vectors = KeyedVectors.load_word2vec_format(
            str(path), binary=binary, limit=limit, no_header=not has_header, encoding=encoding
        )
        if not vectors.vectors.size or not np.isfinite(vectors.vectors).all():
            raise ValueError("it has no words, no values, or values that are not finite")
    n_repeated = len(vectors.index_to_key) - len(vectors.key_to_index)
    if n_repeated:
        words = format_count(n_repeated, "repeated words")
        log.warning(f"{path}: ignoring {words}, except the first of each.")
        # gensim leaves zero rows at the end
        del vectors.index_to_key[-n_repeated:]
        vectors.vectors = vectors.vectors[:-n_repeated]
    return vectors


def _existing(path: Path) -> Path:
    """Return the path of a file, or that of its compressed copy if only this exists."""
    compressed = path.with_name(f"{path.name}.gz")
    if compressed.is_file() and not path.exists():
        return compressed
    return path
