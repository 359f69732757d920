"""The commands and flags that the tasks' scripts share, made from the fields of their settings."""

import argparse
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from args import FILE, add, add_settings, options
from elmo_core.command import command_line
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError
from elmo_core.settings import Settings
from elmo_core.text.text_files import read_lines
from elmo_tasks.records import Label, ending, split_labels

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo_tasks.score import Score
    from elmo_tasks.task import Task

TABLES = {  # how pandas reads a file with this ending
    "csv": "read_csv({!r})",
    "json": "read_json({!r})",
    "jsonl": "read_json({!r}, lines=True)",
}
CONLLU = re.compile(r"# (sent_id|text) = |\d+(-\d+)?(\t[^\t]*){9}$")


def add_commands(
    parser: argparse.ArgumentParser, name: str, content: str, purpose: str
) -> list[argparse.ArgumentParser]:
    """Add the commands train, evaluate and predict, with the flags that all tasks have.

    Those of `train` are added by `add_train`.

    name: of the task. content: of the training data. purpose: of `predict`.
    """
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help=f"train a {name} and score it")
    evaluate = commands.add_parser("evaluate", help=f"score a trained {name}")
    predict = commands.add_parser("predict", help=purpose)
    add(evaluate, "model_dir", "device", "precision", "json")
    add(evaluate, "test_file", help=f"test set: {content}")
    add(predict, "model_dir", "device", "precision", "output")
    return [train, evaluate, predict]


def add_train(
    parser: argparse.ArgumentParser, settings: type[Settings], content: str, required: bool = True
) -> None:
    """Add the flags of a training: its data, and a group for each of the settings' groups.

    content: of the training data. required: whether the files are.
    """
    data = parser.add_argument_group("data")
    data.add_argument("--train_file", **FILE, required=required, help=f"training data: {content}")
    data.add_argument(
        "--dev_file",
        **FILE,
        dest="dev",
        help="dev set, which selects the best epoch (default: a tenth of --train_file)",
    )
    data.add_argument("--test_file", **FILE, help="test set, on which the best epoch is scored")
    add(data, "save_dir", required=required)
    add(data, "overwrite", "resume", "json")
    groups = {"data": data}
    for field in dataclasses.fields(settings):
        name = field.metadata.get("group", "network")
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        add_settings(groups[name], settings, field.name)
    for action in parser._actions:
        if action.dest == "elmo":
            action.type = _elmo
            action.help += "; none: no ELMo"
    add(groups["training"], "device")


def _elmo(text: str) -> str | None:
    """The value of --init_from_ckpt: "none" is no ELMo."""
    return None if text.lower() == "none" else text


def parse(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    settings: type[Settings],
) -> argparse.Namespace:
    """Parse the flags, and make the settings of a training.

    These are checked before Paddle is imported.
    """
    args = parser.parse_args(argv)
    if args.command == "train":
        args.settings = settings(**options(settings.__init__, args))
    return args


def run(args: argparse.Namespace, task: "type[Task]", **commands: Callable) -> None:
    """Train, or run another command with the trained model.

    commands: those that differ from the usual ones.
    """
    if getattr(args, "input", None):
        disk.check_input(args.input, "the data to predict", "--input")
    inputs = _inputs(args, task.settings_type)
    disk.check_output("--json", getattr(args, "json", None), *inputs)
    runtime.set_device(args.device)
    functions = {"train": train, "evaluate": evaluate} | commands
    function = functions[args.command]
    if args.command == "train":
        function(args, task)
    else:
        function(args, task(args.model_dir, **options(task.__init__, args)))


def _inputs(args: argparse.Namespace, settings: type[Settings]) -> list[Path]:
    """The files that the flags name, but for --json."""
    kinds = {field.name: field.metadata.get("metavar") for field in dataclasses.fields(settings)}
    inputs = []
    for name, value in vars(args).items():
        is_setting = isinstance(value, str) and kinds.get(name) in ("FILE", "CKPT")
        if is_setting or (isinstance(value, Path) and name != "json"):
            inputs.append(Path(value))
    return inputs


def text_lines(path: Path | None, labels: Sequence[Label], separator: str = "") -> Iterator[str]:
    """Yield the lines of text to predict, which have no labels.

    separator: between the labels of a text, if it may have several.
    """
    reader = TABLES.get(ending(path or ""))
    if reader:
        column = f"pandas.{reader.format(str(path))}['text']"
        raise UserError(
            f"{path}:1: expected a file of text, one per line. "
            f"In Python, a model predicts a column of a table: model.predict({column}). "
            "`evaluate` scores labelled files."
        )
    names = {str(label) for label in labels}
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path or 'standard input'}:{number}"
        if CONLLU.match(line):
            command = command_line("run_parse.py predict")
            raise UserError(
                f"{where}: {line!r:.60} is CoNLL-U, expected text. "
                f"`{command}` reads it, from a file that ends in .conllu."
            )
        _, tab, last_column = line.rpartition("\t")
        found = split_labels(last_column, separator) if separator else [last_column]
        if tab and found and names.issuperset(found):
            raise labelled_line(where, line)
        yield line


def labelled_line(where: str, line: str) -> UserError:
    """The error about a line with labels where text is expected."""
    return UserError(
        f"{where}: {line!r:.60} is labelled, expected text alone. "
        "Remove the labels; `evaluate` scores such files."
    )


def train(args: argparse.Namespace, task: "type[Task]", data: Any = None, test: Any = None) -> None:
    """Train; print the scores, and write --json. data, test: if no files are given."""
    trained = task.train(
        data or args.train_file,
        dev=args.dev,
        test=args.test_file or test,
        settings=args.settings,
        save_dir=args.save_dir,
        overwrite=args.overwrite,
        resume=args.resume,
        device=args.device,
    )
    for part, score in trained.scores.items():
        epoch = trained.training["epoch"]  # 0: what has been trained takes none
        of_epoch = f", epoch {epoch}" if part == "dev" and epoch else ""
        print(f"== {part}{of_epoch}: {score.summary.strip()}")
        print(score.table())
    if args.save_dir:
        print(f"saved in {args.save_dir}")
    disk.write_json(args.json, trained.report(), indent=1, ensure_ascii=False)


def evaluate(args: argparse.Namespace, task: "Task") -> "Score":
    """Print the scores of a test set, and write --json."""
    score = task.evaluate(args.test_file)
    print(f"== {args.test_file}: {score.summary}")
    print(score.table())
    disk.write_json(args.json, {"test": score.to_dict()}, indent=1, ensure_ascii=False)
    return score
