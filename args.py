"""Flags shared by the scripts, each declared once and with its default in --help."""

import argparse
import dataclasses
import difflib
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.machine.messages import UserError

MODEL_SIZE = "original"  # default of --model_size
_flags: dict[str, str] = {}  # of the command that runs, by the settings that they set


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, except None and False, and keeps the description's line breaks."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=36, width=110)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False, "", ()) else super()._get_help_string(action)


class _Parser(argparse.ArgumentParser):
    """Parser of a script or of one of its commands. A mistake is answered in one line, without the list of flags.

    default_command: the command that is assumed if none is given.
    """

    default_command: str | None = None

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Help, **options})

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None):
        """Parse, expanding `~` after `=`, as shells do not. An empty value, such as an unset shell variable, is an error."""
        args = list(sys.argv[1:] if args is None else args)
        if self.default_command and (not args or args[0].startswith("-")) and args[:1] not in (["-h"], ["--help"]):
            args.insert(0, self.default_command)
        for k, arg in enumerate([] if self._subparsers else args):  # a command's parser checks its own
            flag, is_set, value = arg.partition("=") if arg.startswith("--") else ("", "", arg)
            if not value and (is_set or not arg):
                self.error(f"{flag or (args[k - 1] if k else 'an argument')} is empty")
            if is_set and value.startswith("~/"):
                args[k] = f"{flag}={Path(value).expanduser()}"
        if not self._subparsers:
            _flags.update({action.dest: action.option_strings[0] for action in self._actions if action.option_strings})
        own = [] if self._subparsers else takewhile(lambda arg: arg != "--", args)  # what follows is another program's
        flags = [arg.partition("=")[0] for arg in own if arg.startswith("--")]
        unknown = [flag for flag in flags if not any(known.startswith(flag) for known in self._option_string_actions)]
        if not unknown:
            namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported here, the usage and the message are the command's
            self.print_usage(sys.stderr)
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split() if "unrecognized" in message else []
        known = [name for word in unknown for name in difflib.get_close_matches(word, self._option_string_actions, n=1)]
        if known:
            message += f" (did you mean {known[0]}?)"
        elif any(Path(word).exists() for word in unknown):
            message += ": a glob must be in quotes, as in --dev_data_path='corpus/dev/*'"
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


def _number(kind: type, is_valid: Callable[[float], bool], expected: str) -> Callable[[str], float]:
    """Return an argparse type: int or float, restricted to valid values."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not is_valid(value):
            raise argparse.ArgumentTypeError(f"{text!r:.60}: expected {expected}")
        return value

    return parse


positive_int = _number(int, lambda n: 0 < n < 2**31, "a whole number above 0")
non_negative_int = _number(int, lambda n: 0 <= n < 2**31, "a whole number, 0 or more")
seed = _number(int, lambda n: 0 <= n < 2**32, "a whole number from 0 to below 2**32")
fraction = _number(float, lambda x: 0 <= x < 1, "a number from 0 to below 1")
positive_float = _number(float, lambda x: 0 < x < math.inf, "a number above 0")
non_negative_float = _number(float, lambda x: 0 <= x < math.inf, "a number, 0 or more")
finite_float = _number(float, math.isfinite, "a number")


def _filters(text: str) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((int(width), int(number)) for width, number in (pair.split(":") for pair in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected width:number,width:number, as in 1:32,2:64") from None


COUNT = {"type": positive_int, "metavar": "N"}
FRACTION = {"type": fraction, "metavar": "X"}
POSITIVE = {"type": positive_float, "metavar": "X"}
WHOLE = {"type": non_negative_int, "metavar": "N"}
FILE = {"type": Path, "metavar": "FILE"}
DIR = {"type": Path, "metavar": "DIR"}


def add_device(group) -> None:
    group.add_argument("--device", default="auto", help="auto, cpu, gpu or gpu:N")


def add_checkpoint(group, required: bool = False) -> None:
    source = "checkpoint prefix or file, a folder (its latest checkpoint), or a published model's name"
    group.add_argument("--init_from_ckpt", required=required, metavar="CKPT", help=source)


def add_seed(group, default: int = 2020) -> None:
    group.add_argument("--seed", type=seed, metavar="N", default=default, help="random seed")


def add_vocabulary(group, required: bool = False) -> None:
    group.add_argument("--vocab_file", **FILE, required=required, help="vocabulary, one token per line")


def add_dev_data(group, required: bool = False) -> None:
    text = "held-out text: a file, a folder, or a glob in quotes"
    group.add_argument("--dev_data_path", required=required, metavar="PATH", help=text)


def add_batches(group, batch_size: int) -> None:
    group.add_argument("--batch_size", **COUNT, default=batch_size, help="rows of text per process")
    group.add_argument("--unroll_steps", **COUNT, default=20, help="tokens per row and batch")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a new model: its size, and one per field of `ELMoConfig`."""
    group = parser.add_argument_group("model", "for a new model; a checkpoint has its own")
    sizes = {"choices": tuple(PRESETS), "help": f"preset of the numbers below (default: {MODEL_SIZE})"}
    group.add_argument("--model_size", **sizes)
    for field in _model_fields():
        metadata = field.metadata
        options = {name: metadata[name] for name in ("choices", "metavar", "help") if name in metadata}
        if field.type is bool:
            options |= {"dest": field.name, "action": "store_const", "const": False}
            group.add_argument(f"--no_{field.name.removeprefix('use_')}", **options)
            continue
        if field.name == "filters":
            options["type"] = _filters
        elif field.type is int:
            options["type"] = positive_int if metadata["minimum"] else non_negative_int
        elif field.type is float:
            options["type"] = non_negative_float if metadata["minimum"] == 0 else finite_float
        group.add_argument(f"--{field.name}", *metadata.get("flags", ()), **options)


def model_changes(args: argparse.Namespace) -> dict:
    """The fields of `ELMoConfig` that the user gave, which replace the preset's."""
    values = {field.name: getattr(args, field.name) for field in _model_fields()}
    return {name: value for name, value in values.items() if value is not None}


def _model_fields() -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(ELMoConfig) if "help" in field.metadata]


def from_flags(kind: type, args: argparse.Namespace, **changes):
    """Fill a dataclass of settings from the flags of the same names. A flag that is None leaves the field's default."""
    fields = [field for field in dataclasses.fields(kind) if hasattr(args, field.name)]
    values = {field.name: getattr(args, field.name) for field in fields}
    no_default = {field.name for field in fields if field.default is dataclasses.MISSING}
    values = {name: value for name, value in values.items() if value is not None or name in no_default}
    return kind(**{**values, **changes})


def options(function: Callable, args: argparse.Namespace) -> dict:
    """The values of the flags that are parameters of a function."""
    return {name: value for name, value in vars(args).items() if name in inspect.signature(function).parameters}


def fill_defaults(
    parser: argparse.ArgumentParser, args: argparse.Namespace, defaults: Mapping, applies: bool, requires: str
) -> None:
    """Fill in the defaults of flags that have an effect only if `applies`; otherwise giving one is an error."""
    for name, default in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif not applies:
            parser.error(f"--{name} has no effect without {requires}")


def _report(kind: type[BaseException], error: BaseException, trace) -> None:
    """Print a UserError raised during the imports as one message, for example an unsupported version of Paddle."""
    if issubclass(kind, UserError):
        print(f"error: {error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _report  # set here, since scripts import this module first
