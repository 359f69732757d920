"""Read models of other projects as they are published: single files, folders or archives, in any supported format."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.disk import check_input
from elmo_core.files.hdf5_file import ArrayFile, HDF5File, quoted
from elmo_core.messages import UserError, join_names
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf, checkpoint, fluid, manylangs, paddlenlp, tensorflow, tensorflow_models
from elmo_core.weights.archives import unpacked


class Model(NamedTuple):
    """A model under our names, and the optimizer and progress of its training if they are known."""

    config: ELMoConfig
    weights: dict[str, np.ndarray]
    vocabulary: Vocabulary | None = None
    optimizer: dict[str, np.ndarray] | None = None
    progress: dict[str, Any] | None = None


def read(
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
    for ending in (checkpoint.PARAMS, tensorflow.INDEX):  # a path may be a checkpoint's prefix
        paths = [Path(f"{path}{ending}") if Path(f"{path}{ending}").is_file() else path for path in paths]
    for path in paths:
        if not path.is_dir():
            check_input(path, "a file, folder or archive of a pretrained model")
    with ExitStack() as stack:
        sources = [stack.enter_context(unpacked(path, parent)) for path in paths]
        entries = [path for source in sources for path in (sorted(source.rglob("*")) if source.is_dir() else [source])]
        files = [path for path in entries if path.is_file()]
        format_name = format_name or _recognise(files)
        if (softmax and format_name not in ("bilm-tf", "tensorflow")) or (vocabulary and format_name == "manylangs"):
            raise UserError(f"{softmax or vocabulary} has no effect: the format {format_name} has no such file.")
        return Model(*READERS[format_name][1](files, vocabulary, softmax))


def _recognise(files: Sequence[Path]) -> str:
    """The only format with the ending of a file; "tensorflow" also if there are bilm-tf's options, as in its own folders."""
    found = [name for name, (ending, _) in READERS.items() if any(path.name.endswith(ending) for path in files)]
    found = ["tensorflow"] if "tensorflow" in found else found
    if len(found) != 1:
        expected = join_names([f"{ending} ({name})" for name, (ending, _) in READERS.items()])
        names = quoted(sorted(path.name for path in files)) or "no files"
        raise UserError(f"The format is not clear: found {names}, expected one of {expected}. Set `format`.")
    return found[0]


def is_vocabulary(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".txt", ".txt.gz")) and "vocab" in path.name


def _vocabulary(files: Sequence[Path], path: Path | None) -> Vocabulary:
    """Read the vocabulary at a path, or the first one among the files."""
    path = path or next(filter(is_vocabulary, files), None)
    if path is None:
        raise UserError("This model needs its vocabulary: a text file with one word per line.")
    return Vocabulary.from_file(path)


def _single_file(files: Sequence[Path], ending: str) -> Path:
    """The only file whose name has this ending. Raises if there is none or more than one."""
    matches = [path for path in files if path.name.endswith(ending)]
    if len(matches) != 1:
        names = quoted(sorted(path.name for path in files)) or "no files"
        raise UserError(f"{len(matches)} files end with {ending}, expected one. Found {names}.")
    return matches[0]


def _read_bilm_tf(files: Sequence[Path], vocabulary: Path | None, softmax: Path | None) -> Model:
    """Read bilm-tf's files. Two files may have any names, if the first is the options."""
    released = [path for path in files if path.name.endswith(bilm_tf.RELEASED_SOFTMAX)]
    softmax, files = softmax or next(iter(released), None), [path for path in files if path not in released]
    if len(files) == 2 and files[1].suffix != ".json":
        options_path, weights_path = files
    else:
        only_json = sum(path.suffix == ".json" for path in files) == 1  # whatever its name
        options_path = _single_file(files, ".json" if only_json else "options.json")
        weights_path = _single_file(files, ".hdf5")
    with HDF5File(weights_path, "bilm-tf's weights") as weights:
        words = _words(files, vocabulary, softmax, weights)
        config, params = bilm_tf.read(bilm_tf.read_options(options_path), options_path, weights, words, softmax)
    return Model(config, params, words if config.vocab_size else None)


def _read_tensorflow(files: Sequence[Path], vocabulary: Path | None, softmax: Path | None) -> Model:
    """Read the last checkpoint of bilm-tf's training folder, or that of a TensorFlow Hub module."""
    candidates = [path for path in files if path.name.endswith(tensorflow.INDEX)]
    last = [path for path in candidates if path.stem == tensorflow.last_checkpoint(path.parent)]
    index = _single_file(last if len(candidates) > 1 and last else candidates, tensorflow.INDEX)
    files = [*files, *sorted(index.parent.iterdir())]
    options = [path for path in files if path.name.endswith(bilm_tf.OPTIONS)]
    options_path = min(options, key=lambda path: len(path.name), default=None)
    weights = tensorflow_models.BiLMCheckpoint(index)
    words = _words(files, vocabulary, softmax, weights)
    return Model(*tensorflow_models.read(weights, options_path, words, softmax))


def _words(files: Sequence[Path], path: Path | None, softmax: Path | None, weights: ArrayFile) -> Vocabulary | None:
    """The vocabulary of a model with bilm-tf's names, if it has a use for one."""
    has_words = not {"embedding", *bilm_tf.SOFTMAX}.isdisjoint(weights.datasets)
    path = path or (next(filter(is_vocabulary, files), None) if softmax or has_words else None)
    return Vocabulary.from_file(path, any_order=True) if path else None


def _read_fluid(files: Sequence[Path], vocabulary: Path | None, _: None) -> Model:
    words = _vocabulary(files, vocabulary)
    return *fluid.read(_single_file(files, "embedding_para").parent, words), words


def _read_paddlenlp(files: Sequence[Path], vocabulary: Path | None, _: None) -> Model:
    words = _vocabulary(files, vocabulary)
    return *paddlenlp.read(_single_file(files, checkpoint.PARAMS), words), words


# by format: the ending of the name of a file that only this format has, and a function of files, vocabulary and softmax
READERS: dict[str, tuple[str, Callable[..., Model]]] = {
    "bilm-tf": (bilm_tf.OPTIONS, _read_bilm_tf),
    "tensorflow": (tensorflow.INDEX, _read_tensorflow),
    "manylangs": ("encoder.pkl", lambda files, *_: manylangs.read(_single_file(files, "encoder.pkl").parent)),
    "fluid": ("embedding_para", _read_fluid),
    "paddlenlp": (checkpoint.PARAMS, _read_paddlenlp),
}
