"""Checkpoints on disk: weights, optimizer and progress as dictionaries of arrays, and the configuration beside them.

    checkpoints/
      config.json        what is needed to rebuild the model, and the version of the format
      10000.pdparams     weights; a checkpoint exists if and only if this file does
      10000.pdopt        optimizer
      10000.pdstate      progress: step, epoch, position in the data, ...
      final.*  best.*

A checkpoint is named by its prefix, `checkpoints/10000`. This module knows nothing of the network.

Format. A file is the pickle of a dictionary, as `paddle.save` writes it, followed by a trailer: magic, length of the
pickle, id of the save, CRC-32 of all before. `paddle.load` stops at the end of the pickle, so it reads our files; those
of `paddle.save`, which have no trailer, are read here.

Whole or not at all. A file is written under a temporary name in its own folder, synced to the disk, then renamed. The
three files of a save carry its id. Where a prefix is overwritten, the rename of `.pdparams` is what replaces the old
checkpoint by the new one: a `.pdopt` or `.pdstate` whose rename a kill prevented is found by its id under its temporary
name, and the next save in the folder renames it.

A pickle is a program, and `paddle.load` runs it. Here it is data or an error: see pickles.py.
"""

import hashlib
import json
import math
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

from elmo_core.machine import disk
from elmo_core.machine.disk import atomic_write, read_json
from elmo_core.machine.messages import UserError, join_names, log
from elmo_core.machine.pickles import ChecksumFile, Pickler, Unpickler, scan
from elmo_core.text.characters import CodePoints

FORMAT_VERSION = 1
PARAMS, OPTIMIZER, PROGRESS = SUFFIXES = (".pdparams", ".pdopt", ".pdstate")
VOCABULARY = "vocab.txt"
FINAL = "final"
CHARACTERS = "characters.json"  # only beside models with an alphabet of their own
TRAILER = struct.Struct("<8sQ8sI")  # magic, length of the pickle, id of the save, CRC-32 of all before
MAGIC = b"\x89ELMockp"
NAME_TABLE = "StructuredToParameterName@@"  # paddle.save adds it to a state_dict


def save(
    prefix: str | Path,
    params: Mapping[str, Any],
    optimizer: Mapping[str, Any] | None = None,
    progress: Mapping[str, Any] | None = None,
) -> None:
    """Write the checkpoint `prefix`. A failure or a kill leaves the one that was there or the new one, never a mixture.

    params: {name: array}. optimizer, progress: arrays, numbers, strings and plain containers of them; `resolve` goes by
    the "step" of progress. Arrays are NumPy's, or what NumPy converts, such as Paddle's tensors. In a
    distributed job only rank 0 calls this.
    """
    prefix = Path(prefix)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    _tidy(prefix.parent)

    parts = {OPTIMIZER: optimizer, PROGRESS: progress, PARAMS: params}
    contents = {_file(prefix, part): dict(content) for part, content in parts.items() if content is not None}
    save_id = os.urandom(8)
    temporaries = {path: disk.temporary_name(path, save_id) for path in contents}
    with disk.cleanup_on_failure(prefix, temporaries.values()):
        for path, content in contents.items():
            with disk.create(temporaries[path], "wb") as file:
                counted = ChecksumFile(file)
                Pickler(counted).dump(content)
                file.write(_trailer(counted, save_id))

    # Renaming the weights is what makes a checkpoint: after all the rest if it is new, before it otherwise.
    for path in reversed(contents) if _file(prefix, PARAMS).exists() else contents:
        disk.rename(temporaries[path], path)
    for path in {_file(prefix, part) for part in parts}.difference(contents):
        path.unlink(missing_ok=True)


def prune(folder: str | Path, keep: int) -> None:
    """Delete all numbered checkpoints but the `keep` with the highest numbers; never `final` or `best`."""
    found = {path.stem for path in Path(folder).iterdir() if path.suffix in SUFFIXES and _is_number(path.stem)}
    kept = [name for name in _names(Path(folder)) if _is_number(name)][-keep:]
    for name in found.difference(kept):
        delete(Path(folder, name))


def delete(prefix: Path) -> None:
    """Delete the files of a checkpoint, the weights first: without them the rest does not count as one."""
    for suffix in SUFFIXES:
        _file(prefix, suffix).unlink(missing_ok=True)


def files(prefix: Path) -> list[Path]:
    """The files of a checkpoint, including those of the model in its folder."""
    beside = [prefix.parent / name for name in ("config.json", VOCABULARY, CHARACTERS)]
    return [path for path in (*(_file(prefix, suffix) for suffix in SUFFIXES), *beside) if path.exists()]


def exists(prefix: Path) -> bool:
    return _file(prefix, PARAMS).is_file()


def resolve(path: str | Path) -> Path:
    """The prefix of a checkpoint, given by its prefix, one of its files, or a folder, which stands for its latest.

    The latest has the highest step, by its number or, for `final`, its progress; `best` only if there is no other.
    """
    path = Path(path)
    prefix = path.with_suffix("") if path.suffix in SUFFIXES else path
    folder, weights = prefix.parent, _file(prefix, PARAMS)
    if weights.is_file():
        return prefix
    if path.is_dir():
        return path / _latest(path)
    if not folder.is_dir():
        raise UserError(f"{path}: no checkpoint, because there is no folder {folder}.")
    raise UserError(f"{path}: there is no {weights}. {_available(folder)}.")


def names(folder: str | Path) -> list[str]:
    """The checkpoints that a run has left in a folder: the numbers, rising, then `best` and `final`."""
    return [name for name in _names(Path(folder)) if _is_number(name) or name in ("best", "final")]


def step_of(prefix: str | Path) -> int:
    """The step at which a checkpoint was saved, from its number or its progress; -1 if it is not known."""
    prefix = Path(prefix)
    if _is_number(prefix.name):
        return int(prefix.name)
    try:
        return int(load_progress(prefix)["step"])
    except (UserError, KeyError, TypeError, ValueError) as error:
        log.warning("%s: its step is not known (%s). The numbered checkpoints are taken to be later.", prefix, error)
        return -1


def load_params(path: str | Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, {name: array}. `path` as in `resolve`."""
    path = _file(resolve(path), PARAMS)
    params = _read(path)
    for name, value in params.items():
        if not isinstance(value, np.ndarray):
            raise UserError(f"{path}: expected names with arrays, found {name!r:.80} with {type(value).__name__}.")
    return params


def load_optimizer(path: str | Path) -> dict[str, Any]:
    """The state of a checkpoint's optimizer, as it was given to `save`. `path` as in `resolve`."""
    return _read(_part(resolve(path), OPTIMIZER))


def load_progress(path: str | Path) -> dict[str, Any]:
    """The progress of a checkpoint's training, as it was given to `save`. `path` as in `resolve`."""
    return _read(_part(resolve(path), PROGRESS))


def save_config(folder: str | Path, config: Mapping[str, Any]) -> None:
    """Write `config` to the folder's config.json, with the version of the format."""
    config = {"format_version": FORMAT_VERSION, **config}
    with atomic_write(Path(folder, "config.json")) as file:
        file.write(json.dumps(config, indent=2, allow_nan=False) + "\n")


def save_model(folder: Path, config, params: Mapping[str, Any], vocabulary) -> None:
    """Make a new folder with a model that comes from elsewhere, as `final`; it appears when all is written."""
    with disk.atomic_folder(folder) as made:
        save_config(made, {"model": config.to_dict()})
        if vocabulary:
            save_vocabulary(made, vocabulary)
        save(made / FINAL, params)


def save_vocabulary(folder: str | Path, vocabulary) -> None:
    """Write the vocabulary's file beside the checkpoints."""
    vocabulary.save(Path(folder, VOCABULARY))
    if isinstance(vocabulary.alphabet, CodePoints):
        with atomic_write(Path(folder, CHARACTERS)) as file:
            json.dump(vocabulary.alphabet.ids, file, ensure_ascii=False)


def load_config(folder: str | Path, of: str = "the checkpoints beside it") -> dict[str, Any]:
    """What was given to `save_config`. of: whose it should be, for messages."""
    path = Path(folder, "config.json")
    config = read_json(path, f"the configuration of {of}, with format_version {FORMAT_VERSION}")
    version = config.pop("format_version", None)
    if type(version) is not int or version != FORMAT_VERSION:
        raise UserError(
            f"{path}: format_version is {version!r:.80}, expected {FORMAT_VERSION}. If it is newer, upgrade."
        )
    return config


def match(expected: Mapping[str, Sequence[int]], found: Mapping[str, np.ndarray], what: str) -> None:
    """Raise a UserError about `what` that names all weights that are missing, unexpected, or not usable.

    expected: {name: shape}. A usable array has that shape, a floating-point type, and finite values only.
    """
    faults = defaultdict(list)
    for name, shape in expected.items():
        array = found.get(name)
        if array is None:
            faults["missing"].append(f"{name} {tuple(shape)}")
        elif array.shape != tuple(shape):
            faults["of another shape"].append(f"{name} {array.shape}, expected {tuple(shape)}")
        elif array.dtype.kind != "f":
            faults["not floating-point"].append(f"{name} {array.dtype}")
        elif not is_finite(array):
            faults["not finite"].append(name)
    if unexpected := [f"{name} {array.shape}" for name, array in found.items() if name not in expected]:
        faults["unexpected"] = unexpected
    if faults:
        lines = [f"\n  {len(names)} {fault}: {join_names(names)}" for fault, names in faults.items()]
        raise UserError(f"{what}: the weights are not those of the model." + "".join(lines))


def fingerprint(weights: Mapping[str, np.ndarray]) -> str:
    """SHA-1 of all names and arrays in hexadecimal, to distinguish models."""
    digest = hashlib.sha1()
    for name, array in sorted(weights.items()):
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def is_finite(array: np.ndarray) -> bool:
    """Whether all values are finite. Looking at the extremes needs no temporary array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _file(prefix: Path, suffix: str) -> Path:
    return Path(f"{prefix}{suffix}")


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _names(folder: Path) -> list[str]:
    """All weights of a folder, the numbers first and rising."""
    found = sorted(path.stem for path in folder.glob(f"*{PARAMS}"))
    return sorted(found, key=lambda name: int(name) if _is_number(name) else math.inf)


def _latest(folder: Path) -> str:
    found = names(folder)
    steps = {name: int(name) for name in found if _is_number(name)}
    if "final" in found:
        steps["final"] = step_of(folder / "final") if steps else 0
    elif "best" in found and not steps:
        steps["best"] = 0
    if not steps:
        raise UserError(f"{folder}: no checkpoint named by a number, final or best. {_available(folder)}.")
    return max(steps, key=lambda name: (steps[name], name == "final"))


def _available(folder: Path) -> str:
    """The checkpoints in a folder, or the folders below it that have some, for messages."""
    if found := _names(folder):
        return f"In {folder} there is {join_names(found)}"
    folders = sorted({str(path.parent) for path in folder.glob(f"*/*{PARAMS}")})
    return f"There are checkpoints in {join_names(folders)}" if folders else f"In {folder} there is no checkpoint"


def _part(prefix: Path, suffix: str) -> Path:
    """The file saved together with the weights of `prefix`; under its temporary name if a kill prevented its rename."""
    path = _file(prefix, suffix)
    wanted, found = _save_id(_file(prefix, PARAMS)), _save_id(path)
    if wanted != found:
        for temporary, parts in disk.temporaries(prefix.parent):
            if parts["name"] == path.name and parts["id"] == wanted.hex():
                return temporary
    if not path.exists():
        raise UserError(f"There is no {path}: this checkpoint is weights only. Start from them with --finetune_from.")
    if wanted and found and wanted != found:
        raise UserError(f"{path} cannot be read: it was not saved together with {prefix.name}{PARAMS}.")
    return path


def _tidy(folder: Path) -> None:
    """Finish the renames of a killed save, and remove what other killed saves left. One process saves at a time."""
    for temporary, parts in disk.temporaries(folder):
        path = folder / parts["name"]
        if path.suffix in (OPTIMIZER, PROGRESS) and _save_id(path.with_suffix(PARAMS)).hex() == parts["id"]:
            disk.rename(temporary, path)
        elif path.suffix in SUFFIXES:
            temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    """The dictionary in a file, with every byte of it verified if there is a trailer."""
    try:
        with path.open("rb") as file:
            trailer = _find_trailer(file)
            scanned = scan(file, os.fstat(file.fileno()).st_size - len(trailer))
            if scanned.left:
                raise pickle.UnpicklingError(f"{scanned.left} bytes follow its end")
            if trailer and trailer != _trailer(scanned, TRAILER.unpack(trailer)[2]):
                raise pickle.UnpicklingError("its checksum is wrong")
            content = Unpickler(file, scanned.length).load()
        if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
            raise pickle.UnpicklingError("it is not a dictionary whose keys are names")
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle can raise anything
        reason = error if isinstance(error, pickle.UnpicklingError) else f"{type(error).__name__} {error}"
        raise UserError(
            f"{path} cannot be read: {reason}. A checkpoint holds arrays and plain containers, nothing else. "
            "The file is truncated or damaged, or was not written by this program or by paddle.save."
        ) from error
    content.pop(NAME_TABLE, None)
    return content


def _trailer(pickled: ChecksumFile, save_id: bytes) -> bytes:
    unsealed = TRAILER.pack(MAGIC, pickled.length, save_id, 0)[:-4]
    return unsealed + struct.pack("<I", zlib.crc32(unsealed, pickled.crc))


def _find_trailer(file: IO[bytes]) -> bytes:
    """The trailer of a file, empty if it has none. Leaves the file at its beginning."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - TRAILER.size))
    trailer = file.read()
    file.seek(0)
    return trailer if len(trailer) == TRAILER.size and trailer.startswith(MAGIC) else b""


def _save_id(path: Path) -> bytes:
    """The id of the save that wrote the file; empty if there is no file or no trailer."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        trailer = _find_trailer(file)
        return TRAILER.unpack(trailer)[2] if trailer else b""
    return b""
