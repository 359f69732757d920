"""Read models of other projects as they are published: single files, folders or archives, in any supported format."""

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.disk import check_input, read_json
from elmo_core.files.hdf5_file import open_hdf5, quoted
from elmo_core.files.streams import damage_named
from elmo_core.messages import UserError, join_names
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf, tensorflow
from elmo_core.weights.fluid import read_fluid
from elmo_core.weights.manylangs import read_manylangs
from elmo_core.weights.paddlenlp import LSTM, read_paddlenlp
from elmo_core.weights.pickles import read_paddle
from elmo_core.weights.tensorflow_models import read_bilm_checkpoint

PDPARAMS = ".pdparams"
Model = tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]  # under our names


def read_foreign(
    paths: Sequence[Path],
    parent: Path,
    format_name: str | None = None,
    vocabulary: Path | None = None,
    softmax: Path | None = None,
) -> Model:
    """Read a model from files, folders and archives, under our names. Archives are unpacked inside `parent`.

    format_name: a key of READERS; None: recognise it by the names of the files.
    vocabulary, softmax: files that are not among the paths.
    """
    prefixes = {path: path.with_name(f"{path.name}{tensorflow.INDEX}") for path in paths}
    paths = [prefixes[path] if prefixes[path].is_file() else path for path in paths]
    for path in paths:
        if not path.is_dir():
            check_input(path, "a file, folder or archive of a pretrained model")
    with ExitStack() as stack:
        sources = [stack.enter_context(_unpacked(path, parent)) for path in paths]
        entries = [path for source in sources for path in (sorted(source.rglob("*")) if source.is_dir() else [source])]
        files = [path for path in entries if path.is_file()]
        format_name = format_name or _recognise(files)
        if (softmax and format_name not in ("bilm-tf", "tensorflow")) or (vocabulary and format_name == "manylangs"):
            raise UserError(f"{softmax or vocabulary} has no effect: the format {format_name} has no such file.")
        return READERS[format_name][1](files, vocabulary, softmax)


@contextmanager
def _unpacked(path: Path, parent: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `parent` with an archive's files, or the path itself if it is not an archive."""
    with damage_named(path):
        kind = path.is_file() and ("zip" if zipfile.is_zipfile(path) else "tar" if tarfile.is_tarfile(path) else "")
    if not kind:
        yield path
        return
    if kind == "tar" and not hasattr(tarfile, "data_filter"):
        raise UserError(f"{path}: unpacking needs Python 3.10.12, 3.11.4 or later. Unpack it, and name the folder.")
    options = {"filter": "data"} if kind == "tar" else {}  # never outside of the folder; zip needs no filter
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=parent) as folder:
        with damage_named(path):
            shutil.unpack_archive(path, folder, kind, **options)
        try:
            yield Path(folder)
        except UserError as error:  # which names a file in the temporary folder
            raise UserError(str(error).replace(folder, str(path))) from error


def _recognise(files: Sequence[Path]) -> str:
    """Return the only format with the ending of a file; "tensorflow" also if there are bilm-tf's options, as it has."""
    found = [name for name, (ending, _) in READERS.items() if any(path.name.endswith(ending) for path in files)]
    found = ["tensorflow"] if "tensorflow" in found else found
    if len(found) != 1:
        expected = join_names([f"{ending} ({name})" for name, (ending, _) in READERS.items()])
        raise UserError(f"The format is not clear: found {_names(files)}, expected one of {expected}. Set `format`.")
    return found[0]


def _names(files: Collection[Path]) -> str:
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
        raise UserError(f"{len(matches)} files end with {ending}, expected one. Found {_names(files)}.")
    return matches[0]


def _read_bilm_tf(files: Sequence[Path], vocabulary: Path | None, softmax: Path | None) -> Model:
    """Read bilm-tf's files. Two files may have any names, if the first is the options."""
    released = [path for path in files if path.name.endswith(bilm_tf.RELEASED_SOFTMAX)]
    softmax, files = softmax or next(iter(released), None), [path for path in files if path not in released]
    if len(files) == 2 and files[1].suffix != ".json":
        options, weights_path = files
    else:
        only_json = sum(path.suffix == ".json" for path in files) == 1  # whatever its name
        options = _single_file(files, ".json" if only_json else "options.json")
        weights_path = _single_file(files, ".hdf5")
    with open_hdf5(weights_path, "bilm-tf's weights") as weights:
        values = bilm_tf.read_options(options)
        return bilm_tf.read_arrays(values, options, weights, _find_vocabulary(files, vocabulary), softmax)


def _read_tensorflow(files: Sequence[Path], vocabulary: Path | None, softmax: Path | None) -> Model:
    """Read the last checkpoint of bilm-tf's training folder, or that of a TensorFlow Hub module."""
    candidates = [path for path in files if path.name.endswith(tensorflow.INDEX)]
    last = [path for path in candidates if path.stem == tensorflow.last_checkpoint(path.parent)]
    index = _single_file(last if len(candidates) > 1 and last else candidates, tensorflow.INDEX)
    files = [*files, *sorted(index.parent.iterdir())]
    options = [path for path in files if path.name.endswith(bilm_tf.OPTIONS)]
    options_path = min(options, key=lambda path: len(path.name), default=None)
    return read_bilm_checkpoint(index, options_path, _find_vocabulary(files, vocabulary), softmax)


def _read_fluid(files: Sequence[Path], vocabulary: Path | None, _: None) -> Model:
    words = _read_vocabulary(files, vocabulary)
    return *read_fluid(_single_file(files, "embedding_para").parent, words), words


def _read_paddle(files: Sequence[Path], vocabulary: Path | None, _: None) -> Model:
    """Read the file of PaddleNLP's example, or of `paddle.save(bilm.state_dict(), path)` with the model's config.json."""
    path = _single_file(files, PDPARAMS)
    arrays = read_paddle(path)
    if any(name.startswith(LSTM) for name in arrays):
        words = _read_vocabulary(files, vocabulary)
        return *read_paddlenlp(path, arrays, words), words
    config_path = path.with_name("config.json")
    config = ELMoConfig.from_dict(read_json(config_path, "the configuration of the model in this folder").get("model"))
    words = _read_vocabulary(files, vocabulary) if config.vocab_size else None
    if words and len(words) != config.vocab_size:
        raise UserError(f"{words.source}: found {words.identity}, expected {config.vocab_size:,} as in {config_path}.")
    return config, arrays, words


# by format: the ending of the name of a file that only this format has, and a function of files, vocabulary and softmax
READERS: dict[str, tuple[str, Callable[..., Model]]] = {
    "bilm-tf": (bilm_tf.OPTIONS, _read_bilm_tf),
    "tensorflow": (tensorflow.INDEX, _read_tensorflow),
    "manylangs": ("encoder.pkl", lambda files, *_: read_manylangs(_single_file(files, "encoder.pkl").parent)),
    "fluid": ("embedding_para", _read_fluid),
    "paddle": (PDPARAMS, _read_paddle),
}
