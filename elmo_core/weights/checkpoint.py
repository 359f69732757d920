"""A model's folder, complete on its own: it can be copied, mailed and loaded.

A run of pretraining saves several:

    checkpoints/
      24180/                     named by its step
        config.json              the model's configuration, the version of the format, and the
                                 settings of its training
        vocab.txt                the vocabulary
        unknown_words.tsv        words outside it, from which spelling is learnt
        characters.json          the alphabet, unless that is bytes
        model.safetensors        weights, by the names of the sublayers
        NOTICE.md                if the weights come from another model: its licence, see cards.py
        progress.json            what resuming takes
        optimizer.safetensors    what resuming takes; it has the arrays of the progress, too
      names.json                 {"best": 8000, "final": 24180}

A folder is written under a temporary name, synced and renamed. None is ever changed. Only the files
of a model are ever deleted: others in a folder, and links to folders, are the user's.
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
from elmo_core.text.speller import UnknownWords
from elmo_core.text.text_files import read_lines
from elmo_core.text.vocabulary import UNK, fingerprint
from elmo_core.weights import cards

FORMAT_VERSION = 2
CONFIG = "config.json"
VOCABULARY = "vocab.txt"
UNKNOWN_WORDS = "unknown_words.tsv"
CHARACTERS = "characters.json"
WEIGHTS = "model.safetensors"
OPTIMIZER = "optimizer.safetensors"
PROGRESS = "progress.json"
FILES = (
    CONFIG,
    VOCABULARY,
    UNKNOWN_WORDS,
    CHARACTERS,
    WEIGHTS,
    OPTIMIZER,
    PROGRESS,
    cards.NOTICE,
)
NAMES = "names.json"


def save_model(
    folder: Path,
    config,
    weights: Mapping[str, Any],
    vocabulary=None,
    training: tuple[Mapping, Mapping, Mapping] | None = None,
    notice: str = "",
    advice: str = "",
    overwrite: bool = False,
) -> None:
    """Write a model as a new folder, which appears when it is complete.

    Raises unless the weights are finite.
    config: an `ELMoConfig`. weights: arrays of NumPy or Paddle. training: its settings, and
    optimizer and progress as in `save_training`. notice: what goes with the weights, see
    cards.py. advice: what to do if weights are not finite.
    overwrite: replaces the model in this folder.
    """
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    names = [name for name, array in arrays.items() if not _is_finite(array)]
    if names:
        dtype = arrays[names[0]].dtype
        raise UserError(
            f"{folder} is not saved: weights are not finite in {dtype}: "
            f"{join_names(names, 3)}. {advice}"
        )
    values = {"model": config.to_dict()}
    with disk.atomic_folder(folder, overwrite) as temporary:
        if training:
            settings, optimizer, progress = training
            values["training"] = settings
            save_training(temporary, optimizer, progress)
        if vocabulary:
            save_vocabulary(temporary, vocabulary)
            if vocabulary.unknown_words is not None:
                save_unknown_words(temporary, vocabulary.unknown_words)
                values["unknown_words"] = unknown_words_identity(vocabulary.unknown_words)
        save_config(temporary, values)
        cards.write_notice(temporary, notice)
        write_tensors(temporary / WEIGHTS, arrays)


def _is_finite(array: np.ndarray) -> bool:
    """Tell whether all values are finite, without an array of booleans."""
    return bool(np.isfinite([array.min(initial=0), array.max(initial=0)]).all())


def save_training(folder: Path, optimizer: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
    """Write what resuming takes.

    optimizer: {name: array}. progress: what JSON can hold, and arrays.
    """
    arrays, values = split_arrays(progress)
    for name, array in optimizer.items():
        arrays[name] = np.asarray(array)
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
            f"{folder} has only weights, and no training to resume. "
            "`finetune_from` starts from them."
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
    values = {"format_version": FORMAT_VERSION, **config}
    disk.write_json(folder / CONFIG, values, indent=2, allow_nan=False)


def load_config(folder: Path) -> dict[str, Any]:
    """Load the config.json that `save_config` wrote."""
    path = Path(folder, CONFIG)
    config = disk.read_json(path, "the configuration of the model in this folder")
    if isinstance(config.get("task"), str):
        elmo = config.get("elmo")
        advice = "It has no ELMo."
        if isinstance(elmo, str):
            own = folder / elmo
            advice = f"Its ELMo is {own if own.is_dir() else elmo}: name that."
        raise UserError(f"{folder} holds a trained {config['task']}, expected an ELMo. {advice}")
    version = config.pop("format_version", None)
    if type(version) is not int:
        raise UserError(
            f"{path} is not of an ELMo model: it has no format_version. Name the folder of a model."
        )
    if version != FORMAT_VERSION:
        advice = "Upgrade."
        if version < FORMAT_VERSION:
            advice = f"Convert its weights: {command_line('convert.py import FILE.pdparams')}"
        raise UserError(f"{path}: format_version is {version}, expected {FORMAT_VERSION}. {advice}")
    return config


def save_vocabulary(folder: Path, vocabulary) -> None:
    """Write the vocabulary, with its alphabet if that is not bytes."""
    vocabulary.save(folder / VOCABULARY)
    if isinstance(vocabulary.alphabet, CodePoints):
        disk.write_json(folder / CHARACTERS, vocabulary.alphabet.ids, ensure_ascii=False)


def save_unknown_words(folder: Path, words: UnknownWords) -> None:
    """Write the words from which spelling is learnt, with their counts; first that of all."""
    with disk.atomic_write(folder / UNKNOWN_WORDS, "wb") as file:
        file.writelines(f"{line}\n".encode() for line in _unknown_lines(words))


def load_unknown_words(folder: Path, identity: str) -> UnknownWords:
    """Read the words that `save_unknown_words` wrote. identity: theirs, as config.json has it."""
    path = folder / UNKNOWN_WORDS
    disk.check_input(path, "words from which the model in this folder learns to spell")
    lines = list(read_lines(path))
    found = _lines_identity(lines)
    if found != identity:
        raise UserError(
            f"{path} is not the file that was written with the model: "
            f"found {found}, expected {identity}. Copy the folder again."
        )
    counts = {}
    for line in lines:
        word, _, count = line.partition("\t")
        counts[word] = int(count)
    total = counts.pop(UNK)
    return UnknownWords(counts, total)


def unknown_words_identity(words: UnknownWords) -> str:
    """Return the number of words and a short fingerprint of the file."""
    return _lines_identity(_unknown_lines(words))


def _unknown_lines(words: UnknownWords) -> list[str]:
    counts = {UNK: words.total, **words.counts}
    return [f"{word}\t{count}" for word, count in counts.items()]


def _lines_identity(lines: Sequence[str]) -> str:
    return f"{max(0, len(lines) - 1):,} words (SHA-1 {fingerprint(lines)[:12]})"


def exists(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file()


def is_own(folder: Path) -> bool:
    """Whether the folder, not a link to one, is a model and has no other files."""
    if folder.is_symlink() or not exists(folder):
        return False
    return all(path.name in FILES and not path.is_dir() for path in folder.iterdir())


def resolve(path: str | Path) -> Path:
    """Return the folder of a model.

    path: the folder itself; that of a run, for its latest model; or, in that of a run, a step or a
    name. As in the published scripts, `checkpoints/10000.pdparams` is `checkpoints/10000`.
    """
    path = disk.user_path(path)
    if path.is_file():
        raise UserError(
            f"{path} is a file, expected a model's folder. "
            f"`{command_line('convert.py import')}` converts those of other programs."
        )
    if path.suffix == ".pdparams":
        path = path.with_suffix("")
    if exists(path):
        return path
    own_steps = steps(path)
    if own_steps:
        return path / str(own_steps[-1])
    run = path.parent
    if steps(run):
        named = run / str(read_names(run).get(path.name))
        if exists(named):
            return named
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
    path = run / NAMES
    expected = "an object of names of checkpoints and their steps"
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
    """Delete a model: its folder or, if that has files of others, only its own files.

    A link to a folder stays.
    """
    if folder.is_symlink():
        return
    if is_own(folder):
        hidden = disk.temporary_name(folder)  # a kill leaves the whole model, or none
        disk.rename(folder, hidden)
        (hidden / WEIGHTS).unlink()  # first, or the rest could be taken for a model
        shutil.rmtree(hidden)
        return
    for name in [WEIGHTS, *FILES]:
        path = folder / name
        if not path.is_dir():
            path.unlink(missing_ok=True)


def _available(run: Path) -> str:
    """List, for an error message, the checkpoints in a folder.

    If it has none, list its subfolders that are models or have some.
    """
    available = [str(step) for step in steps(run)]
    if available:
        return f"{run} has {join_names(available + list(read_names(run)))}"
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
    faults = []
    for name in {**shapes, **found}:
        if shapes.get(name) != found.get(name):
            shape = found.get(name, "missing")
            faults.append(f"{name} is {shape}, expected {shapes.get(name, 'none')}")
    if faults:
        raise UserError(f"{source}: the weights do not match the model: {join_names(faults)}.")
