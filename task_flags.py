"""The flags that the scripts of the tasks share, made from the fields of their settings."""

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from args import FILE, add, add_settings
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import log
from elmo_core.text.text_files import read_lines
from elmo_tasks.settings import Settings
from elmo_tasks.task import Task

OUTPUTS = "json", "mistakes"  # and --output, which `script.output` checks
GROUP_LINES = 256  # lines that are predicted together
SettingsType = TypeVar("SettingsType", bound=Settings)


def add_train(
    parser: argparse.ArgumentParser, settings: type[Settings], content: str, held_out: str, required: bool = True
) -> None:
    """Add the flags of a training: its data, and a group for each of the settings' groups.

    content: of the training data. held_out: data used without --dev_file. required: whether the files and ELMo are.
    """
    data = parser.add_argument_group("data")
    data.add_argument("--train_file", **FILE, required=required, help=f"training data: {content}")
    data.add_argument("--dev_file", **FILE, help=f"dev set, which selects the best epoch (default: {held_out})")
    data.add_argument("--test_file", **FILE, help="test set, on which the best epoch is scored")
    add(data, "save_dir", required=required)
    add(data, "overwrite", "resume", "json")
    groups = {"data": data}
    for field in dataclasses.fields(settings):
        name = field.metadata["group"]
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        add_settings(groups[name], settings, field.name)
    for action in parser._actions:
        if action.dest == "elmo":
            action.required, action.type = required, lambda text: None if text.lower() == "none" else text
            action.help += "; none: no ELMo"
    add(groups["training"], "device")


def settings_of(args: argparse.Namespace, settings: type[SettingsType]) -> SettingsType:
    """Make the settings of the flags."""
    return settings(**{field.name: getattr(args, field.name) for field in dataclasses.fields(settings)})


def training_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a task's `train`, except its training data and settings."""
    if args.dev_file and args.test_file and args.dev_file.samefile(args.test_file):
        log.warning(f"{args.test_file} is both --dev_file and --test_file: the test scores will be optimistic.")
    names = ("save_dir", "overwrite", "resume", "device")
    return {"dev": args.dev_file, "test": args.test_file, **{name: getattr(args, name) for name in names}}


def report(task: Task, args: argparse.Namespace) -> None:
    """Print a trained model's scores and the weights of ELMo's mixed layers; write --json."""
    scores = task.scores
    for part, summary in scores["summary"].items():
        epoch = f", epoch {scores['epoch']}" if part == "dev" else ""
        print(f"== {part}{epoch}: {summary.strip()}")
        if part in task.results:
            print(task.results[part].table())
    for place, mix in scores["mixes"].items():
        weights = " ".join(f"{weight:.2f}" for weight in mix["layers"])
        print(f"ELMo's layers at the {place} {weights}, times {mix['gamma']:.2f}")
    if args.save_dir:
        print(f"saved in {args.save_dir}")
    disk.write_json(args.json, scores, indent=1, ensure_ascii=False)


def start(args: argparse.Namespace) -> None:
    """Raise if a file of results cannot be written or is also an input. Set the device, if the command has one."""
    outputs = [name for name in OUTPUTS if getattr(args, name, None)]
    inputs = [value for name, value in vars(args).items() if isinstance(value, Path) and name not in outputs]
    for name in outputs:
        disk.check_output(f"--{name}", getattr(args, name), *inputs)
    if "device" in args:
        runtime.set_device(args.device)


def groups_of_lines(path: Path | None) -> Iterator[Sequence[str]]:
    """Yield the lines of a file, or of standard input, some at a time."""
    return groups_of(read_lines(path))


def groups_of(items: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield items, some at a time."""
    items = iter(items)
    while group := list(islice(items, GROUP_LINES)):
        yield group
