"""Flags shared by the scripts, each declared once and with its default in --help."""

import argparse
import dataclasses
import difflib
import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.settings import PRECISION, PRECISIONS, expected, setting
from elmo_core.text.tokenise import LANGUAGES

MODEL_SIZE = "original"  # default of --model_size
_flags: dict[str, str] = {}  # of the command that runs, by the settings that they set


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, except None and False, and keeps the description's line breaks."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=36, width=110)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default and isinstance(action.default, tuple):
            return f"{action.help} (default: {' '.join(map(str, action.default))})"
        return (
            action.help
            if action.default in (None, False, "", ())
            else super()._get_help_string(action)
        )


class _Parser(argparse.ArgumentParser):
    """Parser of a script or of one of its commands. A mistake is answered in one line, without the list of flags.

    default_command: the command that is assumed if none is given.
    """

    default_command: str | None = None

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Help, **options})

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ):
        """Parse; a missing command is the default one. Unknown flags are reported with the usage of the command."""
        args = list(sys.argv[1:] if args is None else args)
        if (
            self.default_command
            and (not args or args[0].startswith("-"))
            and args[:1] not in (["-h"], ["--help"])
        ):
            args.insert(0, self.default_command)
        for arg in [] if self._subparsers else args:  # a command's parser checks its own
            if not arg or re.fullmatch(r"--\w+=", arg):  # such as an unset variable of the shell
                self.error(f"{arg.rstrip('=') or 'an argument'} is empty")
        if not self._subparsers:
            _flags.update(
                {
                    action.dest: action.option_strings[0]
                    for action in self._actions
                    if action.option_strings
                }
            )
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported here, the usage and the message are the command's
            self.print_usage(sys.stderr)
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        unknown = (
            message.removeprefix("unrecognized arguments: ").split()
            if "unrecognized" in message
            else []
        )
        known = [
            name
            for word in unknown
            for name in difflib.get_close_matches(word, self._option_string_actions, n=1)
        ]
        if known:
            message += f" (did you mean {known[0]}?)"
        elif any(Path(word).exists() for word in unknown):
            message += ": a glob must be in quotes, as in --dev_data_path='corpus/dev/*'"
        elif message.startswith("argument --lang: invalid choice"):
            message += "; any is for languages other than English and Chinese"
        self.exit(2, f"error: {message}. ({self.prog} --help lists the flags.)\n")


def with_flags(message: str) -> str:
    """Name the settings in a message of the library by their flags: `save_dir` is --save_dir, `resume=True` --resume."""

    def flag(match: re.Match) -> str:
        value = match[2].removesuffix("=True")
        return f"{_flags[match[1]]}{value}" if match[1] in _flags else match[0]

    return re.sub(r"`(\w+)((?:=[^`]+)?)`", flag, message)


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser whose --help begins with the script's docstring."""
    return _Parser(description=description)


def _number(field: dataclasses.Field, text: str) -> int | float:
    """Return the type of a flag that is a number."""
    try:
        value = (field.metadata["of"] or type(field.default))(text)
    except ValueError:
        value = math.nan
    if wanted := expected(field, value):
        raise argparse.ArgumentTypeError(f"{text!r:.60}: expected {wanted}")
    return value


seed = partial(_number, setting(0, below=2**32))


def _filters(text: str) -> tuple[tuple[int, int], ...]:
    try:
        return tuple(
            (int(width), int(number))
            for width, number in (pair.split(":") for pair in text.split(","))
        )
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected width:number,width:number, as in 1:32,2:64"
        ) from None


COUNT = {"type": partial(_number, setting(1, minimum=1)), "metavar": "N"}
FILE = {"type": disk.user_path, "metavar": "FILE"}
DIR = {**FILE, "metavar": "DIR"}
CHECKPOINT = "checkpoint, a folder (its latest checkpoint), or a published model's name"
COMMON = {  # flags of several scripts
    "device": {"default": "auto", "help": "auto, cpu, gpu or gpu:N"},
    "tf32": {
        "choices": ("auto", "off"),
        "default": "auto",
        "help": "float32 products: TF32 on GPUs that can, or full",
    },
    "precision": {"choices": PRECISIONS, "default": PRECISIONS[0], "help": PRECISION},
    "init_from_ckpt": {"metavar": "CKPT", "help": CHECKPOINT},
    "seed": {"type": seed, "metavar": "N", "default": 2020, "help": "random seed"},
    "vocab_file": {**FILE, "help": "vocabulary, one token per line"},
    "dev_data_path": {
        "metavar": "PATH",
        "help": "held-out text: a file, a folder, or a glob in quotes",
    },
    "batch_size": {**COUNT, "default": 128, "help": "rows of text per process"},
    "unroll_steps": {**COUNT, "default": 20, "help": "tokens per row and batch"},
    "model_dir": {
        **DIR,
        "required": True,
        "help": "folder of the trained model, or the name of a ready-made one",
    },
    "save_dir": {**DIR, "required": True, "help": "folder for the trained model"},
    "overwrite": {"action": "store_true", "help": "replace the model in --save_dir"},
    "resume": {"action": "store_true", "help": "continue an interrupted training"},
    "test_file": {**FILE, "required": True},
    "input": {**FILE, "help": "text (default: standard input)"},
    "lang": {"choices": LANGUAGES, "help": "tokenise text as (default: as in training)"},
    "output": {**FILE, "help": "predictions (default: standard output)"},
    "output_format": {"help": "format of the predictions"},
    "json": {**FILE, "help": "write the scores as JSON"},
}


def add(group, *names: str, **options) -> None:
    """Add flags of COMMON. options: those that differ."""
    for name in names:
        group.add_argument(f"--{name}", **{**COMMON[name], **options})


def add_settings(group, settings: Any, *names: str, omit: Sequence[str] = ()) -> None:
    """Add a flag for each field of a dataclass of settings, or of an instance, whose values are the defaults.

    names: only these fields. omit: none of these.
    """
    for field in dataclasses.fields(settings):
        if (
            (names and field.name not in names)
            or field.name in omit
            or not field.metadata.get("help")
        ):
            continue
        default = getattr(settings, field.name)
        kind = field.metadata["of"] or type(default)
        flags = [
            f"--{name}"
            for name in (field.metadata.get("flag", field.name), *field.metadata.get("aliases", ()))
        ]
        options = {"help": field.metadata["help"], "default": default, "dest": field.name}
        if kind is bool:
            options["action"] = "store_true"
        elif field.metadata["choices"]:
            options["choices"] = list(filter(None, field.metadata["choices"]))
        elif kind not in (int, float):
            options |= {"metavar": field.metadata.get("metavar", "X")}
        else:
            metavar = field.metadata.get("metavar", "N" if kind is int else "X")
            options |= {"type": partial(_number, field), "metavar": metavar}
        group.add_argument(*flags, **options)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a new model: its size, and one per field of `ELMoConfig`. None: as in the preset."""
    group = parser.add_argument_group("model", "for a new model; a checkpoint has its own")
    sizes = {
        "choices": tuple(PRESETS),
        "help": f"preset of the numbers below (default: {MODEL_SIZE})",
    }
    group.add_argument("--model_size", **sizes)
    text = "character CNN filters as width:number, e.g. 1:32,2:64"
    group.add_argument("--filters", type=_filters, metavar="W:N,...", help=text)
    add_settings(group, ELMoConfig)
    group.set_defaults(**dict.fromkeys(field.name for field in dataclasses.fields(ELMoConfig)))


def model_changes(args: argparse.Namespace) -> dict:
    """Return the fields of `ELMoConfig` that the user gave, which replace the preset's."""
    return {name: value for name, value in options(ELMoConfig, args).items() if value is not None}


def options(function: Callable, args: argparse.Namespace) -> dict:
    """Return the values of the flags that are parameters of a function."""
    return {
        name: value
        for name, value in vars(args).items()
        if name in inspect.signature(function).parameters
    }


def _report(kind: type[BaseException], error: BaseException, trace) -> None:
    """Print a UserError of the imports, for example about the version of Paddle, or Ctrl-C, without a traceback."""
    if issubclass(kind, UserError):
        print(f"error: {error}", file=sys.stderr)
    elif issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _report  # here, since scripts import this module first
