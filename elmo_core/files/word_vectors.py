"""Word vectors in word2vec's format, or GloVe's, which is the same without the first line."""

from codecs import BOM_UTF8
from pathlib import Path

import numpy as np

from elmo_core.checks import import_optional
from elmo_core.files.streams import Unpacked, check_size, open_file
from elmo_core.messages import UserError, format_count, log

MAX_LINE = 1 << 20  # bytes


def find_word_vectors(path: Path) -> Path:
    """Return the file or, if only FILE.gz exists, that."""
    compressed = path.with_name(f"{path.name}.gz")
    if not path.exists() and compressed.is_file():
        log.info(f"word vectors  {path} does not exist: {compressed} is read")
        path = compressed
    if not path.is_file():
        raise UserError(f"{path}: there is no such file of word vectors.")
    return path


def load_word_vectors(path: Path, limit: int | None = None):
    """Load gensim's KeyedVectors from a file in word2vec's format: binary if its name ends in .bin or .bin.gz, else text.

    GloVe's text, which lacks the first line of two numbers, is recognised. path: as in `find_word_vectors`.
    limit: maximum number of words; the first are the most frequent.
    """
    KeyedVectors = import_optional("gensim.models", "reading word vectors").KeyedVectors

    path = find_word_vectors(path)
    binary = path.name.removesuffix(".gz").endswith(".bin")
    try:
        options = {"binary": binary, "limit": limit, "no_header": not _has_header(path, binary, limit)}
        options["encoding"] = "utf-8" if binary else "utf-8-sig"  # with or without a byte order mark
        vectors = KeyedVectors.load_word2vec_format(str(path), **options)
        if not np.isfinite(vectors.vectors).all():
            raise ValueError("it contains values that are not finite")
        if not len(vectors):
            raise ValueError("it has no words")
        if repeated := len(vectors.index_to_key) - len(vectors.key_to_index):  # gensim leaves zero rows at the end
            log.warning(f"{path}: ignoring {format_count(repeated, 'repeated words')}, except the first of each.")
            del vectors.index_to_key[-repeated:]
            vectors.vectors = vectors.vectors[:-repeated]
    except MemoryError as error:
        raise UserError(f"{path}: its vectors do not fit into memory. Set `word_vectors_limit`.") from error
    except (ValueError, OverflowError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{path} is not in word2vec's {'binary' if binary else 'text'} format ({type(error).__name__}: {error}). A line "
            "is a word and its values; the first may be the numbers of words and dimensions. Binary files end in .bin."
        ) from error
    return vectors


def _has_header(path: Path, binary: bool, limit: int | None) -> bool:
    """Whether the first line has the numbers of words and dimensions rather than a word.

    Raise, before gensim reads the file, if it cannot have that many, unpacks to far more than its size, or has huge lines.
    """
    with open_file(path) as file:
        begin = file.readline(MAX_LINE)
        line, is_packed = begin.removeprefix(BOM_UTF8).split(), isinstance(file.raw, Unpacked)
        if len(line) == 2:
            n_words, dim = map(int, line)
            size = min(n_words, limit or n_words) * (1 + dim * (4 if binary else 2))
            if is_packed:
                check_size(size, path.stat().st_size, f"{path} with {n_words} vectors of {dim} dimensions")
            elif size > path.stat().st_size:
                raise EOFError(f"it ends before {n_words} vectors of {dim} dimensions")
        while begin and (is_packed or not binary):
            if len(begin) == MAX_LINE and not binary:
                raise ValueError(f"a line of {MAX_LINE:,} bytes")
            begin = file.readline(MAX_LINE)
    return binary or len(line) <= 2
