"""The command `elmo`, which runs the scripts of an installed library, or those of a clone after `pip install -e`."""

import difflib
import importlib
import sys

import elmo_core
from elmo_core.messages import COMMAND_OF, COMMANDS, SCRIPTS, with_commands

HELP = """\
usage: elmo COMMAND ...

ELMo, deep contextual word vectors from a bidirectional language model, in PaddlePaddle.

{commands}

elmo COMMAND --help shows the flags and examples of a command; elmo --version, the version. Several processes:

    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ..."""


def main() -> None:
    """Run a command's script as `python SCRIPT` does, with its folder first on this process's path."""
    name, *argv = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        commands = "\n".join(
            f"    {command:12}{summary}" for command, (_, summary) in COMMANDS.items()
        )
        print(with_commands(HELP.format(commands=commands)))
    elif name == "--version":
        print(f"elmo {elmo_core.__version__}")
    elif name in COMMANDS:
        folder = SCRIPTS if SCRIPTS.is_dir() else SCRIPTS.parent
        sys.path.insert(0, str(folder))
        sys.argv = [f"elmo {name}", *argv]
        COMMAND_OF[f"{COMMANDS[name][0]}.py"] = name  # two commands have the same script
        script = importlib.import_module(COMMANDS[name][0])
        importlib.import_module("script").run(script.main)
    else:
        close = difflib.get_close_matches(
            name.removeprefix("run_").removesuffix(".py"), COMMANDS, n=1
        )
        hint = f" (did you mean {close[0]}?)" if close else ""
        print(
            f"error: unknown command {name!r:.60}{hint}. elmo --help lists the commands.",
            file=sys.stderr,
        )
        sys.exit(2)
