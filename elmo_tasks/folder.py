"""The folder of a trained model.

It holds the old model or the new one, whole, at every moment of a save.

FOLDER/
  config.json                       the task, its settings, its parts, the names of the next two
  model-1a2b3c4d5e6f.safetensors    the weights, of ELMo only if it was tuned; word vectors;
                                    long lists
  elmo-1a2b3c4d5e6f/                a copy of its ELMo, unless that is a bundled or published model
  README.md                         the model card
  NOTICE.md                         the cards of other models, if the weights come from theirs
  curve.svg                         the epochs of its training, drawn
  training-1.safetensors, .lock     of a training that is not complete

A save writes files whose names carry a digest of their content, replaces config.json, which names
them, and removes files with such names that it does not name. It copies, moves or removes no other.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.display.curve import CURVE, CurveFile
from elmo_core.files import disk
from elmo_core.files.tensors import digest, write_tensors
from elmo_core.messages import UserError, join_names
from elmo_core.network.bilm import weights_of
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import cards, checkpoint, published
from elmo_core.weights.cards import CARD, NOTICE
from elmo_tasks.inputs import PretrainedELMo

FORMAT = 2
CONFIG = "config.json"
LOCK = ".lock"
WEIGHTS = "weights"  # a key of config.json
ELMO = "elmo"  # a key of config.json
WEIGHTS_FILE = re.compile(r"model-[0-9a-f]{12}\.safetensors")
ELMO_FOLDER = re.compile(r"elmo-[0-9a-f]{12}")
# What a save writes before config.json.
SAVED_FIRST = re.compile(f"{WEIGHTS_FILE.pattern}|{ELMO_FOLDER.pattern}")
STATE = "training-{}.safetensors"  # of each phase of a training
STATE_FILE = re.compile(r"training-(\d+)\.safetensors")
NAMES = (
    rf"{CONFIG}|{CARD}|{NOTICE}|{CURVE}|"
    rf"{STATE_FILE.pattern}|{WEIGHTS_FILE.pattern}|{ELMO_FOLDER.pattern}"
)
# What a save that was killed leaves.
TEMPORARY = re.compile(rf"\.({NAMES})\.[0-9a-f]{{16}}\.tmp")


def read_config(folder: Path) -> dict[str, Any] | None:
    """The config.json of a task's folder; None if it is not that of a task."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    values = disk.read_json(path, "the settings of a trained model")
    if not isinstance(values.get("task"), str):
        return None
    version = values.get("format_version")
    if version != FORMAT:
        raise UserError(
            f"{path}: format_version is {version!r:.20}, expected {FORMAT}. "
            "It is of another version of the library: train again, in a new folder."
        )
    weights = values.get(WEIGHTS)
    if not WEIGHTS_FILE.fullmatch(str(weights)):
        raise UserError(f"{path}: {WEIGHTS} is {weights!r:.60}, expected the name of a file.")
    source = values.get(ELMO)
    is_name = isinstance(source, str) and source in published.table()
    if source is not None and not is_name and not is_copy(source):
        raise UserError(
            f"{path}: {ELMO} is {source!r:.60}, expected a model's name or {ELMO}-DIGEST."
        )
    return values


def is_copy(source: Any) -> bool:
    """Whether the ELMo that config.json names is a copy in the model's folder."""
    return isinstance(source, str) and ELMO_FOLDER.fullmatch(source) is not None


def elmo_folder(folder: Path, source: str | None) -> Path | None:
    """The folder of the ELMo that config.json names: a copy, or a model by its name."""
    if source is None:
        return None
    return folder / source if is_copy(source) else published.install(source)


def write(
    folder: Path,
    values: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    pretrained: PretrainedELMo | None,
    card: str,
    notice: str | None,
) -> None:
    """Save a model in its locked folder.

    Then remove the model that it replaces, and the states of its training.

    values: of config.json, but for the names of its weights and its ELMo. tensors: the weights.
    notice: what goes with them, see elmo_core/weights/cards.py; None: what is there stays.
    """
    source = None
    if pretrained:
        source = pretrained.name or f"elmo-{_elmo_digest(pretrained)}"
    weights = f"model-{_digest(tensors)}.safetensors"
    config = {**values, ELMO: source, WEIGHTS: weights}
    try:
        if is_copy(source):
            _write_elmo(folder / source, pretrained)
        write_tensors(folder / weights, tensors)
        disk.write_json(folder / CONFIG, config, indent=1, ensure_ascii=False)
    finally:
        _remove_unnamed(folder)
    for state in states(folder):
        state.unlink()
    cards.replace(folder / CARD, card)
    if notice is not None:
        cards.replace(folder / NOTICE, cards.BEGINNING + notice if notice else "")


def _write_elmo(folder: Path, pretrained: PretrainedELMo) -> None:
    """Write a copy of an ELMo, unless the folder, whose name has its digest, holds it."""
    if checkpoint.exists(folder):
        return
    if folder.exists():
        raise UserError(f"{folder} holds other files. Move them.")
    bilm = pretrained.bilm
    checkpoint.save_model(
        folder,
        config=bilm.config,
        weights=weights_of(bilm),
        vocabulary=_vocabulary(pretrained),
        notice=bilm.notice,
    )


def _remove_unnamed(folder: Path) -> None:
    """Remove weights and copies of an ELMo that config.json does not name.

    They were replaced, or left by a killed save.
    """
    values = read_config(folder) or {}
    for path in folder.iterdir():
        if path.is_symlink() or path.name in (values.get(WEIGHTS), values.get(ELMO)):
            continue
        if WEIGHTS_FILE.fullmatch(path.name) and path.is_file():
            path.unlink()
        elif ELMO_FOLDER.fullmatch(path.name) and path.is_dir():
            checkpoint.delete(path)


def _vocabulary(pretrained: PretrainedELMo) -> Vocabulary | None:
    """The vocabulary of an ELMo, also of one that reads characters only, if its words are known."""
    if pretrained.vocabulary or not pretrained.words:
        return pretrained.vocabulary
    return Vocabulary(SPECIAL_TOKENS + list(pretrained.words))


def _digest(tensors: Mapping[str, np.ndarray]) -> str:
    """12 hexadecimal digits of the content of tensors, and of their names."""
    parts = []
    for name, tensor in tensors.items():
        parts.append(f"{name} {tensor.dtype} {tensor.shape}".encode())
        parts.append(np.ascontiguousarray(tensor))
    return digest(parts)[:12]


def _elmo_digest(pretrained: PretrainedELMo) -> str:
    """The digest of an ELMo's weights, configuration and words."""
    description = json.dumps([pretrained.bilm.config.to_dict(), list(pretrained.words)])
    content = np.frombuffer(description.encode(), np.uint8)
    return _digest({"description": content, **weights_of(pretrained.bilm)})


# Training


def is_finished(folder: Path) -> bool:
    """Whether the folder holds a model, and no training that is to replace it."""
    return (folder / CONFIG).exists() and not states(folder)


def states(folder: Path) -> list[Path]:
    """The saved states of a training that is not complete, a file for each of its phases."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if STATE_FILE.fullmatch(path.name))


def phase_of(state: Path) -> int:
    """The number of the phase of a training whose state a file holds."""
    return int(STATE_FILE.fullmatch(state.name)[1])


@contextmanager
def locked(
    folder: Path, task: str, overwrite: bool = False, resume: bool = False
) -> Iterator[Path]:
    """Check, make and lock the folder of a model that is about to be trained or saved."""
    folder = disk.user_path(folder)
    check(folder, task, overwrite, resume)
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / LOCK):
        check(folder, task, overwrite, resume)  # another training may have ended since
        for path in folder.iterdir():
            if not TEMPORARY.fullmatch(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        yield folder


def check(folder: Path, task: str, overwrite: bool, resume: bool = False) -> None:
    """Raise unless a model can be trained or saved in the folder.

    It is new or empty, or has a model of this kind, or its training, to replace or resume.
    """
    advice = "Name a new folder, or an empty one."
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError(f"`save_dir` {folder} is not a folder. {advice}")
    disk.check_output("`save_dir`", folder / CONFIG)
    values = read_config(folder)
    is_training = len(states(folder)) > 0
    if (folder / CONFIG).exists() and (values is None or values["task"] != task):
        kind = f"a trained {values['task']}" if values else f"{CONFIG} of another program"
        raise UserError(f"`save_dir` {folder} holds {kind}, expected a {task}. {advice}")
    if values is None and not is_training:
        others = [path.name for path in _visible_files(folder)]
        if others:
            raise UserError(
                f"`save_dir` {folder} holds {join_names(others, 3)}, and no {task}. {advice}"
            )
    elif not overwrite and not resume:
        if is_training:
            what = (
                "an interrupted training: continue it with the same settings and `resume=True`, "
                "or start again with `overwrite=True`"
            )
        else:
            what = f"a {task}, which `overwrite=True` replaces"
        raise UserError(f"`save_dir` {folder} already holds {what}; or name another folder.")


def _visible_files(folder: Path) -> list[Path]:
    """The files of others that are not hidden.

    Weights and copies of an ELMo are ours: a killed first save leaves them without a config.json.
    So is a curve, which remains if the state of a training is deleted.
    """
    if not folder.exists():
        return []
    found = []
    for path in folder.iterdir():
        is_curve = path.name == CURVE and not CurveFile(path).is_of_others()
        is_ours = is_curve or SAVED_FIRST.fullmatch(path.name)
        if not path.name.startswith(".") and not is_ours:
            found.append(path)
    return sorted(found)
