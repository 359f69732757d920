"""What trainings leave behind: a model's folder, and the results of several runs in one JSON file."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from elmo_core.config import differences
from elmo_core.files import checkpoint
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log

Kind = TypeVar("Kind")


def check_model_folder(flag: str, folder: Path, kind: str, overwrite: bool) -> None:
    """Refuse, before training, a folder that cannot be written, or holds another model. kind: the key in its config.json."""
    disk.check_output(flag, folder / "best.pdparams")
    if not (folder / "config.json").exists():
        return
    if kind not in checkpoint.load_config(folder):
        raise UserError(f"{flag} {folder} holds another model: name a folder of the {kind}'s own.")
    if not overwrite:
        raise UserError(f"{flag} {folder} holds a {kind} already: name another, or add --overwrite.")


def checked_settings(kind: type[Kind], values: Any, name: str, source: Path) -> Kind:
    """A dataclass of numbers, texts and switches from the field `name` of config.json. source: that file, for messages."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    values = values if isinstance(values, dict) else {}
    if wrong := sorted(defaults.keys() ^ values.keys()):
        raise UserError(f"{source}: {name}.{wrong[0]} is {'missing' if wrong[0] in defaults else 'not known'}.")
    for field, default in defaults.items():
        value, number = values[field], type(default) in (int, float)
        least, limit = int(type(default) is int and default > 0), 1 if field.endswith("dropout") else 2**31
        right_type = type(value) in ((int, float) if type(default) is float else (type(default),))
        if not right_type or (number and not least <= value < limit):
            raise UserError(f"{source}: {name}.{field} is {value!r:.80}, expected something like {default!r}.")
    return kind(**values)


def load_results(path: Path, protocol: Mapping[str, Any], needs: Callable[[dict], Any]) -> dict:
    """The results so far of an interrupted experiment, or empty ones.

    protocol: settings that all results of one file share. needs: reads what is needed of a run, to see that it is there.
    """
    if not path.exists():
        return {"protocol": protocol, "runs": []}
    results = disk.read_json(path, "results of experiment.py")
    try:
        changed = differences(results["protocol"], protocol)
        found = [needs(run) for run in results["runs"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--json {path} does not hold results of experiment.py: name a new file.") from error
    if changed:
        first = next(iter(changed.values()))
        raise UserError(f"--json {path} has results of other data or settings, or of an earlier version: {first}.")
    log.info(f"{len(found)} runs are done already.")
    return results


def digest(content: object) -> str:
    """Identifies data by what they are."""
    return hashlib.sha1(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation in per cent."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{100 * np.mean(values):.2f} ± {100 * deviation:.2f}"
