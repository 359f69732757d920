"""Files of others' models as they are published: alone, in folders, in archives, each format by its reader."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf, fluid, manylangs
from elmo_core.weights.archives import unpacked

Model = tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]


def read(format: str, paths: Sequence[Path], beside: Path) -> Model:
    """The model in files, folders and archives, under our names. Archives are unpacked into the folder `beside`."""
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder.")
    with ExitStack() as stack:
        return READERS[format]([stack.enter_context(unpacked(path, beside)) for path in paths])


def is_vocabulary(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".txt", ".txt.gz"))


def _files(places: Sequence[Path]) -> list[Path]:
    """The files given, and those in the folders given."""
    found = [path for place in places for path in (sorted(place.rglob("*")) if place.is_dir() else [place])]
    return [path for path in found if path.is_file()]


def _folder_of(places: Sequence[Path], name: str) -> Path:
    """The folder with the file of that name, one of those given or the only one in them."""
    files = _files(places)
    folders = {path.parent for path in files if path.name == name}
    if direct := folders.intersection(places):
        folders = direct
    if len(folders) != 1:
        there = ", ".join(path.name for path in files[:10]) or "no files"
        raise UserError(f"{' '.join(map(str, places))}: {len(folders)} files {name}, expected one. There are {there}.")
    return folders.pop()


def _read_fluid(places: Sequence[Path]) -> Model:
    vocabulary = Vocabulary.from_file(next(filter(is_vocabulary, places)))
    return *fluid.read(_folder_of(places, "embedding_para"), vocabulary), vocabulary


READERS: dict[str, Callable[[Sequence[Path]], Model]] = {
    "bilm-tf": lambda places: bilm_tf.read_files(_files(places)),
    "nlpl-zip": lambda places: bilm_tf.read_files(_files(places)),
    "manylangs": lambda places: manylangs.read(_folder_of(places, "encoder.pkl")),
    "fluid": _read_fluid,
}
