"""Read models of other projects as they are published: single files, folders or archives, in any supported format."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files import checkpoint
from elmo_core.machine.disk import check_input, read_json
from elmo_core.machine.hdf5_file import HDF5File, quoted
from elmo_core.machine.messages import UserError, join_names
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf, fluid, manylangs, paddlenlp
from elmo_core.weights.archives import unpacked

Model = tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]


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
    paths = [Path(f"{path}{checkpoint.PARAMS}") if checkpoint.exists(path) else path for path in paths]
    for path in paths:
        if not path.is_dir():
            check_input(path, "a file, folder or archive of a pretrained model")
    with ExitStack() as stack:
        sources = [stack.enter_context(unpacked(path, parent)) for path in paths]
        entries = [path for source in sources for path in (sorted(source.rglob("*")) if source.is_dir() else [source])]
        files = [path for path in entries if path.is_file()]
        format_name = format_name or _recognise(files)
        if (softmax and format_name != "bilm-tf") or (vocabulary and format_name == "manylangs"):
            raise UserError(f"{softmax or vocabulary} has no effect: the format {format_name} has no such file.")
        return READERS[format_name][1](files, vocabulary, softmax)


def _recognise(files: Sequence[Path]) -> str:
    """The only format with the ending of a file."""
    found = [name for name, (ending, _) in READERS.items() if any(path.name.endswith(ending) for path in files)]
    if len(found) != 1:
        expected = join_names([f"{ending} ({name})" for name, (ending, _) in READERS.items()])
        names = quoted(sorted(path.name for path in files)) or "no files"
        raise UserError(f"The format is not clear: found {names}, expected one of {expected}. Name the format.")
    return found[0]


def is_vocabulary(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".txt", ".txt.gz")) and "vocab" in path.name


def _vocabulary(files: Sequence[Path], path: Path | None, required: bool = False) -> Vocabulary | None:
    """Read the vocabulary at a path, or the first one among the files, if there is one."""
    path = path or next(filter(is_vocabulary, files), None)
    if required and path is None:
        raise UserError("This model needs its vocabulary: a text file with one word per line.")
    return Vocabulary.from_file(path) if path else None


def _single_file(files: Sequence[Path], ending: str) -> Path:
    """The only file whose name has this ending. Raises if there is none or more than one."""
    matches = [path for path in files if path.name.endswith(ending)]
    if len(matches) != 1:
        names = quoted(sorted(path.name for path in files)) or "no files"
        raise UserError(f"{len(matches)} files end with {ending}, expected one. Found {names}.")
    return matches[0]


def _read_bilm_tf(files: Sequence[Path], vocabulary: Path | None, softmax: Path | None) -> Model:
    """Read bilm-tf's files. Two files may have any names, if the first is the options."""
    if len(files) == 2 and files[1].suffix != ".json":
        options_path, weights_path = files
    else:
        only_json = sum(path.suffix == ".json" for path in files) == 1  # whatever its name
        options_path = _single_file(files, ".json" if only_json else "options.json")
        weights_path = _single_file(files, ".hdf5")
    with HDF5File(weights_path, "bilm-tf's weights") as weights:
        has_softmax = all(name in weights.datasets for name in bilm_tf.SOFTMAX)
    words = None
    if vocabulary or softmax or has_softmax or "char_cnn" not in read_json(options_path, "bilm-tf's options"):
        words = _vocabulary(files, vocabulary)
    config, weights = bilm_tf.read(options_path, weights_path, words, softmax)
    return config, weights, words if config.vocab_size else None


def _read_fluid(files: Sequence[Path], vocabulary: Path | None, _: None) -> Model:
    words = _vocabulary(files, vocabulary, required=True)
    return *fluid.read(_single_file(files, "embedding_para").parent, words), words


def _read_paddlenlp(files: Sequence[Path], vocabulary: Path | None, _: None) -> Model:
    words = _vocabulary(files, vocabulary, required=True)
    return *paddlenlp.read(_single_file(files, checkpoint.PARAMS), words), words


# by format: the ending of the name of a file that only this format has, and a function of files, vocabulary and softmax
READERS: dict[str, tuple[str, Callable[..., Model]]] = {
    "bilm-tf": ("options.json", _read_bilm_tf),
    "manylangs": ("encoder.pkl", lambda files, *_: manylangs.read(_single_file(files, "encoder.pkl").parent)),
    "fluid": ("embedding_para", _read_fluid),
    "paddlenlp": (checkpoint.PARAMS, _read_paddlenlp),
}
