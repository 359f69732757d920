"""Read models of other projects as they are published: single files, folders or archives, in any supported format."""

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.array_file import ArrayFile, open_hdf5, quoted
from elmo_core.files.disk import check_input, read_json
from elmo_core.files.foreign_files import damage_named
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import bilm_tf, tensorflow
from elmo_core.weights.fluid import read_fluid
from elmo_core.weights.manylangs import read_manylangs
from elmo_core.weights.paddlenlp import LSTM, read_paddlenlp
from elmo_core.weights.pickles import read_paddle
from elmo_core.weights.tensorflow_models import read_bilm_checkpoint

Model = tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]  # under our names


def read_foreign(
    paths: Sequence[Path],
    parent: Path,
    vocabulary: Path | None = None,
    format_name: str | None = None,
) -> Model:
    """Read a model from files, folders and archives, under our names. Archives are unpacked inside `parent`.

    vocabulary: a file that is not among the paths. format_name: a key of READERS (default: by the files' names).
    """
    with ExitStack() as stack:
        sources = [stack.enter_context(_unpacked(path, parent)) for path in paths]
        entries = [
            sorted(source.rglob("[!.]*")) if source.is_dir() else [source] for source in sources
        ]
        files = [
            *{
                path.resolve(): path for path in chain.from_iterable(entries) if path.is_file()
            }.values()
        ]
        return READERS[format_name or _recognise(files)][1](files, vocabulary)


@contextmanager
def _unpacked(path: Path, parent: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `parent` with an archive's files, or the path itself if it is not an archive."""
    if path.is_dir() or path.suffix == ".pkl":  # PyTorch's files are archives, too
        yield path
        return
    check_input(path, "a file, folder or archive of a pretrained model")
    with damage_named(path):
        kind = "zip" if zipfile.is_zipfile(path) else "tar" if tarfile.is_tarfile(path) else ""
    if not kind:
        yield path
        return
    if kind == "tar" and not hasattr(tarfile, "data_filter"):
        raise UserError(
            f"{path}: unpacking needs Python 3.10.12, 3.11.4 or later. Unpack it, and name the folder."
        )
    options = (
        {"filter": "data"} if kind == "tar" else {}
    )  # never outside of the folder; zip needs no filter
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=parent) as folder:
        with damage_named(path):
            shutil.unpack_archive(path, folder, kind, **options)
        yield Path(folder)


def _recognise(files: Sequence[Path]) -> str:
    """Return the first format whose file is among these."""
    for name, (ending, _) in READERS.items():
        if any(path.name.endswith(ending) for path in files):
            return name
    endings = " or ".join(ending for ending, _ in READERS.values())
    raise UserError(
        f"No model was found, only {_names(files)}. Expected a file whose name ends with {endings}."
    )


def _names(files: Sequence[Path]) -> str:
    return quoted(sorted(path.name for path in files)) or "no files"


def is_vocabulary(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".txt", ".txt.gz")) and "vocab" in path.name


def _find_vocabulary(files: Sequence[Path], path: Path | None) -> Path | None:
    """Return the vocabulary that is given, or the first one among the files."""
    return path or next(filter(is_vocabulary, files), None)


def _read_vocabulary(files: Sequence[Path], path: Path | None) -> Vocabulary:
    if (path := _find_vocabulary(files, path)) is None:
        raise UserError("This model needs its vocabulary: a text file with one word per line.")
    return Vocabulary.from_file(path)


def _single_file(files: Sequence[Path], ending: str) -> Path:
    """Return the only file whose name has this ending. Raise if there is none or more than one."""
    matches = [path for path in files if path.name.endswith(ending)]
    if len(matches) != 1:
        raise UserError(
            f"{len(matches)} files end with {ending}, expected one: name it. Found {_names(files)}."
        )
    return matches[0]


def _read_bilm_tf(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read options, and weights in one or several files: AllenNLP released a softmax apart."""
    options, paths = (
        _single_file(files, bilm_tf.OPTIONS),
        [path for path in files if path.name.endswith(".hdf5")],
    )
    if not paths:
        raise UserError(f"There is no .hdf5 with the weights, only {_names(files)}.")
    with ExitStack() as stack:
        arrays = {}
        for part in (stack.enter_context(open_hdf5(path, "bilm-tf's weights")) for path in paths):
            if repeated := arrays.keys() & part.arrays:
                raise UserError(
                    f"{part.path} is of another model than {paths[0]}: both have {quoted(repeated)}."
                )
            arrays |= part.arrays
        weights, values = ArrayFile(paths[0], arrays), bilm_tf.read_options(options)
        return bilm_tf.read_arrays(values, options, weights, _find_vocabulary(files, vocabulary))


def _read_tensorflow(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read a checkpoint of bilm-tf's training, with the options beside it, or of a TensorFlow Hub module."""
    index = _single_file(files, tensorflow.INDEX)
    files = [*files, *sorted(index.parent.iterdir())]
    options = next((path for path in files if path.name == bilm_tf.OPTIONS), None)
    return read_bilm_checkpoint(index, options, _find_vocabulary(files, vocabulary))


def _read_fluid(files: Sequence[Path], vocabulary: Path | None) -> Model:
    words = _read_vocabulary(files, vocabulary)
    return *read_fluid(_single_file(files, "embedding_para").parent, words), words


def _read_paddle(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read the file of PaddleNLP's example, or of `paddle.save(bilm.state_dict(), path)` with the model's config.json."""
    path = _single_file(files, ".pdparams")
    arrays = read_paddle(path)
    if any(name.startswith(LSTM) for name in arrays):
        words = _read_vocabulary(files, vocabulary)
        return *read_paddlenlp(path, arrays, words), words
    config_path = path.with_name("config.json")
    config = ELMoConfig.from_dict(
        read_json(config_path, "the configuration of the model in this folder").get("model")
    )
    return config, arrays, _read_vocabulary(files, vocabulary) if config.vocab_size else None


# by format: the ending of the name of a file that tells it, and a function of files and vocabulary
READERS: dict[str, tuple[str, Callable[..., Model]]] = {
    "tensorflow": (
        tensorflow.INDEX,
        _read_tensorflow,
    ),  # also if a dump in HDF5 is beside it, which has no softmax
    "bilm-tf": (".hdf5", _read_bilm_tf),
    "manylangs": (
        "encoder.pkl",
        lambda files, _: read_manylangs(_single_file(files, "encoder.pkl").parent),
    ),
    "fluid": ("embedding_para", _read_fluid),
    "paddle": (".pdparams", _read_paddle),
}
