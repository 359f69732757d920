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
from types import TracebackType
from typing import Any, NoReturn

from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.settings import PRECISION, PRECISIONS, expected, setting
from elmo_core.text.tokenise import LANGUAGES

UNRECOGNIZED = "unrecognized arguments: "  # begins argparse's message
_flags: dict[str, str] = {}  # of the command that runs, by the settings that they set


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, except None and False, and keeps the description's line breaks."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=36, width=110)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if default and isinstance(default, tuple):
            values = " ".join(str(value) for value in default)
            return f"{action.help} (default: {values})"
        if default in (None, False, "", ()):
            return action.help
        return super()._get_help_string(action)


class _Parser(argparse.ArgumentParser):
    """Parser of a script or of one of its commands.

    A mistake is answered in one line, without the list of flags.
    default_command: the command that is assumed if none is given.
    """

    default_command: str | None = None

    def __init__(self, **options: Any):
        options.setdefault("formatter_class", _Help)
        super().__init__(**options)

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; a missing command is the default one.

        Unknown flags are reported with the usage of the command.
        """
        args = list(sys.argv[1:] if args is None else args)
        if self.default_command:
            has_command = args and not args[0].startswith("-")
            asks_for_help = args and args[0] in ("-h", "--help")
            if not has_command and not asks_for_help:
                args.insert(0, self.default_command)
        if not self._subparsers:  # otherwise the parser of the command does it
            self._check_values(args)
            self._note_flags()
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported here, the usage and the message are the command's
            self.print_usage(sys.stderr)
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def _check_values(self, args: Sequence[str]) -> None:
        """Exit if a value is empty, such as an unset variable of the shell."""
        for arg in args:
            if not arg:
                self.error("an argument is empty")
            if re.fullmatch(r"--\w+=", arg):
                self.error(f"{arg.removesuffix('=')} is empty")

    def _note_flags(self) -> None:
        for action in self._actions:
            if action.option_strings:
                _flags[action.dest] = action.option_strings[0]

    def error(self, message: str) -> NoReturn:
        message += self._hint(message)
        self.exit(2, f"error: {message}. ({self.prog} --help lists the flags.)\n")

    def _hint(self, message: str) -> str:
        """What a message of argparse does not say, to be added to it."""
        if message.startswith(UNRECOGNIZED):
            unknown = message.removeprefix(UNRECOGNIZED).split()
            for word in unknown:
                similar = difflib.get_close_matches(word, self._option_string_actions, n=1)
                if similar:
                    return f" (did you mean {similar[0]}?)"
            if any(Path(word).exists() for word in unknown):
                return ": a glob must be in quotes, as in --dev_data_path='corpus/dev/*'"
        if message.startswith("argument --lang: invalid choice"):
            return "; any is for languages other than English and Chinese"
        return ""


def with_flags(message: str) -> str:
    """Name the settings in a message of the library by their flags.

    `save_dir` becomes --save_dir, `resume=True` --resume.
    """
    return re.sub(r"`(\w+)((?:=[^`]+)?)`", _as_flag, message)


def _as_flag(setting: re.Match) -> str:
    """The flag of a setting in backticks, with its value if it has one; the same text if none is.

    setting[1]: its name. setting[2]: = and its value, or nothing.
    """
    if setting[1] not in _flags:
        return setting[0]
    return _flags[setting[1]] + setting[2].removesuffix("=True")


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser whose --help begins with the script's docstring."""
    return _Parser(description=description)


def _number(field: dataclasses.Field, text: str) -> int | float:
    """Read the number that a flag is given, within the limits of the field."""
    kind = field.metadata["of"] or type(field.default)
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    wanted = expected(field, value)
    if wanted:
        raise argparse.ArgumentTypeError(f"{text!r:.60}: expected {wanted}")
    return value


seed = partial(_number, setting(0, below=2**32))
length_power = partial(_number, setting(0.0, below=10))


def filters(text: str) -> tuple[tuple[int, int], ...]:
    pairs = []
    try:
        for pair in text.split(","):
            width, number = pair.split(":")
            pairs.append((int(width), int(number)))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected width:number,width:number, as in 1:32,2:64"
        ) from None
    return tuple(pairs)


Group = argparse._ActionsContainer  # a parser or a group of its flags
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


def add(group: Group, *names: str, **options: Any) -> None:
    """Add flags of COMMON. options: those of `add_argument` that differ."""
    for name in names:
        merged = {**COMMON[name], **options}
        group.add_argument(f"--{name}", **merged)


def add_settings(group: Group, settings: Any, *names: str, omit: Sequence[str] = ()) -> None:
    """Add a flag for each field of a dataclass of settings that has a description.

    settings: the class, or an instance, whose values are the defaults.
    names: only these fields. omit: none of these.
    """
    for field in dataclasses.fields(settings):
        is_chosen = not names or field.name in names
        if is_chosen and field.name not in omit and field.metadata.get("help"):
            _add_setting(group, field, getattr(settings, field.name))


def _add_setting(group: Group, field: dataclasses.Field, default: Any) -> None:
    """Add the flag of a field."""
    metadata = field.metadata
    kind = metadata["of"] or type(default)
    names = [metadata.get("flag", field.name), *metadata.get("aliases", ())]
    flags = [f"--{name}" for name in names]
    options = {"help": metadata["help"], "default": default, "dest": field.name}
    if kind is bool:
        options["action"] = "store_true"
    elif metadata["choices"]:
        options["choices"] = [choice for choice in metadata["choices"] if choice]
    elif kind in (int, float):
        options["type"] = partial(_number, field)
        options["metavar"] = metadata.get("metavar", "N" if kind is int else "X")
    else:
        options["metavar"] = metadata.get("metavar", "X")
    group.add_argument(*flags, **options)


def options(function: Callable, args: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the flags that are parameters of a function."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in vars(args).items() if name in parameters}


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error of the imports without a traceback if it is the user's, or Ctrl-C.

    It may be about the version of Paddle.
    """
    if issubclass(kind, UserError):
        print(f"error: {error}", file=sys.stderr)
    elif issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


# here, since scripts import this module first
sys.excepthook = _report
