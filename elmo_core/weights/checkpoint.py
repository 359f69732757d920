"""Checkpoints on disk: weights, optimizer and progress as dictionaries of arrays, and the configuration next to them.

    checkpoints/
      config.json        the model's configuration, and the version of the format
      10000.pdparams     weights; a checkpoint exists if and only if this file does
      10000.pdopt        optimizer
      10000.pdstate      progress: step, epoch, position in the data, ...
      final.*  best.*

A checkpoint is named by its prefix, `checkpoints/10000`. This module does not depend on the network.

Format. Each file is the pickle of a dictionary, as `paddle.save` writes it, and a trailer: magic, length of the pickle, id
of the save, CRC-32 of everything before. `paddle.load` stops at the end of the pickle, so it reads our files; files of
`paddle.save`, which have no trailer, are read here.

Atomicity. Each file is written under a temporary name in its folder, synced, then renamed. The three files of a save share
its id. When a prefix is overwritten, renaming `.pdparams` switches to the new checkpoint: a `.pdopt` or `.pdstate` whose
rename was prevented by a kill is found by its id under its temporary name, and the next save in the folder renames it.

Safety. A pickle can run arbitrary code when loaded; pickles.py reads only arrays and plain containers.
"""

import hashlib
import os
import pickle
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from elmo_core.files import disk, pickles
from elmo_core.files.pickles import ChecksumFile, Pickler
from elmo_core.files.streams import damage_named
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.characters import CodePoints

FORMAT_VERSION = 1
PARAMS, OPTIMIZER, PROGRESS = SUFFIXES = (".pdparams", ".pdopt", ".pdstate")
VOCABULARY = "vocab.txt"
FINAL = "final"
CHARACTERS = "characters.json"  # only for models with their own alphabet
MODEL_FILES = ("config.json", VOCABULARY, CHARACTERS)  # shared by the checkpoints of a folder
TRAILER = struct.Struct("<8sQ8sI")  # magic, length of the pickle, id of the save, CRC-32 of everything before
MAGIC = b"\x89ELMockp"
NAME_TABLE = "StructuredToParameterName@@"  # paddle.save adds it to a state_dict


def save(
    prefix: str | Path,
    params: Mapping[str, Any],
    optimizer: Mapping[str, Any] | None = None,
    progress: Mapping[str, Any] | None = None,
) -> None:
    """Write the checkpoint `prefix` atomically: a failure or kill leaves the old one or the new one, never a mixture.

    params: {name: array}. optimizer, progress: arrays, numbers, strings and plain containers of them; `resolve` reads
    progress["step"]. Arrays are NumPy's or convertible, such as Paddle tensors. In a distributed job, only rank 0 calls
    this.
    """
    prefix = Path(prefix)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    _tidy(prefix.parent)

    dictionaries = {OPTIMIZER: optimizer, PROGRESS: progress, PARAMS: params}
    contents = {_file(prefix, suffix): dict(values) for suffix, values in dictionaries.items() if values is not None}
    save_id = os.urandom(8)
    temporaries = {path: disk.temporary_name(path, save_id) for path in contents}
    with disk.cleanup_on_failure(prefix, temporaries.values()):
        for path, content in contents.items():
            with disk.create(temporaries[path], "wb") as file:
                counted = ChecksumFile(file)
                Pickler(counted).dump(content)
                file.write(_trailer(counted, save_id))

    # Renaming the weights activates a checkpoint: last if it is new, first if it replaces one.
    for path in reversed(contents) if _file(prefix, PARAMS).exists() else contents:
        disk.rename(temporaries[path], path)
    for path in {_file(prefix, suffix) for suffix in SUFFIXES}.difference(contents):
        path.unlink(missing_ok=True)


def prune(folder: str | Path, keep: int) -> None:
    """Delete all numbered checkpoints except the last `keep`; never `final` or `best`."""
    numbered = {path.stem for path in Path(folder).iterdir() if path.suffix in SUFFIXES and _is_number(path.stem)}
    kept = [name for name in names(folder) if _is_number(name)][-keep:]
    for name in numbered.difference(kept):
        delete(Path(folder, name))


def delete(prefix: Path) -> None:
    """Delete the files of a checkpoint, weights first: without them the others do not count as a checkpoint."""
    for suffix in SUFFIXES:
        _file(prefix, suffix).unlink(missing_ok=True)


def files(prefix: Path) -> list[Path]:
    """All files of a checkpoint, including the model's files in its folder."""
    shared = [prefix.parent / name for name in MODEL_FILES]
    return [path for path in (*(_file(prefix, suffix) for suffix in SUFFIXES), *shared) if path.exists()]


def exists(prefix: Path) -> bool:
    return _file(prefix, PARAMS).is_file()


def resolve(path: str | Path) -> Path:
    """Resolve a prefix, one of its files, or a folder (its latest checkpoint) to a prefix.

    The latest has the highest step, from its number or, for `final`, its progress; `best` counts only if there is no other.
    """
    path = Path(path)
    prefix = path.with_suffix("") if path.suffix in SUFFIXES else path
    folder, weights = prefix.parent, _file(prefix, PARAMS)
    if weights.is_file():
        return prefix
    if path.is_dir():
        return path / _latest(path)
    if not folder.is_dir():
        raise UserError(f"{path}: no checkpoint, because {folder} does not exist.")
    raise UserError(f"{weights} does not exist. {_available(folder)}.")


def names(folder: str | Path) -> list[str]:
    """Names of a run's checkpoints in a folder: the numbers in ascending order, then `best` and `final`."""
    stems = [path.stem for path in Path(folder).glob(f"*{PARAMS}")]
    return [*sorted(filter(_is_number, stems), key=int), *sorted({"best", "final"}.intersection(stems))]


def step_of(prefix: str | Path) -> int:
    """The step at which a checkpoint was saved, from its number or its progress; -1 if unknown."""
    prefix = Path(prefix)
    if _is_number(prefix.name):
        return int(prefix.name)
    try:
        return int(load_progress(prefix)["step"])
    except (UserError, KeyError, TypeError, ValueError):
        log.warning(f"{prefix}{PROGRESS} has no step or cannot be read. Numbered checkpoints are taken to be later.")
        return -1


def load_params(path: str | Path) -> dict[str, np.ndarray]:
    """Load the weights of a checkpoint, {name: array}. `path` as in `resolve`."""
    path = _file(resolve(path), PARAMS)
    params = _read(path)
    for name, value in params.items():
        if not isinstance(value, np.ndarray):
            raise UserError(f"{path}: expected arrays by name, found {name!r:.80} with {type(value).__name__}.")
    return params


def load_optimizer(path: str | Path) -> dict[str, Any]:
    """Load the optimizer state of a checkpoint, as passed to `save`. `path` as in `resolve`."""
    return _read(_companion(resolve(path), OPTIMIZER))


def load_progress(path: str | Path) -> dict[str, Any]:
    """Load the training progress of a checkpoint, as passed to `save`. `path` as in `resolve`."""
    return _read(_companion(resolve(path), PROGRESS))


def save_config(folder: str | Path, config: Mapping[str, Any]) -> None:
    """Write `config` and the version of the format to the folder's config.json."""
    config = {"format_version": FORMAT_VERSION, **config}
    disk.write_json(Path(folder, "config.json"), config, indent=2, allow_nan=False)


def save_model(folder: Path, config, params: Mapping, vocabulary, *training) -> None:
    """Save an imported model as `final` in a new folder, which appears when complete. Raise unless finite.

    training: optimizer and progress, as in `save`.
    """
    if names := not_finite(params):
        dtype = params[names[0]].dtype
        raise UserError(f"{folder} is not written: weights are not finite in {dtype}: {join_names(names, 3)}.")
    with disk.atomic_folder(folder) as temporary:
        save_config(temporary, {"model": config.to_dict()})
        if vocabulary:
            save_vocabulary(temporary, vocabulary)
        save(temporary / FINAL, params, *training)


def save_vocabulary(folder: str | Path, vocabulary) -> None:
    """Write the vocabulary next to the checkpoints, with its alphabet if that is not bytes."""
    vocabulary.save(Path(folder, VOCABULARY))
    if isinstance(vocabulary.alphabet, CodePoints):
        disk.write_json(Path(folder, CHARACTERS), vocabulary.alphabet.ids, ensure_ascii=False)


def load_config(folder: str | Path, owner: str = "the checkpoints next to it") -> dict[str, Any]:
    """Load the config.json that `save_config` wrote. owner: the thing it configures, named in error messages."""
    path = Path(folder, "config.json")
    config = disk.read_json(path, f"the configuration of {owner}")
    version = config.pop("format_version", None)
    if type(version) is not int or version != FORMAT_VERSION:
        raise UserError(f"{path}: format_version is {version!r:.80}, expected {FORMAT_VERSION}. If newer, upgrade.")
    return config


def match(expected: Mapping[str, Sequence[int]], weights: Mapping[str, np.ndarray], source: str) -> None:
    """Raise a UserError about `source` that names all weights that are missing, unexpected or unusable.

    expected: {name: shape}. A usable array has that shape, a floating-point type, and only finite values.
    """
    faults = defaultdict(list)
    for name, shape in expected.items():
        array = weights.get(name)
        if array is None:
            faults["missing"].append(f"{name} {tuple(shape)}")
        elif array.shape != tuple(shape):
            faults["of the wrong shape"].append(f"{name} {array.shape}, expected {tuple(shape)}")
        elif array.dtype.kind != "f":
            faults["not floating-point"].append(f"{name} {array.dtype}")
        elif not is_finite(array):
            faults["not finite"].append(name)
    if unexpected := [f"{name} {array.shape}" for name, array in weights.items() if name not in expected]:
        faults["unexpected"] = unexpected
    if faults:
        lines = [f"\n  {len(names)} {fault}: {join_names(names)}" for fault, names in faults.items()]
        raise UserError(f"{source}: the weights do not match the model." + "".join(lines))


def fingerprint(weights: Mapping[str, np.ndarray]) -> str:
    """Hexadecimal SHA-1 of all names and arrays, to distinguish models."""
    digest = hashlib.sha1()
    for name, array in sorted(weights.items()):
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def not_finite(weights: Mapping[str, Any]) -> list[str]:
    """The names of the arrays, NumPy's or Paddle's, with a value that is not finite."""
    return [name for name, weight in weights.items() if not is_finite(np.asarray(weight))]


def is_finite(array: np.ndarray) -> bool:
    """Whether all values are finite. Checks only the extremes, without a temporary array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _file(prefix: Path, suffix: str) -> Path:
    return Path(f"{prefix}{suffix}")


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _latest(folder: Path) -> str:
    candidates = names(folder)
    numbers = [name for name in candidates if _is_number(name)]
    if not candidates:
        raise UserError(f"{folder}: no checkpoint named by a number, final or best. {_available(folder)}.")
    if "final" in candidates and (not numbers or step_of(folder / "final") >= int(numbers[-1])):
        return "final"
    return numbers[-1] if numbers else "best"


def _available(folder: Path) -> str:
    """List, for an error message, the checkpoints in a folder, or else its subfolders that have some."""
    if available := names(folder) or sorted(path.stem for path in folder.glob(f"*{PARAMS}")):
        return f"{folder} has {join_names(available)}"
    folders = sorted({str(path.parent) for path in folder.glob(f"*/*{PARAMS}")})
    return f"There are checkpoints in {join_names(folders)}" if folders else f"{folder.resolve()} has no checkpoint"


def _companion(prefix: Path, suffix: str) -> Path:
    """The file saved together with the weights of `prefix`, under its temporary name if a kill prevented the rename."""
    path = _file(prefix, suffix)
    save_id, own_id = _save_id(_file(prefix, PARAMS)), _save_id(path)
    if save_id != own_id:
        for temporary, fields in disk.temporaries(prefix.parent):
            if fields["name"] == path.name and fields["id"] == save_id.hex():
                return temporary
    if not path.exists():
        raise UserError(f"{path} does not exist: this checkpoint has only weights. `finetune_from` starts from them.")
    if save_id and own_id and save_id != own_id:
        raise UserError(f"{path} cannot be read: it was not saved together with {prefix.name}{PARAMS}.")
    return path


def _tidy(folder: Path) -> None:
    """Finish the renames of a killed save and remove other temporary files. One process saves at a time."""
    for temporary, fields in disk.temporaries(folder):
        path = folder / fields["name"]
        if path.suffix in (OPTIMIZER, PROGRESS) and _save_id(path.with_suffix(PARAMS)).hex() == fields["id"]:
            disk.rename(temporary, path)
        elif path.suffix in SUFFIXES:
            temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    """Read the dictionary in a file. Every byte is verified if there is a trailer."""
    with damage_named(path, "Or it is not a file of arrays and plain containers."):
        with path.open("rb") as file:
            trailer = _find_trailer(file)
            content, counted = pickles.load(file, os.fstat(file.fileno()).st_size - len(trailer))
        if counted.remaining:
            raise pickle.UnpicklingError(f"{counted.remaining} bytes follow its end")
        if trailer and trailer != _trailer(counted, TRAILER.unpack(trailer)[2]):
            raise pickle.UnpicklingError("its checksum is wrong")
        if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
            raise pickle.UnpicklingError("it is not a dictionary whose keys are names")
    content.pop(NAME_TABLE, None)
    return content


def _trailer(pickled: ChecksumFile, save_id: bytes) -> bytes:
    unsealed = TRAILER.pack(MAGIC, pickled.length, save_id, 0)[:-4]
    return unsealed + struct.pack("<I", zlib.crc32(unsealed, pickled.crc))


def _find_trailer(file: IO[bytes]) -> bytes:
    """Read the trailer of a file, empty if there is none, and return to the start."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - TRAILER.size))
    trailer = file.read()
    file.seek(0)
    return trailer if len(trailer) == TRAILER.size and trailer.startswith(MAGIC) else b""


def _save_id(path: Path) -> bytes:
    """The id of the save that wrote the file; empty without a file or trailer."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        trailer = _find_trailer(file)
        return TRAILER.unpack(trailer)[2] if trailer else b""
    return b""
