"""Read models of other projects as they are published: single files, folders or archives, in any supported format."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.machine.disk import read_json
from elmo_core.machine.hdf5_file import HDF5File, quoted
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf, fluid, manylangs
from elmo_core.weights.archives import unpacked

Model = tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]


def read(format: str, paths: Sequence[Path], parent: Path) -> Model:
    """Read a model from files, folders and archives, under our names. Archives are unpacked inside `parent`."""
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist.")
    with ExitStack() as stack:
        sources = [stack.enter_context(unpacked(path, parent)) for path in paths]
        entries = [path for source in sources for path in (sorted(source.rglob("*")) if source.is_dir() else [source])]
        return READERS[format]([path for path in entries if path.is_file()])


def is_vocabulary(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".txt", ".txt.gz")) and "vocab" in path.name


def _single_file(files: Sequence[Path], ending: str) -> Path:
    """The only file whose name has this ending. Raises if there is none or more than one."""
    matches = [path for path in files if path.name.endswith(ending)]
    if len(matches) != 1:
        names = quoted(sorted(path.name for path in files)) or "no files"
        raise UserError(f"{len(matches)} files end with {ending}, expected one. Found {names}.")
    return matches[0]


def _read_bilm_tf(files: Sequence[Path]) -> Model:
    """Read bilm-tf's files, whose names may differ, like NLPL's model.hdf5."""
    options_path, weights_path = _single_file(files, "options.json"), _single_file(files, ".hdf5")
    with HDF5File(weights_path, "bilm-tf's weights") as weights:
        has_softmax = all(name in weights.datasets for name in bilm_tf.SOFTMAX)
    vocabulary = None
    if has_softmax or "char_cnn" not in read_json(options_path, "bilm-tf's options"):
        path = next(filter(is_vocabulary, files), None)
        vocabulary = Vocabulary.from_file(path) if path else None
    return *bilm_tf.read(options_path, weights_path, vocabulary), vocabulary


def _read_fluid(files: Sequence[Path]) -> Model:
    vocabulary = Vocabulary.from_file(next(filter(is_vocabulary, files)))
    return *fluid.read(_single_file(files, "embedding_para").parent, vocabulary), vocabulary


READERS: dict[str, Callable[[Sequence[Path]], Model]] = {
    "bilm-tf": _read_bilm_tf,
    "manylangs": lambda files: manylangs.read(_single_file(files, "encoder.pkl").parent),
    "fluid": _read_fluid,
}
