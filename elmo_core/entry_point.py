"""The command `elmo`, which runs the scripts from any folder."""

import difflib
import importlib
import sys
from types import ModuleType

import elmo_core
from elmo_core import command
from elmo_core.messages import UserError

HELP = """\
usage: elmo COMMAND ...

ELMo, deep contextual word vectors from a bidirectional language model, in PaddlePaddle.

{commands}

elmo COMMAND --help shows the flags and examples of a command; elmo --version, the version. Several
processes:

    python -m paddle.distributed.launch --gpus '0,1' {script} ..."""


def main() -> None:
    """Run the command line of `elmo`, with a script's messages and exit codes."""
    command.has_command = True
    # first on the path: the user may have modules of the same names
    sys.path.insert(0, str(command.SCRIPTS))
    importlib.import_module("script").run(run_command)


def run_command() -> None:
    """Run a command's script as `python SCRIPT` does."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(_help())
    elif name == "--version":
        print(f"elmo {elmo_core.__version__}")
    elif name in command.COMMANDS:
        sys.argv = [f"elmo {name}", *sys.argv[2:]]
        script = importlib.import_module(command.COMMANDS[name][0])
        _adapt_examples(script, name)
        script.main()
    else:
        raise UserError(_unknown(name))


def _help() -> str:
    lines = [f"    {name:12}{summary}" for name, (_, summary) in command.COMMANDS.items()]
    return HELP.format(commands="\n".join(lines), script=command.SCRIPTS / "run_pretrain.py")


def _adapt_examples(script: ModuleType, name: str) -> None:
    """Name the command in the script's docstring, which its --help shows.

    Paddle's launcher of several processes needs the path of the script.
    """
    file = f"{script.__name__}.py"
    text = script.__doc__.replace(f"python {file}", f"elmo {name}")
    script.__doc__ = text.replace(f" {file}", f" {command.SCRIPTS / file}")


def _unknown(name: str) -> str:
    """Return the message for a command that there is not."""
    likely = name.removeprefix("run_").removesuffix(".py")
    close = difflib.get_close_matches(likely, command.COMMANDS, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown command {name!r:.60}{hint}. elmo --help lists the commands."
