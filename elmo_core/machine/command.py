"""The command `elmo`, which runs the scripts of an installed library."""

import ast
import difflib
import importlib
import re
import sys
from pathlib import Path

from elmo_core import __version__

COMMANDS = {
    "preprocess": "preprocess",
    "pretrain": "run_pretrain",
    "eval": "run_eval",
    "embed": "run_embed",
    "polysemy": "run_polysemy",
    "tag": "run_tag",
    "finetune": "run_finetune",
    "read": "run_read",
    "word2vec": "word2vec_base",
    "convert": "convert",
    "export": "export_model",
}
ROOT = Path(__file__).resolve().parents[2]
IS_INSTALLED = (ROOT / "elmo_scripts").is_dir()  # otherwise the scripts are at hand
SCRIPTS = ROOT / "elmo_scripts" if IS_INSTALLED else ROOT
_NAMES = re.compile(rf"(?:python )?\b({'|'.join(COMMANDS.values())})\.py\b")
HELP = """\
usage: elmo COMMAND ...

ELMo, deep contextual word vectors from a bidirectional language model, in PaddlePaddle.

{commands}

elmo COMMAND --help shows the flags and examples of a command; elmo --version, the version. Several processes:

    python -m paddle.distributed.launch --gpus 0,1 {path} ..."""


def with_commands(text: str) -> str:
    """Name the commands instead of the scripts, such as `python run_tag.py`, where only the library is installed."""
    names = {script: f"elmo {command}" for command, script in COMMANDS.items()}
    return _NAMES.sub(lambda match: names[match[1]], text) if IS_INSTALLED else text


def main() -> None:
    """Run a command's script as `python SCRIPT` does, with its folder first on this process's path."""
    name, *argv = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        commands = "\n".join(f"    {command:12}{_summary(script)}" for command, script in COMMANDS.items())
        print(HELP.format(commands=commands, path=SCRIPTS / "run_pretrain.py"))
    elif name == "--version":
        print(f"elmo {__version__}")
    elif name in COMMANDS:
        sys.path.insert(0, str(SCRIPTS))
        sys.argv = [f"elmo {name}", *argv]
        script = importlib.import_module(COMMANDS[name])
        importlib.import_module("script").run(script.main)
    else:
        close = difflib.get_close_matches(name.removeprefix("run_").removesuffix(".py"), COMMANDS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        print(f"error: unknown command {name!r:.60}{hint}. elmo --help lists the commands.", file=sys.stderr)
        sys.exit(2)


def _summary(script: str) -> str:
    """The first line of a script's help."""
    text = (SCRIPTS / f"{script}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)).splitlines()[0]
