"""A model's folder, complete on its own: it can be copied, mailed and loaded. A run of pretraining saves several.

    checkpoints/
      24180/                 named by its step
        config.json          the model's configuration, the version of the format, and the settings of its training
        vocab.txt            the vocabulary; characters.json: the alphabet, unless that is bytes
        model.safetensors    weights, by the names of the sublayers
        optimizer.safetensors, progress.json     what resuming takes; the arrays of the progress are in the former
      names.json             {"best": 8000, "final": 24180}

A folder is written under a temporary name, synced and renamed. None is ever changed. Only the files of a model are ever
deleted: others in a folder, and links to folders, are the user's.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.command import command_line
from elmo_core.files import disk
from elmo_core.files.tensors import join_arrays, read_tensors, split_arrays, write_tensors
from elmo_core.messages import UserError, join_names
from elmo_core.text.characters import CodePoints

FORMAT_VERSION = 2
CONFIG, VOCABULARY, CHARACTERS, WEIGHTS = (
    "config.json",
    "vocab.txt",
    "characters.json",
    "model.safetensors",
)
OPTIMIZER, PROGRESS = "optimizer.safetensors", "progress.json"
FILES = CONFIG, VOCABULARY, CHARACTERS, WEIGHTS, OPTIMIZER, PROGRESS
NAMES = "names.json"


def save_model(
    folder: Path,
    config,
    weights: Mapping[str, Any],
    vocabulary=None,
    training: tuple[Mapping, Mapping, Mapping] | None = None,
    advice: str = "",
    overwrite: bool = False,
) -> None:
    """Write a model as a new folder, which appears when it is complete. Raises unless the weights are finite.

    config: an `ELMoConfig`. weights: arrays of NumPy or Paddle. training: its settings, and optimizer and progress as in
    `save_training`. advice: what to do if weights are not finite. overwrite: replaces the model in this folder.
    """
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    if names := [
        name
        for name, x in arrays.items()
        if not np.isfinite([x.min(initial=0), x.max(initial=0)]).all()
    ]:
        dtype = arrays[names[0]].dtype
        raise UserError(
            f"{folder} is not saved: weights are not finite in {dtype}: {join_names(names, 3)}. {advice}"
        )
    settings, *states = training or [None]
    with disk.atomic_folder(folder, overwrite) as temporary:
        save_config(
            temporary, {"model": config.to_dict(), **({"training": settings} if training else {})}
        )
        if vocabulary:
            save_vocabulary(temporary, vocabulary)
        if states:
            save_training(temporary, *states)
        write_tensors(temporary / WEIGHTS, arrays)


def save_training(folder: Path, optimizer: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
    """Write what resuming takes. optimizer: {name: array}. progress: what JSON can hold, and arrays."""
    arrays, values = split_arrays(progress)
    arrays |= {name: np.asarray(array) for name, array in optimizer.items()}
    disk.write_json(folder / PROGRESS, values)
    write_tensors(folder / OPTIMIZER, arrays, {PROGRESS: disk.sha256(folder / PROGRESS)})


def load_params(folder: Path) -> dict[str, np.ndarray]:
    """Load the weights of a model, {name: array}."""
    return read_tensors(folder / WEIGHTS)[0]


def load_training(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Load the optimizer's arrays and the progress that `save_training` wrote."""
    path = folder / PROGRESS
    if not path.exists():
        raise UserError(
            f"{folder} has only weights, and no training to resume. `finetune_from` starts from them."
        )
    disk.check_input(path, "the progress of a training")  # not a pipe, which would be read for ever
    arrays, metadata = read_tensors(folder / OPTIMIZER)
    if metadata.get(PROGRESS) != disk.sha256(path):
        raise UserError(
            f"{path} is damaged, or not of the same training as {OPTIMIZER}. Copy the folder again."
        )
    values = disk.read_json(path, "the progress of a training")
    try:
        return arrays, join_arrays(values, arrays)
    except (KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} names arrays that {OPTIMIZER} does not have: it is not of this program."
        ) from error


def save_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write `config` and the version of the format to the folder's config.json."""
    disk.write_json(
        folder / CONFIG, {"format_version": FORMAT_VERSION, **config}, indent=2, allow_nan=False
    )


def load_config(folder: Path) -> dict[str, Any]:
    """Load the config.json that `save_config` wrote."""
    path = Path(folder, CONFIG)
    config = disk.read_json(path, "the configuration of the model in this folder")
    if isinstance(config.get("task"), str):
        elmo = config.get("elmo")
        advice = "It has no ELMo."
        if isinstance(elmo, str):
            advice = (
                f"Its ELMo is {folder / elmo if (folder / elmo).is_dir() else elmo}: name that."
            )
        raise UserError(f"{folder} holds a trained {config['task']}, expected an ELMo. {advice}")
    version = config.pop("format_version", None)
    if type(version) is not int:
        raise UserError(
            f"{path} is not of an ELMo model: it has no format_version. Name the folder of a model."
        )
    if version != FORMAT_VERSION:
        advice = (
            "Upgrade."
            if version > FORMAT_VERSION
            else f"Convert its weights: {command_line('convert.py import FILE.pdparams')}"
        )
        raise UserError(f"{path}: format_version is {version}, expected {FORMAT_VERSION}. {advice}")
    return config


def save_vocabulary(folder: Path, vocabulary) -> None:
    """Write the vocabulary, with its alphabet if that is not bytes."""
    vocabulary.save(folder / VOCABULARY)
    if isinstance(vocabulary.alphabet, CodePoints):
        disk.write_json(folder / CHARACTERS, vocabulary.alphabet.ids, ensure_ascii=False)


def exists(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file()


def is_own(folder: Path) -> bool:
    """Whether the folder, not a link to one, is a model and has no other files."""
    if folder.is_symlink() or not exists(folder):
        return False
    return all(path.name in FILES and not path.is_dir() for path in folder.iterdir())


def resolve(path: str | Path) -> Path:
    """Return the folder of a model, given by itself, or by the folder of a run (the latest) and a step or name in it.

    As in the published scripts, `checkpoints/10000.pdparams` is the same as `checkpoints/10000`.
    """
    path = disk.user_path(path)
    if path.is_file():
        raise UserError(
            f"{path} is a file, expected a model's folder. `{command_line('convert.py import')}` converts "
            "those of other programs."
        )
    if path.suffix == ".pdparams":
        path = path.with_suffix("")
    run, candidates = path.parent, [path, *(path / str(step) for step in steps(path)[-1:])]
    if not any(map(exists, candidates)) and steps(run):
        named = read_names(run).get(path.name)
        candidates.append(run / str(named))
    for folder in filter(exists, candidates):
        return folder
    if (path / CONFIG).is_file():
        load_config(path)  # raises if it is the folder of a task
    raise UserError(f"{path}: there is no model. {_available(path if path.is_dir() else run)}.")


def steps(run: Path) -> list[int]:
    """Return the steps of a run's checkpoints, in ascending order."""
    folders = run.iterdir() if run.is_dir() else ()
    return sorted(int(folder.name) for folder in folders if is_step(folder.name) and exists(folder))


def is_step(name: str) -> bool:
    return name.isascii() and name.isdecimal() and name == str(int(name))


def read_names(run: Path) -> dict[str, int]:
    """Return the steps of a run's named checkpoints: `best` and `final`."""
    path, expected = run / NAMES, "an object of names of checkpoints and their steps"
    names = disk.read_json(path, expected) if path.is_file() else {}
    if not all(type(step) is int for step in names.values()):
        raise UserError(f"{path}: found {names!r:.60}, expected {expected}.")
    return names


def write_names(run: Path, names: Mapping[str, int]) -> None:
    disk.write_json(run / NAMES, names)


def prune(run: Path, keep: int) -> None:
    """Delete all checkpoints of a run except the last `keep`, those with a name, and links."""
    named = read_names(run).values()
    for step in steps(run)[:-keep]:
        if step not in named:
            delete(run / str(step))


def delete(folder: Path) -> None:
    """Delete a model: its folder or, if that has files of others, only its own files. A link to a folder stays."""
    if folder.is_symlink():
        return
    if is_own(folder):
        hidden = disk.temporary_name(folder)  # a kill leaves the whole model, or none
        disk.rename(folder, hidden)
        (hidden / WEIGHTS).unlink()  # first, or the rest could be taken for a model
        shutil.rmtree(hidden)
        return
    for path in map(folder.joinpath, (WEIGHTS, *FILES)):
        if not path.is_dir():
            path.unlink(missing_ok=True)


def _available(run: Path) -> str:
    """List, for an error message, the checkpoints in a folder, or else its subfolders that are models or have some."""
    if available := steps(run):
        return f"{run} has {join_names([*map(str, available), *read_names(run)])}"
    folders = [str(folder) for folder in sorted(run.glob("*")) if steps(folder) or _is_elmo(folder)]
    found = f"There are some in {join_names(folders)}" if folders else f"{run.resolve()} has none"
    return f"{found}; `{command_line('convert.py list')}` shows those with a name"


def _is_elmo(folder: Path) -> bool:
    """Whether the folder is a model of ELMo, and not of a task."""
    try:
        return exists(folder) and bool(load_config(folder))
    except UserError:
        return False


def check_shapes(
    expected: Mapping[str, Sequence[int]], weights: Mapping[str, np.ndarray], source: str
) -> None:
    """Raise a UserError about `source` unless the weights have the expected names and shapes."""
    shapes = {name: tuple(shape) for name, shape in expected.items()}
    found = {name: array.shape for name, array in weights.items()}
    if different := [name for name in {**shapes, **found} if shapes.get(name) != found.get(name)]:
        faults = [
            f"{name} is {found.get(name, 'missing')}, expected {shapes.get(name, 'none')}"
            for name in different
        ]
        raise UserError(f"{source}: the weights do not match the model: {join_names(faults)}.")
